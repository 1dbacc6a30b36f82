package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/containerd/nri/pkg/api"
)

// errGone is returned for a container that containerd does not have.
var errGone = errors.New("no such container")

// updateFunc asks the runtime to change containers; it returns those that it could not change.
type updateFunc func([]*api.ContainerUpdate) ([]*api.ContainerUpdate, error)

// records holds the CPU shares of all containers by containerd's record, and changes them.
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

// connect takes in the runtime's name and the records of all its containers.
func (r *records) connect(runtime string, update updateFunc, containers []*api.Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runtime, r.problem, r.update = runtime, "", update
	clear(r.shares)
	for _, one := range containers {
		r.shares[one.GetId()] = sharesOf(one)
	}
}

// disconnect forgets everything, because changes are not seen without a connection.
func (r *records) disconnect(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runtime, r.problem, r.update = "", why, nil
	clear(r.shares)
}

// note takes in a container's record.
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

// get returns the shares on a container's record.
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

// set asks the runtime to update a container. It does not hold the lock meanwhile, because events come in.
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

// sharesOf reads the shares of a container's record; 0 where it has none.
func sharesOf(container *api.Container) uint64 {
	return container.GetLinux().GetResources().GetCpu().GetShares().GetValue()
}

// plugin receives containerd's calls. It adjusts nothing on its own, so it asks only for events after the fact, and no
// container waits for it.
type plugin struct {
	records    *records
	update     updateFunc
	runtime    string
	configured chan struct{} // closed when the runtime has begun to speak
	begun      sync.Once
}

// Configure takes in the runtime's name. A runtime may call it more than once.
func (p *plugin) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	p.runtime = runtime + " " + version
	p.begun.Do(func() { close(p.configured) })
	return 0, nil
}

// Synchronize takes in all containers.
func (p *plugin) Synchronize(
	_ context.Context, _ []*api.PodSandbox, containers []*api.Container,
) ([]*api.ContainerUpdate, error) {
	p.records.connect(p.runtime, p.update, containers)
	return nil, nil
}

// PostCreateContainer takes in a new container.
func (p *plugin) PostCreateContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	p.records.note(container)
	return nil
}

// PostUpdateContainer takes in an update by another client, such as the kubelet's for a resize.
func (p *plugin) PostUpdateContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	p.records.note(container)
	return nil
}

// RemoveContainer forgets a container.
func (p *plugin) RemoveContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	p.records.forget(container.GetId())
	return nil
}
