package consensus

// Syncer makes the ledger durable beside the goroutine that applies, which calls its methods: megabytes may be waiting.
type Syncer struct {
	sync    func() error
	every   int // every is how many bytes are applied between two syncs
	bytes   int // bytes were applied since the last sync began
	running bool
	done    chan error
}

// NewSyncer makes a syncer that calls sync after each so many bytes.
func NewSyncer(every int, sync func() error) *Syncer {
	return &Syncer{sync: sync, every: every, done: make(chan error, 1)}
}

// Applied counts bytes that a restart would have to apply again.
func (s *Syncer) Applied(bytes int) { s.bytes += bytes }

// Due reports whether it is time for Begin.
func (s *Syncer) Due() bool { return !s.running && s.bytes >= s.every }

// Begin starts a sync of all that was applied so far.
func (s *Syncer) Begin() {
	s.running, s.bytes = true, 0
	go func() { s.done <- s.sync() }()
}

// Done has a value when a sync has ended, which is to be given to End.
func (s *Syncer) Done() <-chan error { return s.done }

// End lets the next sync begin.
func (s *Syncer) End(err error) error {
	s.running = false
	return err
}

// Close waits for a sync that is under way: it uses the ledger, which closes later.
func (s *Syncer) Close() error {
	if !s.running {
		return nil
	}
	return s.End(<-s.done)
}
