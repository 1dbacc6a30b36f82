package chain

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/qioi/qioi/ledger/internal/statedb"
)

// Word is an orderer's word for all of the order before a position: the running hash there (protoutil.RunningHash).
type Word struct {
	Position
	Hash string
}

// Judgement is what this peer knows of a word.
type Judgement int

// Judgements. Unknown is a word for what this peer has not received yet, or no longer remembers.
const (
	Unknown Judgement = iota
	Agrees
	Contradicts
)

// maxWords bounds what is kept of one orderer's words, which may be ahead of what this peer has received.
const maxWords = 4096

// words counts the orderers that say of the open block's transactions what this peer has received. As many as one more than
// may lie cannot all lie, so what that many agree to is the order, ahead of the seal; and what that many contradict is not.
type words struct {
	advanced chan struct{}                    // has an item when more is vouched for
	lied     chan lie                         // has an item when what was received is not the order
	told     atomic.Pointer[statedb.Snapshot] // the newest state that is vouched for

	mu      sync.Mutex
	need    int // equal words; below 2 none are counted
	run     *base
	open    uint64              // the block that is not sealed
	ours    map[uint64][]string // of it and, unless it was sealed before the start, the one before: the hash before the first transaction, then that after each
	said    map[string]*speaker // by orderer
	states  []reachedState      // not vouched for yet
	vouched Position            // all before it is vouched for
	denied  bool                // as many contradict what is open as have to vouch for it
	toldAt  Position            // of that, what the state that is told of this run has
	shownAt Position            // and of any run: what was told of one that was taken back is still so
	agreed  []Position          // scratch
}

// lie says that a run was contradicted.
type lie struct {
	run *base
	why error
}

// speaker is an orderer, as far as it has said words.
type speaker struct {
	kept    []Word // of the open block and later, ascending
	next    int    // of those: the first that is not judged
	agreed  Position
	against bool // it has contradicted what is open
}

type reachedState struct {
	at    Position
	state *statedb.Snapshot
}

func newWords(run *base, sealed *mark, open []string) *words {
	w := &words{advanced: make(chan struct{}, 1), lied: make(chan lie, 1), run: run, ours: map[uint64][]string{}, said: map[string]*speaker{}}
	w.sealed(sealed)
	w.ours[w.open] = append(w.ours[w.open], open...)
	return w
}

// reached notes the running hash after the next transaction.
func (w *words) reached(hash string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ours[w.open] = append(w.ours[w.open], hash)
	w.judgeAll()
}

// offer notes the state at a position, for when it is vouched for. Of one position there is one state.
func (w *words) offer(at Position, state *statedb.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The orderer that is followed may repeat its word for one position without end.
	if last := len(w.states) - 1; last >= 0 && !w.states[last].at.Before(at) {
		w.states[last] = reachedState{at, state}
	} else {
		w.states = append(w.states, reachedState{at, state})
	}
	w.tell()
}

// sealed goes on after a block that is sealed: a quorum of orderers has vouched for all of it.
func (w *words) sealed(m *mark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.words != w.need {
		w.need, w.said = m.words, map[string]*speaker{}
	}
	delete(w.ours, w.open-1)
	w.open, w.states = m.Blocks, nil
	w.vouched = Position{Block: m.Blocks}
	w.toldAt, w.shownAt = w.vouched, w.vouched
	w.ours[w.open] = []string{string(m.Hash)}
	w.told.Store(m.state)
	for _, s := range w.said {
		s.against, s.next = false, 0
		s.kept = slices.DeleteFunc(s.kept, func(word Word) bool { return word.Before(w.vouched) })
	}
	w.judgeAll()
}

// rewound forgets the open block, not what orderers have said of it.
func (w *words) rewound(run *base) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run, w.states = run, nil
	w.ours[w.open] = w.ours[w.open][:1]
	w.vouched = Position{Block: w.open}
	w.toldAt = w.vouched
	for _, s := range w.said {
		s.against, s.next, s.agreed = false, 0, Position{}
	}
	w.judgeAll()
}

// stayed goes on with the open block as it is: what comes follows another base.
func (w *words) stayed(run *base) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run = run
}

