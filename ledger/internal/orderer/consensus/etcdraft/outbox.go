package etcdraft

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/pace"
	"github.com/qioi/qioi/ledger/internal/process"
)

// outbox is what leaves a node, and all that delays or gathers it: pacer spaces a leader's entries, notices holds back
// messages without entries, spares those to followers that no majority needs, and a repeated acknowledgement is not sent.
// It is of the run goroutine. When due has a value that goroutine calls sendDue; after paced has one, ready may say yes.
type outbox struct {
	self     uint64
	transmit func(*raftpb.Message)
	members  func() []uint64 // members are the ids after the last configuration that was applied
	tick     time.Duration   // tick is for how long an acknowledgement is not repeated
	hold     time.Duration   // hold is Delays.Hold

	pacer   pace.Pacer
	notices notices
	spares  spares
	acked   ack

	alarm      *process.Alarm // alarm rings when the pacer lets the next entry go
	alarmSetTo time.Time      // alarmSetTo is the time that alarm was set for last
	release    *time.Timer    // release fires when something held is due
}

func newOutbox(cfg *Config, transmit func(*raftpb.Message), members func() []uint64) (*outbox, error) {
	alarm, err := process.NewAlarm()
	if err != nil {
		return nil, err
	}
	return &outbox{
		self: cfg.ID, transmit: transmit, members: members, tick: cfg.Raft.TickInterval, hold: cfg.Delays.Hold,
		pacer:   pace.Pacer{Interval: cfg.Delays.Pace, Most: cfg.Delays.MostPace},
		notices: notices{shelf{atMost: cfg.Delays.Hold}}, spares: spares{shelf: shelf{atMost: cfg.Delays.SpareHold}},
		alarm: alarm, release: consensus.StoppedTimer(),
	}, nil
}

func (o *outbox) paced() <-chan struct{} { return o.alarm.C }

func (o *outbox) due() <-chan time.Time { return o.release.C }

func (o *outbox) close() error {
	o.release.Stop()
	return o.alarm.Close()
}

// ready reports whether it is time for the next entry. Where it is not, paced has a value when it is.
func (o *outbox) ready() bool {
	wait := o.pacer.Wait(time.Now())
	if wait <= 0 {
		return true
	}
	if until := o.pacer.Next(); until != o.alarmSetTo {
		o.alarmSetTo = until
		process.PreciseTimers()
		o.alarm.Set(wait)
	}
	return false
}

// send hands messages to the transport, or holds them back.
func (o *outbox) send(messages []*raftpb.Message) {
	now := time.Now()
	if o.hold > 0 { // until the next entry, which may be further away
		o.notices.atMost = max(o.hold, o.pacer.Spacing()+time.Millisecond)
	}
	for _, m := range messages {
		if m.GetTo() != o.self && !o.repeats(m, now) && !o.holds(m, now) {
			o.transmit(m)
		}
	}
	o.armRelease(now)
}

// holds keeps back what may wait. What already waits for a spare follower goes before what may not. Where processors
// are so short that entries take long, no follower is spare: any of them may be the first that gets to run.
func (o *outbox) holds(m *raftpb.Message, now time.Time) bool {
	if m.GetType() != raftpb.MsgApp {
		return false
	}
	if o.spares.atMost > 0 && !o.pacer.Slow() && o.spares.spare(m.GetTo(), o.self, o.members()) && o.spares.hold(m, now) {
		return true
	}
	o.deliver(o.spares.take(m.GetTo()))
	return o.notices.hold(m, now)
}

// sendDue sends what has waited long enough.
func (o *outbox) sendDue(now time.Time) {
	if wait, holds := o.notices.wait(now); holds && wait <= 0 {
		o.sendAll(&o.notices.shelf)
	}
	if wait, holds := o.spares.wait(now); holds && wait <= 0 {
		o.sendAll(&o.spares.shelf)
	}
	o.armRelease(now)
}

// sendHeld sends all that waits.
func (o *outbox) sendHeld() {
	o.sendAll(&o.notices.shelf)
	o.sendAll(&o.spares.shelf)
}

func (o *outbox) sendAll(s *shelf) {
	for _, messages := range s.release() {
		o.deliver(messages)
	}
}

func (o *outbox) deliver(messages []*raftpb.Message) {
	for _, m := range messages {
		o.transmit(m)
	}
}

// unreachable notes that messages to a follower are being lost. A spare one may be needed in its place.
func (o *outbox) unreachable(id uint64) {
	o.spares.unreachable(id)
	o.sendAll(&o.spares.shelf)
}

// newTerm forgets what the old term was about to send.
func (o *outbox) newTerm() {
	o.pacer.Forget()
	o.notices.release()
	o.spares.forget()
}

func (o *outbox) armRelease(now time.Time) {
	wait, holds := o.notices.wait(now)
	if other, also := o.spares.wait(now); also && (!holds || other < wait) {
		wait, holds = other, true
	}
	if holds {
		o.release.Reset(wait)
	}
}

// ack is the last acknowledgement that went out.
type ack struct {
	to, term, index uint64
	at              time.Time
}

// repeats reports whether a message only acknowledges what the one before did. Raft also answers the message that tells
// a follower what is committed, once for each transaction on an idle ledger. After a tick the repetition may go: should
// the first one have been lost, the leader's next heartbeat brings it about.
func (o *outbox) repeats(m *raftpb.Message, now time.Time) bool {
	if m.GetType() != raftpb.MsgAppResp || m.GetReject() {
		return false
	}
	before := o.acked
	if before.to == m.GetTo() && before.term == m.GetTerm() && before.index == m.GetIndex() && now.Sub(before.at) < o.tick {
		return true
	}
	o.acked = ack{to: m.GetTo(), term: m.GetTerm(), index: m.GetIndex(), at: now}
	return false
}
