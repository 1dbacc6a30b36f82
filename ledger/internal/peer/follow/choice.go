package follow

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// suspectedFor is for how long an orderer that has withheld something is neither followed as the leader nor asked what
// there is, in patiences; each time that it does so again twice as long, mostDoublings times at most. It is followed when
// its turn comes: it may have been slow, or without a majority.
const (
	suspectedFor  = 12
	mostDoublings = 6
)

// mostPatience bounds how patience grows, in patiences, while changes of the orderer bring nothing.
const mostPatience = 12

// choice says which orderers are followed. It is of one goroutine.
type choice struct {
	patience  time.Duration
	next      int             // of the channel's addresses
	liars     map[string]bool // their seals did not verify, or they sent what nobody orders
	suspected map[string]suspicion
	sent      senders
	claim     errWithheld // what the next one has said it has, and another one did not give; zero: nothing

	vain  int    // how often the orderer was changed on suspicion since a block came
	block uint64 // the one that was waited for at the last of these changes
}

// suspicion is that of an orderer.
type suspicion struct {
	until   time.Time
	times   int
	accuser string // who has said that there is what it did not give; empty: nobody had to
}

func newChoice(first int, patience time.Duration) *choice {
	return &choice{
		patience: patience, next: first, liars: map[string]bool{}, suspected: map[string]suspicion{}, sent: senders{},
	}
}

// pick gives the next orderer. It errs when all lie.
func (c *choice) pick(addresses []string) (string, error) {
	if !slices.ContainsFunc(addresses, func(a string) bool { return !c.liars[a] }) {
		return "", fmt.Errorf("no orderer sends what fits this peer's chain (%d orderers tried)", len(addresses))
	}
	for {
		address := addresses[c.next%len(addresses)]
		c.next++
		if !c.liars[address] {
			return address, nil
		}
	}
}

// prefer makes that one the next.
func (c *choice) prefer(index int) { c.next = index }

// suspect notes that an orderer withholds a block. The one who says that it has it is the next, and has to give it: where
// it does not, the word of it against others counts no more.
func (c *choice) suspect(address string, why errWithheld, addresses []string, now time.Time) {
	if why.next > c.block {
		c.vain, c.block = 0, why.next
	}
	c.vain++
	c.distrust(address, why.witness, now)
	if why.witness == address {
		maps.DeleteFunc(c.suspected, func(other string, s suspicion) bool { return s.accuser == address && other != address })
		return
	}
	if witness := slices.Index(addresses, why.witness); witness >= 0 {
		c.prefer(witness)
		c.claim = why
	}
}

// avoid notes that an orderer was followed when the open block was taken back: it lies, or somebody before it did. Others
// would name it as the leader at once again, and a leader that lies could have this peer take back its block each time.
func (c *choice) avoid(address string, now time.Time) { c.distrust(address, "", now) }

func (c *choice) distrust(address, accuser string, now time.Time) {
	s := c.suspected[address]
	s.until, s.accuser = now.Add(suspectedFor*c.patience<<min(s.times, mostDoublings)), accuser
	s.times++
	c.suspected[address] = s
}

// owed is what an orderer has said it has, when it is followed for that.
func (c *choice) owed(address string) (block uint64, ok bool) {
	claim := c.claim
	c.claim = errWithheld{}
	return claim.block, claim.witness == address
}

// trusted says whether an orderer's word of others counts, and others' word of it.
func (c *choice) trusted(address string, now time.Time) bool {
	return !c.liars[address] && now.After(c.suspected[address].until)
}

// patienceNow is how long a block may be overdue.
func (c *choice) patienceNow() time.Duration {
	return min(c.patience<<min(c.vain, mostDoublings), mostPatience*c.patience)
}
