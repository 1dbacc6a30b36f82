package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
)

// The protocol is one JSON object a line, each answered by one. Shares are in cgroup v1 units, as in containerd's record.
//
//	{"op": "state"}                                   -> {"ok": true, "runtime": "containerd v2.1.4", "containers": 12}
//	{"op": "get", "container": ID}                    -> {"ok": true, "shares": 102}
//	{"op": "set", "container": ID, "shares": 4096}    -> {"ok": true, "shares": 4096}
//
// A request that fails is answered {"ok": false, "error": TEXT}, with "gone": true if there is no such container. ID is
// the runtime's own, without a scheme.

// Bounds of shares: Linux, kernel/sched/sched.h.
const (
	minShares = 2
	maxShares = 262144
)

// maxLine is the length limit of a request in bytes.
const maxLine = 4096

type request struct {
	Op        string `json:"op"`
	Container string `json:"container"`
	Shares    uint64 `json:"shares"`
}

type answer struct {
	OK         bool   `json:"ok"`
	Runtime    string `json:"runtime,omitempty"`
	Containers int    `json:"containers,omitempty"`
	Shares     uint64 `json:"shares,omitempty"`
	Error      string `json:"error,omitempty"`
	Gone       bool   `json:"gone,omitempty"`
}

// serve answers every connection until the listener is closed.
func serve(listener net.Listener, records *records) error {
	for {
		connection, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = connection.Close() }()
			converse(connection, records)
		}()
	}
}

// converse answers one connection, line by line, until it ends or a line is too long.
func converse(connection net.Conn, records *records) {
	lines := bufio.NewScanner(connection)
	lines.Buffer(make([]byte, 0, maxLine), maxLine)
	out := json.NewEncoder(connection)
	for lines.Scan() {
		if out.Encode(reply(lines.Bytes(), records)) != nil {
			return
		}
	}
}

// reply answers one line.
func reply(line []byte, records *records) answer {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return refusal(fmt.Errorf("not a request: %w", err))
	}
	switch asked.Op {
	case "state":
		runtime, containers, err := records.state()
		if err != nil {
			return refusal(err)
		}
		return answer{OK: true, Runtime: runtime, Containers: containers}
	case "get":
		shares, err := records.get(asked.Container)
		if err != nil {
			return refusal(err)
		}
		return answer{OK: true, Shares: shares}
	case "set":
		if asked.Shares < minShares || asked.Shares > maxShares {
			return refusal(fmt.Errorf("shares %d: accepted are %d to %d", asked.Shares, minShares, maxShares))
		}
		if err := records.set(asked.Container, asked.Shares); err != nil {
			return refusal(err)
		}
		return answer{OK: true, Shares: asked.Shares}
	}
	return refusal(fmt.Errorf("op %q: accepted are state, get, set", asked.Op))
}

func refusal(err error) answer {
	return answer{Error: err.Error(), Gone: errors.Is(err, errGone)}
}