// decided reports whether enough orderers have vouched for all before a position. Where as many contradict it, more lie than
// may, and nothing is.
func (w *words) decided(at Position) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.denied && !w.vouched.Before(at)
}

// say takes an orderer's word.
func (w *words) say(orderer string, word Word) Judgement {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.ours[word.Block]; !known && word.Block < w.open {
		return Unknown // for good: kept, it would keep those after it from being judged
	}
	s := w.said[orderer]
	if s == nil {
		s = &speaker{}
		w.said[orderer] = s
	}
	if n := len(s.kept); n == 0 || s.kept[n-1].Before(word.Position) {
		if n >= maxWords {
			s.kept = append(s.kept[:0], s.kept[n/2:]...)
			s.next = max(0, s.next-n/2)
		}
		s.kept = append(s.kept, word)
		w.judgeAll()
	}
	return w.judge(word)
}

func (w *words) judge(word Word) Judgement {
	ours, known := w.ours[word.Block]
	switch {
	case !known || word.Tx >= uint64(len(ours)) && word.Block == w.open:
		return Unknown
	case word.Tx < uint64(len(ours)) && ours[word.Tx] == word.Hash:
		return Agrees
	}
	return Contradicts
}

// judgeAll compares what was said with what was received since. The caller holds the lock.
func (w *words) judgeAll() {
	if w.need < 2 {
		return
	}
	against := 0
	agreed := w.agreed[:0]
	for _, s := range w.said {
		for ; s.next < len(s.kept); s.next++ {
			verdict := w.judge(s.kept[s.next])
			if verdict == Unknown {
				break
			}
			if verdict == Agrees {
				s.agreed = s.kept[s.next].Position
			} else {
				s.against = s.against || s.kept[s.next].Block == w.open && s.kept[s.next].Tx > 0
			}
		}
		if s.against {
			against++
		}
		agreed = append(agreed, s.agreed)
	}
	if w.denied = against >= w.need; w.denied {
		select {
		case w.lied <- lie{w.run, fmt.Errorf("%d orderers have another order", against)}:
		default:
		}
	}
	w.agreed = agreed
	if len(agreed) < w.need {
		return
	}
	slices.SortFunc(agreed, func(a, b Position) int { return b.compare(a) })
	if to := agreed[w.need-1]; w.vouched.Before(to) {
		w.vouched = to
		w.tell()
	}
}

// tell makes the newest state that is vouched for the one that is told. Commits are told up to there, not further: who has
// heard of one sees it.
func (w *words) tell() {
	n := 0
	for n < len(w.states) && !w.vouched.Before(w.states[n].at) {
		n++
	}
	if n == 0 {
		return
	}
	w.toldAt = w.states[n-1].at
	if w.shownAt.Before(w.toldAt) {
		w.told.Store(w.states[n-1].state)
		w.shownAt = w.toldAt
	}
	w.states = w.states[n:]
	select {
	case w.advanced <- struct{}{}:
	default:
	}
}

// covered is how far clients may be told of a run.
func (w *words) covered(run *base) Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	if run.taken != w.run.taken {
		return Position{}
	}
	return w.toldAt
}

// Needed is how many orderers' equal words this peer tells clients by, ahead of the seal; below 2 no words are asked for.
func (c *Chain) Needed() int { return c.ledger.last.Load().words }

// Say takes an orderer's word for what it may not have sent itself.
func (c *Chain) Say(orderer string, word Word) Judgement { return c.pipeline.words.say(orderer, word) }

// Standing is how far an orderer has agreed to what this peer has received, and whether it has contradicted that.
func (c *Chain) Standing(orderer string) (agreed Position, against bool) {
	w := c.pipeline.words
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.said[orderer]
	if s == nil {
		return Position{}, false
	}
	return s.agreed, s.against
}

// Reached is the position after the last transaction that was judged.
func (c *Chain) Reached() Position {
	w := c.pipeline.words
	w.mu.Lock()
	defer w.mu.Unlock()
	return Position{w.open, uint64(len(w.ours[w.open]) - 1)}
}

// Told is the newest state that clients may be told of.
func (c *Chain) Told() *statedb.Snapshot {
	if c.Needed() < 2 {
		return c.Snapshot()
	}
	return c.pipeline.words.told.Load()
}
