package consensus

import "time"

const (
	// crowded is the part of transactions that come while another is under way, from which on
	// entries are spaced. A client alone, who waits for each commit, never has two under way and never waits.
	crowded = 0.1
	// crowdWeight is what one entry counts in that part: some 30 entries are remembered.
	crowdWeight = 1.0 / 32
)

// pacer keeps a leader's entries interval apart while transactions come in crowds. An entry costs every
// orderer and every peer its wake-ups, however many transactions it carries: at half load that is most of
// the ledger's CPU. It adds at most interval to a transaction's latency. The clock is its caller's.
type pacer struct {
	interval time.Duration
	crowd    float64 // moving average: 1 for an entry that had company, else 0
	last     time.Time
}

// proposed notes an entry: whether another transaction was under way when it was made, in it or before it.
func (p *pacer) proposed(now time.Time, company bool) {
	p.last = now
	p.crowd -= crowdWeight * p.crowd
	if company {
		p.crowd += crowdWeight
	}
}

// wait is how long the next entry has to wait; 0 or less: not at all.
func (p *pacer) wait(now time.Time) time.Duration {
	if p.crowd < crowded {
		return 0
	}
	return p.last.Add(p.interval).Sub(now)
}
