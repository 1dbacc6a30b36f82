package load

import (
	"context"
	"fmt"
	"time"

	"github.com/qioi/qioi/ledger/internal/wire"
)

// target is a system under load. Its methods may be called by many workers at once, after connect.
type target interface {
	// connect waits until the system answers, so that a wrong address is one clear
	// line and not a failure per operation.
	connect(ctx context.Context) error
	// setup makes what operations need and cannot make themselves, such as tables. What is there already is as good.
	setup(ctx context.Context) error
	// do takes one operation through the system. Its number chooses the node where there are several.
	do(ctx context.Context, i int, c call) outcome
	close() error
}

// outcome is what became of one operation.
type outcome struct {
	txID                    string // or the key that an operation was about; empty: nothing was ordered
	block                   uint64
	endorse, submit, commit time.Duration // of the stages that were reached; a ledger's transactions have them
	failedAt                stage         // empty: committed as valid
	code                    string        // gRPC code, validation code at stageCommit, or a database's error
	detail                  string        // what the system said about a failure
	lost                    bool          // a write's answer was lost; failedAt says what was found out about it
	unknown                 bool          // it was lost, and nothing could be found out
}

// open is the outcome of a write whose answer was lost, and of which nothing can be found out.
func (o outcome) open(detail string) outcome {
	o.lost, o.unknown, o.failedAt, o.code, o.detail = true, true, stageCommit, codeUnknown, detail
	return o
}

// How an operation reaches the system.
const (
	freshConnection = "connection" // each on a connection of its own
	freshProcess    = "process"    // each from a process of its own
)

// opening makes a target; its argument is the number of the only operation that it is for, or everyOne.
type opening func(i int) (target, error)

const everyOne = -1

// opening says how the network's target is made.
func (o *options) opening(net *description, channel string) (opening, []string, error) {
	switch net.Mode {
	case systemCassandra:
		nodes, err := net.replicas(o.peers)
		if err != nil {
			return nil, nil, err
		}
		all, err := net.replicas(nil)
		return func(i int) (target, error) { return newCassandra(narrow(nodes, i), len(all), o) }, names(nodes), err
	case systemMySQL, systemMariaDB:
		nodes, err := net.replicas(o.peers)
		if err != nil {
			return nil, nil, err
		}
		// Only the first one, the primary, takes writes; what it has acknowledged is read there.
		return func(int) (target, error) { return newMySQL(net.Mode, nodes[0], o) }, names(nodes[:1]), nil
	}
	endpoints, err := net.endpoints(o.peers)
	if err != nil {
		return nil, nil, err
	}
	gap, err := net.gap()
	if err != nil {
		return nil, nil, err
	}
	pace := wire.New(gap)
	return func(i int) (target, error) { return newGateways(narrow(endpoints, i), channel, pace, o) }, names(endpoints), nil
}

// narrow gives the node whose turn operation i is, or all.
func narrow[T any](nodes []T, i int) []T {
	if i == everyOne {
		return nodes
	}
	i %= len(nodes)
	return nodes[i : i+1]
}

func names[T interface{ String() string }](nodes []T) []string {
	var found []string
	for _, n := range nodes {
		found = append(found, n.String())
	}
	return found
}

// transact does one operation of a run, through a connection or process of its own where that is asked for: its making
// and ending are then a part of what the operation takes.
func (r *run) transact(ctx context.Context, i int, c call) outcome {
	if r.fresh == nil {
		return r.target.do(ctx, i, c)
	}
	one, err := r.fresh(i)
	if err != nil {
		return unreached(err)
	}
	defer func() { _ = one.close() }() // nothing is lost with it
	if err := one.connect(ctx); err != nil {
		return unreached(err)
	}
	return one.do(ctx, i, c)
}

func unreached(err error) outcome {
	return outcome{failedAt: stageConnect, code: "UNAVAILABLE", detail: err.Error()}
}

// readers are the functions that change nothing, by chaincode.
var readers = map[string]map[string]bool{
	"kv":  {"get": true},
	"scm": {"days_of_supply": true, "bullwhip": true},
}

func unknownSchema(system, name, accepted string) error {
	return fmt.Errorf("--chaincode %q: system %s has %s", name, system, accepted)
}
