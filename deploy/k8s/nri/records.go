package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/containerd/nri/pkg/api"
)

// errGone says that containerd has no such container, or no longer.
var errGone = errors.New("no such container")

// updateFunc asks the runtime to change containers; it returns those that it could not change.
type updateFunc func([]*api.ContainerUpdate) ([]*api.ContainerUpdate, error)

// records are the CPU shares of all containers by containerd's record, and the way to change them.
type records struct {
	mu      sync.Mutex
	shares  map[string]uint64 // by container
	runtime string            // name and version; empty while not connected
	problem string            // why it is not connected
	update  updateFunc
}

func newRecords() *records {
	return &records{shares: map[string]uint64{}, problem: "not connected yet"}
}

// connect takes in what the runtime has said of all its containers.
func (r *records) connect(runtime string, update updateFunc, containers []*api.Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runtime, r.problem, r.update = runtime, "", update
	clear(r.shares)
	for _, one := range containers {
		r.shares[one.GetId()] = sharesOf(one)
	}
}

// disconnect forgets everything: changes are not seen from here on.
func (r *records) disconnect(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runtime, r.problem, r.update = "", why, nil
	clear(r.shares)
}

// note takes in what a container's record says now.
func (r *records) note(container *api.Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shares[container.GetId()] = sharesOf(container)
}

// forget drops a container that is gone.
func (r *records) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.shares, id)
}

// state gives the runtime's name and version, and the number of its containers.
func (r *records) state() (runtime string, containers int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.update == nil {
		return "", 0, errors.New(r.problem)
	}
	return r.runtime, len(r.shares), nil
}

// get gives the shares on a container's record.
func (r *records) get(id string) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.update == nil {
		return 0, errors.New(r.problem)
	}
	shares, known := r.shares[id]
	if !known {
		return 0, fmt.Errorf("%s: %w", id, errGone)
	}
	return shares, nil
}

// set has the runtime update a container. It is not called while the lock is held: events come in meanwhile.
func (r *records) set(id string, shares uint64) error {
	if _, err := r.get(id); err != nil {
		return err
	}
	r.mu.Lock()
	update := r.update
	r.mu.Unlock()
	if update == nil {
		return errors.New("the connection to containerd has just ended")
	}
	wanted := &api.ContainerUpdate{}
	wanted.SetContainerId(id)
	wanted.SetLinuxCPUShares(shares)
	failed, err := update([]*api.ContainerUpdate{wanted})
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return fmt.Errorf("containerd has not updated %s", id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.shares[id]; known {
		r.shares[id] = shares
	}
	return nil
}

// sharesOf reads a container's record; 0 where it says nothing.
func sharesOf(container *api.Container) uint64 {
	return container.GetLinux().GetResources().GetCpu().GetShares().GetValue()
}

// plugin is what containerd calls. It adjusts nothing on its own, so it asks for events after the fact only: no
// container waits for it.
type plugin struct {
	records    *records
	update     updateFunc
	runtime    string
	configured chan struct{} // closed when the runtime has begun to speak
	begun      sync.Once
}

// Configure learns who the runtime is. A runtime may say it more than once.
func (p *plugin) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	p.runtime = runtime + " " + version
	p.begun.Do(func() { close(p.configured) })
	return 0, nil
}

// Synchronize learns of all containers.
func (p *plugin) Synchronize(
	_ context.Context, _ []*api.PodSandbox, containers []*api.Container,
) ([]*api.ContainerUpdate, error) {
	p.records.connect(p.runtime, p.update, containers)
	return nil, nil
}

// PostCreateContainer learns of a new container.
func (p *plugin) PostCreateContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	p.records.note(container)
	return nil
}

// PostUpdateContainer learns what another client has asked for, such as the kubelet for a resize.
func (p *plugin) PostUpdateContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	p.records.note(container)
	return nil
}

// RemoveContainer learns of a container's end.
func (p *plugin) RemoveContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	p.records.forget(container.GetId())
	return nil
}
