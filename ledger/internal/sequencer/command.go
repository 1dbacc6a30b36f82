package sequencer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/process"
	"github.com/qioi/qioi/ledger/internal/serving"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
)

var log = ops.Logger("sequencer")

// limits has pings taken that are more frequent than the facades'.
var limits = serving.Limits{MessageBytes: MostMessage, MinPing: 100 * time.Millisecond}

type options struct {
	listen, data        string
	channels            []string
	memory              bool
	operations          ops.Config
	cert, key, clientCA string
	processors          int
}

// Command is `qioi-ledger sequencer`.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "sequencer --listen HOST:PORT --data DIR --channel NAME",
		Short: "Run the sequencer, which keeps the order of what its facades, the orderers, bring to it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			process.Tune(o.processors, 0)
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return run(ctx, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "", "host:port that the facades dial")
	f.StringVar(&o.data, "data", "", "folder of its logs, which no other process may use")
	f.StringArrayVar(&o.channels, "channel", nil, "channel to keep a log of; repeat for several")
	f.BoolVar(&o.memory, "memory", false, "answer before the log is on disk, as simulated NVDIMM: a power cut loses what was answered")
	f.StringVar(&o.cert, "tls-cert", "", "its TLS certificate, PEM (default: no TLS)")
	f.StringVar(&o.key, "tls-key", "", "the key of it")
	f.StringVar(&o.clientCA, "client-ca", "", "authority of the facades' TLS certificates, PEM")
	f.StringVar(&o.operations.Listen, "operations", "", "host:port of the operations endpoint (default: none)")
	f.BoolVar(&o.operations.Pprof, "pprof", false, "serve /debug/pprof on the operations endpoint")
	f.IntVar(&o.processors, "processors", 0, "threads on which it may run at once (0: as many as the host has)")
	for _, name := range []string{"listen", "data", "channel"} {
		_ = cmd.MarkFlagRequired(name) // it exists: a line above made it
	}
	return cmd
}

func run(ctx context.Context, o options) (err error) {
	secured, err := o.secured()
	if err != nil {
		return fmt.Errorf("sequencer: %w", err)
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("sequencer: %w (a free host:port is accepted)", err)
	}
	defer func() { _ = listener.Close() }() // serving has closed it, where it came to that
	logs := map[string]*Log{}
	defer func() {
		for _, l := range logs {
			err = errors.Join(err, l.Close())
		}
	}()
	for _, name := range o.channels {
		if !filepath.IsLocal(name) || filepath.Base(name) != name {
			return fmt.Errorf("sequencer: channel %q: the name of a folder is accepted", name)
		}
		opened, err := Open(filepath.Join(o.data, name), o.memory)
		if err != nil {
			return fmt.Errorf("sequencer: %w", err)
		}
		logs[name] = opened
		last, chain := opened.Last()
		log.Infof("[channel: %s] The log is read up to number %d, chain %x", name, last, chain[:8])
	}
	if o.memory {
		log.Warnf("--memory: what is answered is in this host's memory, as in simulated NVDIMM: it outlives the process, but not a power cut")
	}
	server, sequencer := serving.Server(limits, secured, counted(mostRequest/blobHead)), NewServer(logs)
	group, ctx := errgroup.WithContext(ctx)
	if o.operations.Listen != "" {
		operations, err := ops.Listen(o.operations)
		if err != nil {
			return err
		}
		sequencer.Register(operations.Registry())
		operations.SetReady()
		group.Go(func() error { return operations.Serve(ctx) })
	}
	sequencerpb.RegisterSequencerServer(server, sequencer)
	group.Go(func() error { return sequencer.Run(ctx) })
	group.Go(func() error { return serving.Serve(ctx, server, listener) })
	log.Infof("The sequencer serves on %s", listener.Addr())
	return group.Wait()
}

// secured has both sides show a certificate; nil: TLS is off.
func (o *options) secured() (*tls.Config, error) {
	if o.cert == "" && o.key == "" && o.clientCA == "" {
		log.Warnf("TLS is off: whoever reaches the sequencer may order")
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	text, err := os.ReadFile(o.clientCA)
	if err != nil {
		return nil, fmt.Errorf("--client-ca: %w", err)
	}
	out := serving.Secured(&pair, tls.RequireAndVerifyClientCert)
	out.ClientCAs = x509.NewCertPool()
	if !out.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--client-ca %s: a PEM certificate is accepted", o.clientCA)
	}
	return out, nil
}
