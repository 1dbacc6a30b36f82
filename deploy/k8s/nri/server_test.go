package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/containerd/nri/pkg/api"
)

// container makes a record as the runtime gives it.
func container(id string, shares uint64) *api.Container {
	return &api.Container{Id: id, Linux: &api.LinuxContainer{
		Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(shares)}},
	}}
}

// connected gives records of two containers; what the runtime is asked for is noted, and answered with outcome.
func connected(asked *[]uint64, outcome func(*api.ContainerUpdate) ([]*api.ContainerUpdate, error)) *records {
	all := newRecords()
	all.connect("containerd v2", func(updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		for _, one := range updates {
			*asked = append(*asked, one.GetLinux().GetResources().GetCpu().GetShares().GetValue())
		}
		return outcome(updates[0])
	}, []*api.Container{container("a", 102), container("b", 0)})
	return all
}

func well(*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil }

func TestRequestsAreAnswered(t *testing.T) {
	var asked []uint64
	all := connected(&asked, well)
	for _, one := range []struct {
		line string
		want answer
	}{
		{`{"op":"state"}`, answer{OK: true, Runtime: "containerd v2", Containers: 2}},
		{`{"op":"get","container":"a"}`, answer{OK: true, Shares: 102}},
		{`{"op":"get","container":"b"}`, answer{OK: true}},
		{`{"op":"set","container":"a","shares":4096}`, answer{OK: true, Shares: 4096}},
		{`{"op":"get","container":"a"}`, answer{OK: true, Shares: 4096}},
		{`{"op":"get","container":"c"}`, answer{Error: "c: no such container", Gone: true}},
		{`{"op":"set","container":"c","shares":4096}`, answer{Error: "c: no such container", Gone: true}},
		{`{"op":"set","container":"a","shares":1}`, answer{Error: "shares 1: accepted are 2 to 262144"}},
		{`{"op":"set","container":"a","shares":262145}`, answer{Error: "shares 262145: accepted are 2 to 262144"}},
		{`{"op":"go"}`, answer{Error: `op "go": accepted are state, get, set`}},
		{`nonsense`, answer{Error: "not a request: invalid character 'o' in literal null (expecting 'u')"}},
	} {
		if got := reply([]byte(one.line), all); got != one.want {
			t.Errorf("%s: got %+v, want %+v", one.line, got, one.want)
		}
	}
	if len(asked) != 1 || asked[0] != 4096 {
		t.Errorf("the runtime was asked for %v, want 4096 once", asked)
	}
}

func TestAnUpdateThatFailsChangesNoRecord(t *testing.T) {
	for name, outcome := range map[string]func(*api.ContainerUpdate) ([]*api.ContainerUpdate, error){
		"refused": func(*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, errors.New("no") },
		"not done": func(one *api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
			return []*api.ContainerUpdate{one}, nil
		},
		"connection": func(*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, net.ErrClosed },
	} {
		var asked []uint64
		all := connected(&asked, outcome)
		if got := reply([]byte(`{"op":"set","container":"a","shares":4096}`), all); got.OK || got.Error == "" {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
		if shares, err := all.get("a"); shares != 102 || err != nil {
			t.Errorf("%s: the record says %d, %v, want 102", name, shares, err)
		}
	}
}

// A container's record may change between the runtime's answer and its arrival: the kubelet resizes it, or it is gone.
func TestWhatIsNotedDuringAnUpdateStays(t *testing.T) {
	for name, one := range map[string]struct {
		meanwhile func(*records)
		want      uint64
		err       error
	}{
		"nothing":           {func(*records) {}, 4096, nil},
		"another container": {func(r *records) { r.note(container("b", 51)) }, 4096, nil},
		"another value":     {func(r *records) { r.note(container("a", 204)) }, 204, nil},
		"the value before":  {func(r *records) { r.note(container("a", 102)) }, 4096, nil}, // a cpuset's, just before ours
		"the same request":  {func(r *records) { _ = r.set("a", 4096) }, 4096, nil},
		"its end":           {func(r *records) { r.forget("a") }, 0, errGone},
		"a new connection": {func(r *records) {
			update := r.update
			r.disconnect("it went away")
			r.connect("containerd v2", update, []*api.Container{container("a", 306)})
		}, 306, nil},
	} {
		var asked []uint64
		var all *records
		all = connected(&asked, func(*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
			if len(asked) == 1 {
				one.meanwhile(all)
			}
			return nil, nil
		})
		if err := all.set("a", 4096); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := all.get("a"); got != one.want || !errors.Is(err, one.err) {
			t.Errorf("%s: %d, %v, want %d, %v", name, got, err, one.want, one.err)
		}
	}
}

func TestEventsChangeTheRecord(t *testing.T) {
	var asked []uint64
	ctx, plugin := context.Background(), &plugin{records: connected(&asked, well)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(plugin.PostCreateContainer(ctx, nil, container("c", 51)))
	must(plugin.PostUpdateContainer(ctx, nil, container("a", 204)))
	must(plugin.RemoveContainer(ctx, nil, container("b", 0)))
	for id, want := range map[string]uint64{"a": 204, "c": 51} {
		if got, err := plugin.records.get(id); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", id, got, err, want)
		}
	}
	if _, err := plugin.records.get("b"); !errors.Is(err, errGone) {
		t.Errorf("b: %v, want that it is gone", err)
	}
	plugin.records.disconnect("it went away")
	if got := reply([]byte(`{"op":"get","container":"a"}`), plugin.records); got != (answer{Error: "it went away"}) {
		t.Errorf("not connected: got %+v", got)
	}
}

func TestASocketTakesManyLinesAndOutlivesAPredecessor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) // as after a kill
	_ = first.Close()
	listener, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	var asked []uint64
	ended := make(chan error, 1)
	go func() { ended <- serve(listener, connected(&asked, well)) }()
	connection, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(connection)
	for range 3 {
		if _, err := connection.Write([]byte("{\"op\":\"state\"}\n")); err != nil {
			t.Fatal(err)
		}
		var got answer
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &got) != nil || !got.OK {
			t.Fatalf("got %q", lines.Bytes())
		}
	}
	if _, err := connection.Write(make([]byte, maxLine+1)); err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("a line that is too long was answered: %q", lines.Bytes())
	}
	_ = listener.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
