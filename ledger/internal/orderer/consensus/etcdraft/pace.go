package etcdraft

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

// pacer keeps a leader's entries interval apart while transactions come in crowds. An entry costs every
// orderer and every peer its wake-ups, however many transactions it carries: at half load that is most of
// the ledger's CPU. It adds at most an interval to a transaction's latency. The clock is its caller's.
//
// Where an entry takes long, because processors are short, more of them only make it longer: then the interval grows
// to half of that time, up to most.
type pacer struct {
	interval, most time.Duration
	crowd          float64       // moving average: 1 for an entry that had company, else 0
	took           time.Duration // moving average: from an entry's proposal until it is applied
	last           time.Time
	timed          uint64 // the entry that is being timed; 0: none
	since          time.Time
}

// appended begins to time the entry at index, unless one before it is being timed.
func (p *pacer) appended(index uint64, now time.Time) {
	if p.timed == 0 {
		p.timed, p.since = index, now
	}
}

// applied notes that all entries up to index are.
func (p *pacer) applied(index uint64, now time.Time) {
	if p.timed != 0 && p.timed <= index {
		p.took += (now.Sub(p.since) - p.took) / tookWeight
		p.timed = 0
	}
}

// forget is for the end of a term: what was proposed may never be applied.
func (p *pacer) forget() { p.timed = 0 }

// proposed notes an entry: whether another transaction was under way when it was made, in it or before it.
func (p *pacer) proposed(now time.Time, company bool) {
	p.last = now
	p.crowd -= crowdWeight * p.crowd
	if company {
		p.crowd += crowdWeight
	}
}

// spacing is how far entries are apart at present.
func (p *pacer) spacing() time.Duration {
	if p.crowd < crowded {
		return 0
	}
	return max(p.interval, min(p.took/2, p.most))
}

// slow reports whether entries take so long that the interval grows.
func (p *pacer) slow() bool { return p.interval > 0 && p.took/2 > p.interval }

// next is when it is time for the next entry.
func (p *pacer) next() time.Time { return p.last.Add(p.spacing()) }

// wait is how long it has to wait; 0 or less: not at all.
func (p *pacer) wait(now time.Time) time.Duration { return p.next().Sub(now) }
