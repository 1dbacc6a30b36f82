// Command qioi-nri keeps containerd's record of a container's CPU shares at the value that QiOi has set.
//
// It is a plugin of NRI, the runtime's node resource interface, and speaks to the daemon beside it over a Unix socket
// (server.go says how). Without it QiOi writes the files of control groups alone. With it, containerd writes QiOi's
// value, and not an older one, when it updates a container for another reason (a cpuset, a memory limit).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

// Pauses between two attempts to reach containerd: the first, and the longest.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
)

// configured within this time after it was reached, or containerd is asked anew: the stub itself would wait for ever.
const patience = 10 * time.Second

func main() {
	runtime := flag.String("runtime", api.DefaultSocketPath, "containerd's NRI `socket`")
	own := flag.String("listen", "/run/qioi-nri/qioi-nri.sock", "the `socket` on which the daemon is answered")
	index := flag.String("index", "90", "the plugin's `place` among others, two digits")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "qioi-nri: %q: accepted are flags only\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := run(ctx, *runtime, *own, *index); err != nil {
		fmt.Fprintf(os.Stderr, "qioi-nri: %v\n", err)
		os.Exit(1)
	}
}

// run answers the daemon and follows containerd until ctx ends.
func run(ctx context.Context, runtime, own, index string) error {
	listener, err := listen(own)
	if err != nil {
		return err
	}
	records := newRecords()
	go func() {
		<-ctx.Done()
		_ = listener.Close()
	}()
	go follow(ctx, records, runtime, index)
	return serve(listener, records)
}

// listen opens the daemon's socket, for its own user only. The socket of a plugin that was killed is removed first.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	before := syscall.Umask(0o177)
	defer syscall.Umask(before)
	return net.Listen("unix", path)
}

// follow keeps the plugin registered: containerd may start later than this, and be restarted at any time.
func follow(ctx context.Context, records *records, runtime, index string) {
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := attend(ctx, records, runtime, index, patience)
		records.disconnect(fmt.Sprintf("%s: %v", runtime, err))
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		slog.Info("not connected to containerd", "socket", runtime, "error", err, "again", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(lastPause, 2*pause)
	}
}

// attend registers once, and returns when the connection ends.
func attend(ctx context.Context, records *records, runtime, index string, patience time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", runtime)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	plugin := &plugin{records: records, configured: make(chan struct{})}
	one, err := stub.New(plugin, stub.WithPluginName("qioi"), stub.WithPluginIdx(index), stub.WithConnection(connection))
	if err != nil {
		return err
	}
	plugin.update = one.UpdateContainers
	ended := make(chan error, 1)
	go func() { ended <- one.Run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-plugin.configured:
		return <-ended
	case <-time.After(patience):
		// Between its registration and Configure the stub sees neither the connection's end nor the context's, and
		// Stop would wait for the lock that it holds there. So that goroutine stays; it holds only its own memory, a
		// few kB for each runtime that accepts a registration and then hangs.
		return fmt.Errorf("registered, but not configured within %v", patience)
	}
}
