package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

const (
	// A window has at least so many places: enough to keep two cores busy.
	leastPlaces = 24

	// conflictShare is the share of transactions in conflict up to which a window grows.
	// Each conflict takes windowStep of it away, so that it follows within some dozen conflicts.
	conflictShare = 0.01
	windowStep    = 0.05

	// How long an endorsed transaction keeps its place without being submitted, and an ordered
	// one without being committed here.
	submitPatience = 500 * time.Millisecond
	commitPatience = 5 * time.Second

	// While calls wait, an endorsed transaction keeps its place as long as all but lateShare of those take that are
	// submitted. Each late one lengthens that by patienceStep of it.
	firstPatience = 100 * time.Millisecond
	leastPatience = 10 * time.Millisecond
	lateShare     = 0.01
	patienceStep  = 0.25
)

var errFull = errors.New("too many proposals wait to be simulated")

// window bounds how many transactions of a channel are between their simulation and their
// commit. As long as a transaction is there, another one can write what it has read. So where
// many transactions conflict, they wait before their simulation rather than after it: that
// takes no longer, and they read newer values. Without conflicts none waits.
type window struct {
	limit int // of places, and of calls that wait for one

	mu       sync.Mutex
	places   float64
	inside   int
	queue    []chan struct{}     // calls that wait for a place, in order; closed with the place
	endorsed map[string]endorsed // by transaction id: those that wait to be submitted
	patience time.Duration       // patience is how long such a one keeps its place while calls wait
	overdue  int                 // overdue is how many have their place for longer, because none waits
}

// endorsed is a transaction that its client has to submit next.
type endorsed struct {
	timer *time.Timer
	late  bool // late is whether it takes longer than the window's patience
	gone  bool // gone is whether its place is given up already
}

func newWindow(limit int) *window {
	return &window{limit: limit, places: float64(limit), endorsed: map[string]endorsed{}, patience: firstPatience}
}

// enter waits for a place; errFull where too many wait already.
func (w *window) enter(ctx context.Context) error {
	w.mu.Lock()
	if len(w.queue) == 0 && w.inside < int(w.places) {
		w.inside++
		w.mu.Unlock()
		return nil
	}
	if len(w.queue) >= w.limit {
		w.mu.Unlock()
		return errFull
	}
	turn := make(chan struct{})
	w.queue = append(w.queue, turn)
	w.yield()
	w.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.queue, turn); i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
	} else {
		w.free() // it was given a place at this very moment
	}
	return ctx.Err()
}

func (w *window) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free()
}

// free gives a place back, and free places to waiting calls; the caller holds the lock.
func (w *window) free() {
	w.inside--
	for len(w.queue) > 0 && w.inside < int(w.places) {
		w.inside++
		close(w.queue[0])
		w.queue = w.queue[1:]
	}
}

// learn fits the number of places to what became of a transaction.
func (w *window) learn(code peerpb.TxValidationCode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch code {
	case peerpb.TxValidationCode_VALID:
		w.places = min(w.places*(1+windowStep*conflictShare), float64(w.limit))
	case peerpb.TxValidationCode_MVCC_READ_CONFLICT, peerpb.TxValidationCode_PHANTOM_READ_CONFLICT:
		w.places = max(w.places*(1-windowStep), float64(min(leastPlaces, w.limit)))
	}
}

// keep holds the place of a transaction that its client has to submit next. A client may take
// any time to sign; the place is given up earlier.
func (w *window) keep(txID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e, again := w.endorsed[txID]; again {
		if !e.gone {
			w.free() // the same proposal again: one place is enough
			return
		}
		e.timer.Stop()
	}
	patience := w.patience
	w.endorsed[txID] = endorsed{timer: time.AfterFunc(patience, func() { w.tire(txID, submitPatience-patience) })}
}

// tire is called when an endorsed transaction has not been submitted in time, and again after the rest of submitPatience.
func (w *window) tire(txID string, rest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, waits := w.endorsed[txID]
	if !waits {
		return
	}
	if e.late || rest <= 0 {
		w.forget(txID, e)
		if !e.gone {
			w.free()
		}
		return
	}
	e.late, e.gone = true, len(w.queue) > 0
	w.endorsed[txID] = e
	e.timer.Reset(rest)
	if e.gone {
		w.free()
	} else {
		w.overdue++
	}
}

// yield gives overdue places to calls that wait; the caller holds the lock.
func (w *window) yield() {
	if w.overdue == 0 {
		return
	}
	for txID, e := range w.endorsed {
		if e.late && !e.gone {
			e.gone = true
			w.endorsed[txID] = e
			w.free()
		}
	}
	w.overdue = 0
}

func (w *window) forget(txID string, e endorsed) {
	if e.late && !e.gone {
		w.overdue--
	}
	delete(w.endorsed, txID)
}

// take says whether the transaction still has a place; it is the caller's to leave from now on.
func (w *window) take(txID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, waits := w.endorsed[txID]
	if !waits {
		return false
	}
	e.timer.Stop()
	w.forget(txID, e)
	if e.late {
		w.patience = min(w.patience+time.Duration(patienceStep*float64(w.patience)), submitPatience)
	} else {
		w.patience = max(w.patience-time.Duration(patienceStep*lateShare*float64(w.patience)), leastPatience)
	}
	return !e.gone
}

// windows are those of the channels.
type windows struct {
	limit    int
	registry prometheus.Registerer // may be nil

	mu       sync.Mutex
	channels map[string]*window
}

// of returns a channel's window; nil where blocks are filled, because transactions wait for each other there.
func (ws *windows) of(bundle *channelconfig.Bundle) *window {
	if bundle.Orderer.Mode != channelconfig.Stream {
		return nil
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.channels[bundle.ChannelID]
	if w == nil {
		w = newWindow(ws.limit)
		ws.channels[bundle.ChannelID] = w
		ws.show(bundle.ChannelID, w)
	}
	return w
}

func (ws *windows) show(channelID string, w *window) {
	if ws.registry == nil {
		return
	}
	gauge := func(name, help string, read func() int) {
		ws.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "qioi", Subsystem: "gateway", Name: name, Help: help, ConstLabels: prometheus.Labels{"channel": channelID},
		}, func() float64 {
			w.mu.Lock()
			defer w.mu.Unlock()
			return float64(read())
		}))
	}
	gauge("window_places", "Transactions that may be between simulation and commit at once: fewer where they conflict.", func() int { return int(w.places) })
	gauge("window_inside", "Transactions between simulation and commit.", func() int { return w.inside })
	gauge("window_waiting", "Proposals that wait to be simulated.", func() int { return len(w.queue) })
}

// watchCommit gives the place of an ordered transaction back when it is committed.
func (s *Server) watchCommit(w *window, channelID, txID string) {
	ctx, cancel := context.WithTimeout(s.life, commitPatience)
	defer cancel()
	if code, _, err := s.config.Commits.Status(ctx, channelID, txID); err == nil {
		w.learn(code)
	}
	w.leave()
}
