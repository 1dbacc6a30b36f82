// Package contracts serves the bundled contracts as chaincode processes.
package contracts

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/contracts/fabcoin"
	"github.com/qioi/qioi/ledger/internal/contracts/kv"
	"github.com/qioi/qioi/ledger/internal/contracts/marbles"
	"github.com/qioi/qioi/ledger/internal/contracts/scm"
	"github.com/qioi/qioi/ledger/internal/contracts/simple"
	"github.com/qioi/qioi/ledger/internal/contracts/smallbank"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/process"
	"github.com/qioi/qioi/ledger/internal/shim"
	"github.com/qioi/qioi/ledger/internal/wire"
)

var log = ops.Logger("chaincode")

// bundled are the contracts by the name that the command takes.
var bundled = map[string]func() shim.Contract{
	"smallbank": smallbank.New,
	"simple":    simple.New,
	"marbles":   marbles.New,
	"fabcoin":   fabcoin.New,
	"kv":        kv.New,
	"scm":       scm.New,
}

func names() string { return strings.Join(slices.Sorted(maps.Keys(bundled)), ", ") }

type options struct {
	listen     string
	id         string
	operations ops.Config
	processors int
	tls        shim.TLS
	wireGap    time.Duration
}

// Command is `qioi-ledger chaincode`.
func Command() *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "chaincode NAME",
		Short: "Serve a contract (" + names() + ") as chaincode-as-a-service",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			process.Tune(opts.processors, opts.wireGap)
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return run(ctx, args[0], opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.listen, "listen", os.Getenv("CHAINCODE_SERVER_ADDRESS"),
		"host:port that peers dial (default: CHAINCODE_SERVER_ADDRESS)")
	flags.StringVar(&opts.id, "id", os.Getenv("CHAINCODE_ID"), "id to register with, NAME:VERSION (default: CHAINCODE_ID, or NAME:1.0)")
	flags.StringVar(&opts.tls.Cert, "tls-cert", os.Getenv("CHAINCODE_TLS_CERT"), "its TLS certificate, PEM (default: CHAINCODE_TLS_CERT, or no TLS)")
	flags.StringVar(&opts.tls.Key, "tls-key", os.Getenv("CHAINCODE_TLS_KEY"), "the key of it (default: CHAINCODE_TLS_KEY)")
	flags.StringVar(&opts.tls.ClientCA, "client-ca", os.Getenv("CHAINCODE_CLIENT_CA_CERT"), "authority of the only peers that may connect, PEM (default: CHAINCODE_CLIENT_CA_CERT, or any peer)")
	flags.StringVar(&opts.operations.Listen, "operations", "", "host:port of the operations endpoint (default: none)")
	flags.BoolVar(&opts.operations.Pprof, "pprof", false, "serve /debug/pprof on the operations endpoint")
	flags.IntVar(&opts.processors, "processors", 0, "threads on which it may run at once (0: as many as the host has)")
	flags.DurationVar(&opts.wireGap, "wire-gap", 0, "least time between two writes to a connection under load (0: none)")
	return cmd
}

func run(ctx context.Context, name string, opts options) error {
	newContract, ok := bundled[name]
	if !ok {
		return fmt.Errorf("chaincode %q is not bundled: %s are accepted", name, names())
	}
	if opts.listen == "" {
		return fmt.Errorf("chaincode %s: no address to listen on: give --listen host:port or CHAINCODE_SERVER_ADDRESS", name)
	}
	if opts.id == "" {
		opts.id = name + ":1.0"
	}
	secured, err := opts.tls.Config()
	if err != nil {
		return fmt.Errorf("chaincode %s: %w", name, err)
	}
	listener, err := net.Listen("tcp", opts.listen)
	if err != nil {
		return fmt.Errorf("chaincode %s: %w (a free host:port is accepted)", name, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	if opts.operations.Listen != "" {
		operations, err := ops.Listen(opts.operations)
		if err != nil {
			_ = listener.Close()
			return err
		}
		operations.SetReady()
		group.Go(func() error { return operations.Serve(ctx) })
	}
	log.Infof("chaincode %s serves on %s", opts.id, listener.Addr())
	group.Go(func() error {
		return shim.NewServer(opts.id, newContract(), secured).Serve(ctx, wire.New(opts.wireGap).Listener(listener))
	})
	return group.Wait()
}
