package replica

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// TestSignaturesOfBlocksToComeAreSmall: they are kept before anybody can check them, of a thousand blocks.
func TestSignaturesOfBlocksToComeAreSmall(t *testing.T) {
	s := newSeals(nil)
	sized := func(bytes int) *commonpb.MetadataSignature {
		return &commonpb.MetadataSignature{Signature: make([]byte, bytes)}
	}
	s.receive(2, sealMessage(7, sized(72)))
	assert.Len(t, s.early[7][2].GetSignature(), 72)
	s.receive(3, sealMessage(7, sized(13<<20)))
	assert.NotContains(t, s.early[7], uint64(3))
	s.receive(3, sealMessage(earlyBlocks, sized(72)))
	assert.Len(t, s.early, 1)
}

// TestSignaturesThatAreCountedAreForgotten, and those of blocks before.
func TestSignaturesThatAreCountedAreForgotten(t *testing.T) {
	s := newSeals(&Node{})
	for number := range uint64(9) {
		s.receive(2, sealMessage(number, &commonpb.MetadataSignature{}))
	}
	s.begin(opened(7, new(int)), &commonpb.MetadataSignature{})
	assert.Equal(t, []uint64{8}, slices.Collect(maps.Keys(s.early)))
}

// opened is an open block of four members, which believes a signature that is the number it names, and counts checks.
func opened(number uint64, checks *int) *sealing {
	return &sealing{
		header: &commonpb.BlockHeader{Number: number}, quorum: 3, by: map[uint32]*commonpb.MetadataSignature{}, enough: make(chan struct{}),
		check: func(signature *commonpb.MetadataSignature) (uint32, error) {
			*checks++
			var ih commonpb.IdentifierHeader
			if err := proto.Unmarshal(signature.GetIdentifierHeader(), &ih); err != nil {
				return 0, err
			}
			if string(signature.GetSignature()) != fmt.Sprint(ih.GetIdentifier()) {
				return 0, protoutil.ErrBlockSignature
			}
			return ih.GetIdentifier(), nil
		},
	}
}

// signed is the signature of the member with that number, or another's in its name.
func signed(t *testing.T, number uint32, text string) *commonpb.MetadataSignature {
	identifier, err := proto.Marshal(&commonpb.IdentifierHeader{Identifier: number})
	require.NoError(t, err)
	return &commonpb.MetadataSignature{IdentifierHeader: identifier, Signature: []byte(text)}
}

// TestALiarHasOneSignatureVerifiedForAMessage, however many it sends, and whether they are wrong or known.
func TestALiarHasOneSignatureVerifiedForAMessage(t *testing.T) {
	var wrong, known []*commonpb.MetadataSignature
	for range bft.MaxMembers {
		wrong = append(wrong, signed(t, 3, "forged"))
		known = append(known, signed(t, 1, "1"))
	}
	s, checks := newSeals(&Node{}), 0
	o := opened(7, &checks)
	s.begin(o, signed(t, 1, "1"))
	require.Equal(t, 1, checks)
	s.receive(2, sealMessage(7, wrong...))
	assert.Equal(t, 2, checks)
	s.receive(2, sealMessage(7, known...))
	assert.Equal(t, 2, checks)
	s.receive(3, sealMessage(7, signed(t, 2, "2"), signed(t, 3, "3"), signed(t, 4, "4")))
	assert.Equal(t, 4, checks, "three are a quorum")
	assert.Len(t, o.by, 3)
	<-o.enough
}

// TestAnAnswerIsNotAnswered: two replicas that have all signatures of a block would send them to each other for ever.
func TestAnAnswerIsNotAnswered(t *testing.T) {
	three := []*commonpb.MetadataSignature{{Signature: []byte("a")}, {Signature: []byte("b")}, {Signature: []byte("c")}}
	metadata, err := protoutil.SignedBlock(0, nil, three)
	require.NoError(t, err)
	host := &heard{Host: &sealed{blocks: []*commonpb.Block{nil, {Metadata: metadata}}}}
	s := newSeals(&Node{host: host, outbox: newOutbox(host)})
	s.skip(2)
	s.receive(2, sealMessage(1, three[0]))
	assert.Equal(t, []uint64{2}, host.to, "it lacks some")
	s.receive(2, sealMessage(1, three...))
	assert.Len(t, host.to, 1)
}

// TestAnswersAreRationed: each has a block read, which a liar may ask for without end.
func TestAnswersAreRationed(t *testing.T) {
	metadata, err := protoutil.SignedBlock(0, nil, []*commonpb.MetadataSignature{{Signature: []byte("a")}, {Signature: []byte("b")}})
	require.NoError(t, err)
	block := &commonpb.Block{Metadata: metadata, Data: &commonpb.BlockData{Data: [][]byte{make([]byte, readBytes/2)}}}
	host := &heard{Host: &sealed{blocks: []*commonpb.Block{nil, block}}}
	s := newSeals(&Node{host: host, outbox: newOutbox(host)})
	s.ration.Every = time.Hour
	s.skip(2)
	question := sealMessage(1, &commonpb.MetadataSignature{Signature: []byte("a")})
	for range 9 {
		s.receive(2, question)
	}
	s.receive(3, question)
	assert.Equal(t, []uint64{2, 2, 3}, host.to)
}
