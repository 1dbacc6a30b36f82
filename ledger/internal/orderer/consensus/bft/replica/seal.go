package replica

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// seals gathers a quorum of signatures for each block. Each replica closes the same block by itself, signs it, and sends
// its signature to the others. One that has its quorum answers whoever still asks.
type seals struct {
	n   *Node
	ctx context.Context // of Run; set before the first block

	// Of the goroutine that applies: who signs the block that is open, which are not those of a configuration in it.
	members []uint64
	number  uint32 // this replica's, as the configuration has it

	mu     sync.Mutex
	open   *sealing
	early  map[uint64]map[uint64]*commonpb.MetadataSignature // of blocks not closed here yet, by member
	sealed uint64                                            // blocks below it are sealed
	ration bft.Ration                                        // of blocks that are read to answer a member
	began  time.Time
}

// sealing is a block that waits for signatures.
type sealing struct {
	header     *commonpb.BlockHeader
	lastConfig uint64
	consenter  []byte
	quorum     int
	check      func(*commonpb.MetadataSignature) (by uint32, err error)
	by         map[uint32]*commonpb.MetadataSignature
	enough     chan struct{}
}

const (
	// askAgain is after how long a replica repeats its signature, which others take for a question.
	askAgain = 500 * time.Millisecond
	// earlyBlocks is how many blocks ahead of this replica a member's signatures are kept for.
	earlyBlocks = 1024
	// readBytes is how much of blocks is read for one member in askAgain: for one that closes them late, many small ones.
	readBytes = 32 << 20
	// maxEarly bounds what is kept of a signature before it can be checked: an identity is 16 KiB at most, and the messages
	// that a liar fills are of megabytes.
	maxEarly = 32 << 10
	// leastChunk is how many bytes a signature takes at least in a message: its length.
	leastChunk = 1
)

func newSeals(n *Node) *seals {
	return &seals{
		n: n, early: map[uint64]map[uint64]*commonpb.MetadataSignature{},
		ration: bft.Ration{Every: askAgain, Bytes: readBytes}, began: time.Now(),
	}
}

// learn takes over who signs from now on. Applying.
func (s *seals) learn() {
	s.members = s.n.host.Members()
	for i, id := range s.members {
		if id == s.n.settings.ID {
			s.number = s.n.settings.Bundle().Orderer.Numbers[i]
		}
	}
}

// skip says how many blocks there are: others may have sealed them.
func (s *seals) skip(height uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = height
}

// Seal implements chain.Sealer.
func (s *seals) Seal(header *commonpb.BlockHeader, lastConfig uint64, consenter []byte) (*commonpb.BlockMetadata, error) {
	bundle := s.n.settings.Bundle()
	o := &sealing{
		header: header, lastConfig: lastConfig, consenter: consenter, quorum: channelconfig.Quorum(len(bundle.Orderer.Consenters)),
		check: func(signature *commonpb.MetadataSignature) (uint32, error) {
			return protoutil.CheckConsenter(signature, header, lastConfig, consenter, bundle.MSP, bundle.Orderer.Identities)
		},
		by: map[uint32]*commonpb.MetadataSignature{}, enough: make(chan struct{}),
	}
	own, err := protoutil.SignAsConsenter(s.n.settings.Signer, s.number, header, lastConfig, consenter)
	if err != nil {
		return nil, err
	}
	members := s.members
	s.begin(o, own)
	question := s.n.payload(payloadSeal, sealMessage(header.Number, own))
	for {
		for _, id := range members {
			if id != s.n.settings.ID {
				s.n.outbox.send(id, question)
			}
		}
		select {
		case <-o.enough:
			return s.end(o)
		case <-s.ctx.Done():
			return nil, s.ctx.Err()
		case <-time.After(askAgain):
		}
	}
}

func (s *seals) begin(o *sealing, own *commonpb.MetadataSignature) {
	early := s.opened(o)
	s.count(o, own)
	for _, signature := range early {
		s.count(o, signature)
	}
}

// opened has signatures of a block counted from now on, and gives those that came before.
func (s *seals) opened(o *sealing) (early map[uint64]*commonpb.MetadataSignature) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.sealed = o, o.header.Number
	early = s.early[o.header.Number]
	for number := range s.early {
		if number <= o.header.Number {
			delete(s.early, number)
		}
	}
	return early
}

