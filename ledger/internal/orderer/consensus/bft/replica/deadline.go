package replica

import (
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/process"
)

// nearby is up to when a deadline must be on time. A process may sleep some milliseconds longer than a timer asks for
// (package process), which does not matter to one that waits for a fault.
const nearby = 50 * time.Millisecond

// deadline is when the core wants to hear that time has passed. One of its channels then has a value; it may have one
// before.
type deadline struct {
	far  *time.Timer
	near *process.Alarm
	at   time.Time // that one of them was set for last
	soon bool      // it was near
}

func newDeadline() (*deadline, error) {
	near, err := process.NewAlarm()
	return &deadline{far: consensus.StoppedTimer(), near: near}, err
}

func (d *deadline) set(at time.Time) {
	if at.Equal(d.at) && time.Now().Before(at) {
		return
	}
	wait, soon := time.Until(at), d.soon
	d.at, d.soon = at, wait <= nearby
	if d.soon {
		process.PreciseTimers()
		d.near.Set(wait)
		return
	}
	if soon {
		d.near.Stop()
	}
	d.far.Reset(wait)
}

func (d *deadline) close() {
	d.far.Stop()
	_ = d.near.Close() // it has nothing to lose
}
