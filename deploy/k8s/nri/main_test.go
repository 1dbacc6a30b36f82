package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
)

// halfway is a runtime that takes a plugin's registration, and does no more.
type halfway struct{ registered chan string }

func (h *halfway) RegisterPlugin(_ context.Context, asked *api.RegisterPluginRequest) (*api.Empty, error) {
	h.registered <- asked.GetPluginIdx() + "-" + asked.GetPluginName()
	return &api.Empty{}, nil
}

func (h *halfway) UpdateContainers(
	context.Context, *api.UpdateContainersRequest,
) (*api.UpdateContainersResponse, error) {
	return &api.UpdateContainersResponse{}, nil
}

func TestARuntimeThatEndsBeforeItConfiguresIsLeft(t *testing.T) {
	for name, dies := range map[string]bool{"dies": true, "hangs": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "nri.sock")
			listener, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = listener.Close() }()
			ended := make(chan error, 1)
			go func() { ended <- attend(context.Background(), newRecords(), path, "90", 10*time.Second) }()
			connection, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			both := multiplex.Multiplex(connection)
			calls, err := both.Listen(multiplex.RuntimeServiceConn)
			if err != nil {
				t.Fatal(err)
			}
			server, err := ttrpc.NewServer()
			if err != nil {
				t.Fatal(err)
			}
			runtime := &halfway{registered: make(chan string, 1)}
			api.RegisterRuntimeService(server, runtime)
			go func() { _ = server.Serve(context.Background(), calls) }()
			select {
			case got := <-runtime.registered:
				if got != "90-qioi" {
					t.Errorf("registered as %s", got)
				}
			case err := <-ended:
				t.Fatalf("it ended before it has registered: %v", err)
			case <-time.After(30 * time.Second): // far longer than it takes
				t.Fatal("it does not register")
			}
			if dies {
				time.Sleep(100 * time.Millisecond) // so that the answer is mostly there before
				_ = both.Close()
			}
			select {
			case err := <-ended:
				if err == nil || (!dies && !strings.Contains(err.Error(), "not configured")) {
					t.Errorf("it ended with: %v", err)
				}
			case <-time.After(30 * time.Second): // far longer than it takes
				t.Fatal("it waits for ever")
			}
		})
	}
}

func TestARuntimeMayConfigureTwice(t *testing.T) {
	plugin := &plugin{records: newRecords(), configured: make(chan struct{})}
	for _, version := range []string{"v2.1.4", "v2.2.0"} {
		if _, err := plugin.Configure(context.Background(), "", "containerd", version); err != nil {
			t.Fatal(err)
		}
	}
	<-plugin.configured
	if plugin.runtime != "containerd v2.2.0" {
		t.Errorf("the runtime is %s", plugin.runtime)
	}
}
