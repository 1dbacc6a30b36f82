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

// record is a container's CPU shares by containerd's record.
type record struct {
	shares uint64
	change uint64 // the number of the last change that another client has made
}

// records holds the records of all containers, and changes them.
type records struct {
	mu      sync.Mutex
	known   map[string]record // by container
	changes uint64            // made by other clients
	runtime string            // name and version; empty while not connected
	problem string            // why it is not connected
	update  updateFunc
}

func newRecords() *records {
	return &records{known: map[string]record{}, problem: "not connected yet"}
}

// connect takes in the runtime's name and the records of all its containers.
func (r *records) connect(runtime string, update updateFunc, containers []*api.Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runtime, r.problem, r.update = runtime, "", update
	clear(r.known)
	for _, one := range containers {
		r.take(one)
	}
}

// disconnect forgets everything, because changes are not seen without a connection.
func (r *records) disconnect(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runtime, r.problem, r.update = "", why, nil
	clear(r.known)
}

// note takes in a container's record.
func (r *records) note(container *api.Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(container)
}

// take takes in a container's record. The caller holds the lock.
func (r *records) take(container *api.Container) {
	id, shares := container.GetId(), sharesOf(container)
	if one, known := r.known[id]; !known || one.shares != shares {
		r.changes++
		r.known[id] = record{shares, r.changes}
	}
}

// forget drops a container that is gone.
func (r *records) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, id)
}

// state gives the runtime's name and version, and the number of its containers.
func (r *records) state() (runtime string, containers int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.update == nil {
		return "", 0, errors.New(r.problem)
	}
	return r.runtime, len(r.known), nil
}

// get returns the shares on a container's record.
func (r *records) get(id string) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, err := r.look(id)
	return one.shares, err
}

// look returns a container's record. The caller holds the lock.
func (r *records) look(id string) (record, error) {
	if r.update == nil {
		return record{}, errors.New(r.problem)
	}
	one, known := r.known[id]
	if !known {
		return record{}, fmt.Errorf("%s: %w", id, errGone)
	}
	return one, nil
}

// set asks the runtime to update a container. It does not hold the lock meanwhile, because events come in.
func (r *records) set(id string, shares uint64) error {
	r.mu.Lock()
	before, err := r.look(id)
	update := r.update
	r.mu.Unlock()
	if err != nil {
		return err
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
	// Another client may have updated the container meanwhile. Its event tells of the record before or after our update.
	// A value that is not the one before is the client's own, such as the kubelet's for a resize, and has to be seen.
	if one, known := r.known[id]; known && one.change == before.change {
		r.known[id] = record{shares, one.change}
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