// count takes one member's signatures of a block that is open, up to the first that is wrong: a correct member sends none,
// and a liar has no more than that one verified for each message. Nobody waits for the lock meanwhile.
func (s *seals) count(o *sealing, signatures ...*commonpb.MetadataSignature) {
	for _, signature := range signatures {
		if !s.lacks(o, signature) {
			continue
		}
		by, err := o.check(signature)
		if err != nil {
			log.Debugf("[channel: %s] a signature of block [%d]: %s", s.n.settings.Channel, o.header.Number, err)
			return
		}
		s.add(o, by, signature)
	}
}

// lacks reports whether a signature is of one whose signature the block has not yet, and still needs.
func (s *seals) lacks(o *sealing, signature *commonpb.MetadataSignature) bool {
	var ih commonpb.IdentifierHeader
	if err := protoutil.Unmarshal(signature.GetIdentifierHeader(), &ih); err != nil {
		return true // the check says what is wrong with it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(o.by) < o.quorum && o.by[ih.Identifier] == nil
}

func (s *seals) add(o *sealing, by uint32, signature *commonpb.MetadataSignature) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(o.by) < o.quorum && o.by[by] == nil {
		o.by[by] = signature
		if len(o.by) == o.quorum {
			close(o.enough)
		}
	}
}

func (s *seals) end(o *sealing) (*commonpb.BlockMetadata, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.sealed = nil, o.header.Number+1
	var signatures []*commonpb.MetadataSignature
	for number := uint32(0); len(signatures) < len(o.by); number++ {
		if signature := o.by[number]; signature != nil {
			signatures = append(signatures, signature)
		}
	}
	return protoutil.SignedBlock(o.lastConfig, o.consenter, signatures)
}

// receive takes signatures of another member, and answers one that lacks some.
func (s *seals) receive(from uint64, raw []byte) {
	number, signatures, err := readSeal(raw)
	if err != nil {
		return
	}
	open, asks := s.take(from, number, signatures)
	if open != nil {
		s.count(open, signatures...)
	}
	if asks {
		s.answer(from, number)
	}
}

// take keeps a member's signature of a block to come. It gives the block where that is open, and reports whether the
// member is to be given all signatures of one that is sealed.
func (s *seals) take(from, number uint64, signatures []*commonpb.MetadataSignature) (open *sealing, asks bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.open != nil && number == s.open.header.Number:
		return s.open, false
	case number < s.sealed && len(signatures) == 1:
		return nil, s.ration.Take(from, time.Since(s.began), 0)
	case number >= s.sealed && number < s.sealed+earlyBlocks && len(signatures) == 1 && proto.Size(signatures[0]) <= maxEarly:
		if s.early[number] == nil {
			s.early[number] = map[uint64]*commonpb.MetadataSignature{}
		}
		s.early[number][from] = proto.Clone(signatures[0]).(*commonpb.MetadataSignature) // not the whole message with it
	}
	return nil, false
}

// answer sends all signatures of a block to a member that lacks some. An answer of several is never answered. Nobody waits
// for the lock meanwhile: the block may have to come from the disk.
func (s *seals) answer(to, number uint64) {
	block, err := s.n.host.Block(number)
	if err != nil {
		return // it is being written
	}
	s.charge(to, proto.Size(block))
	signatures, err := protoutil.BlockSignatures(block.Metadata)
	if err == nil && len(signatures) > 1 {
		s.n.outbox.send(to, s.n.payload(payloadSeal, sealMessage(number, signatures...)))
	}
}

// charge takes what was read for a member from its ration.
func (s *seals) charge(to uint64, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ration.Take(to, time.Since(s.began), bytes)
}

func sealMessage(number uint64, signatures ...*commonpb.MetadataSignature) []byte {
	w := &bft.Writer{}
	w.Uint(number)
	w.Uint(uint64(len(signatures)))
	for _, signature := range signatures {
		raw, err := proto.Marshal(signature)
		if err != nil {
			panic(err) // two fields of bytes
		}
		w.Chunk(raw)
	}
	return w.Bytes
}

func readSeal(raw []byte) (number uint64, signatures []*commonpb.MetadataSignature, err error) {
	r := bft.NewReader(raw)
	number = r.Uint()
	chunks := bft.List(r, leastChunk, bft.MaxMembers, (*bft.Reader).Chunk)
	if err := r.Err(); err != nil {
		return 0, nil, err
	}
	for _, chunk := range chunks {
		signature := &commonpb.MetadataSignature{}
		if err := protoutil.Unmarshal(chunk, signature); err != nil {
			return 0, nil, err
		}
		signatures = append(signatures, signature)
	}
	return number, signatures, nil
}
