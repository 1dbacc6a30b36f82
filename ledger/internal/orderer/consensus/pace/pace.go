// Package pace spaces the entries of a leader.
package pace

import "time"

const (
	// crowded is the share of entries with more than one transaction under way from which on
	// entries are spaced. A single client that waits for each commit never has two under way, so its entries never wait.
	crowded = 0.1
	// crowdWeight is what one entry counts in that part: some 30 entries are remembered.
	crowdWeight = 1.0 / 32
	// tookWeight is how many entries' times are averaged.
	tookWeight = 16
)

// Pacer keeps a leader's entries Interval apart while transactions come in crowds. An entry costs every
// orderer and every peer its wake-ups, however many transactions it carries: at half load that is most of
// the ledger's CPU. It adds at most Interval to a transaction's latency. The clock is its caller's.
//
// Where an entry takes long, because processors are short, more of them only make it longer: then the interval grows
// to half of that time, up to Most.
type Pacer struct {
	// Interval is the time between two entries while transactions come in crowds; 0: entries are not spaced.
	Interval time.Duration
	// Most is what Interval grows to at most; 0: it does not grow.
	Most time.Duration

	crowd float64       // moving average: 1 for an entry that had company, else 0
	took  time.Duration // moving average: from an entry's proposal until it is applied
	last  time.Time
	timed uint64 // the entry that is being timed; 0: none
	since time.Time
}

// Appended begins to time the entry at index, unless one before it is being timed.
func (p *Pacer) Appended(index uint64, now time.Time) {
	if p.timed == 0 {
		p.timed, p.since = index, now
	}
}

// Applied notes that all entries up to index are.
func (p *Pacer) Applied(index uint64, now time.Time) {
	if p.timed != 0 && p.timed <= index {
		p.took += (now.Sub(p.since) - p.took) / tookWeight
		p.timed = 0
	}
}

// Forget is for the end of a term: what was proposed may never be applied.
func (p *Pacer) Forget() { p.timed = 0 }

// Proposed notes an entry: whether another transaction was under way when it was made, in it or before it.
func (p *Pacer) Proposed(now time.Time, company bool) {
	p.last = now
	p.crowd -= crowdWeight * p.crowd
	if company {
		p.crowd += crowdWeight
	}
}

// Spacing is how far entries are apart at present.
func (p *Pacer) Spacing() time.Duration {
	if p.crowd < crowded {
		return 0
	}
	return max(p.Interval, min(p.took/2, p.Most))
}

// Slow reports whether entries take so long that the interval grows.
func (p *Pacer) Slow() bool { return p.Interval > 0 && p.took/2 > p.Interval }

// Next is when it is time for the next entry.
func (p *Pacer) Next() time.Time { return p.last.Add(p.Spacing()) }

// Wait is how long it has to wait; 0 or less: not at all.
func (p *Pacer) Wait(now time.Time) time.Duration { return p.Next().Sub(now) }
