package gateway

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// TestWhatIsDecidedByHistories: four orderers say which history they have, and one of them may lie.
func TestWhatIsDecidedByHistories(t *testing.T) {
	all := []int{0, 1, 2, 3}
	for name, c := range map[string]struct {
		groups, histories []int // who says who orders, and who has the transaction
		other             int   // who has another history; -1: nobody
		locals            int   // how many hold the certificate
		want              string
	}{
		"all alike":                      {all, all, -1, 0, "all"},
		"all, but one has another":       {all, all, 3, 0, ""},
		"a quorum alone":                 {all, all[:3], -1, 0, ""},
		"a quorum, of which two hold it": {all, all[:3], -1, 2, ""},
		"a quorum that holds it":         {all, all[:3], -1, 3, "certificate"},
		"no quorum, which holds it":      {all, all[:2], -1, 3, ""},
		"one alone says who orders":      {all[:1], all, -1, 0, ""},
		"two say who orders":             {all[:2], all, -1, 0, "all"},
	} {
		t.Run(name, func(t *testing.T) {
			w := peertest.New(t, peertest.Options{Liars: 1, Mode: channelconfig.Stream})
			a := newAttendance(context.Background(), w.Bundle)
			defer a.cancel()
			var addresses []string
			group := &streampb.OrderingGroup{}
			for i, consenter := range w.Bundle.Orderer.Consenters {
				address := channelconfig.ConsenterAddress(consenter)
				addresses = append(addresses, address)
				group.Members = append(group.Members, &streampb.OrderingMember{Id: uint64(i) + 1, Address: address})
				a.links[address] = &link{attendance: a, out: make(chan []byte, queuedCertificates)}
			}
			for _, i := range c.groups {
				require.NoError(t, a.hear(addresses[i], &streampb.Said{Group: group}))
			}
			tx := &commonpb.Envelope{Payload: []byte("payload"), Signature: []byte("signature")}
			decided, forget := a.expect(tx)
			defer forget()
			raw, err := proto.Marshal(tx)
			require.NoError(t, err)
			history := zyzzyva.Chain(zyzzyva.Beginning(0), (&bft.Entry{Txs: [][]byte{raw}}).Digest())
			say := func(i int, m bft.Message) {
				require.NoError(t, a.hear(addresses[i], &streampb.Said{Messages: [][]byte{zyzzyva.Encode(m)}}))
			}
			for _, i := range c.histories {
				m := &zyzzyva.Response{Seq: 1, History: history, Txs: []bft.Digest{bft.TxDigest(raw)}}
				if i == c.other {
					m.History[0]++
				}
				m.Signature, err = w.Replicas[i].Sign(zyzzyva.ResponseStatement(peertest.Channel, 0, 0, 1, m.History))
				require.NoError(t, err)
				say(i, m)
			}
			if c.locals > 0 && len(c.histories) >= 3 {
				assert.NotEmpty(t, <-a.links[addresses[3]].out, "the certificate, also for who has not answered")
			}
			for i := range c.locals {
				say(i, &zyzzyva.LocalCommit{Seq: 1, History: history})
			}
			got := ""
			select {
			case proof := <-decided:
				got = proofs[proof]
			default:
			}
			assert.Equal(t, c.want, got, fmt.Sprint(c))
		})
	}
}

// TestOthersThanTheConsentersAreNotHeard, whoever says that they order.
func TestOthersThanTheConsentersAreNotHeard(t *testing.T) {
	w := peertest.New(t, peertest.Options{Liars: 1, Mode: channelconfig.Stream})
	a := newAttendance(context.Background(), w.Bundle)
	defer a.cancel()
	group := &streampb.OrderingGroup{}
	for i := range 4 {
		group.Members = append(group.Members, &streampb.OrderingMember{Id: uint64(i) + 1, Address: fmt.Sprint("127.0.0.1:", 100+i)})
	}
	for _, m := range group.Members {
		require.NoError(t, a.hear(m.Address, &streampb.Said{Group: group}))
	}
	decided, forget := a.expect(&commonpb.Envelope{Payload: []byte("payload")})
	forget()
	assert.Nil(t, decided)
}

// TestAnOrdererSaysNoMoreAtOnceThanIsAgreed: what an honest one sends, and a lying one would have the gateway read without end.
func TestAnOrdererSaysNoMoreAtOnceThanIsAgreed(t *testing.T) {
	w := peertest.New(t, peertest.Options{Liars: 1, Mode: channelconfig.Stream})
	a := newAttendance(context.Background(), w.Bundle)
	defer a.cancel()
	messages := func(n int) *streampb.Said {
		return &streampb.Said{Messages: slices.Repeat([][]byte{zyzzyva.Encode(&zyzzyva.LocalCommit{Seq: 1})}, n)}
	}
	require.NoError(t, a.hear("an orderer", messages(protoutil.MostSaid)))
	require.ErrorContains(t, a.hear("an orderer", messages(protoutil.MostSaid+1)), "65 messages at once")

	group := func(n int) *streampb.Said {
		return &streampb.Said{Group: &streampb.OrderingGroup{Members: make([]*streampb.OrderingMember, n)}}
	}
	require.NoError(t, a.hear("an orderer", group(channelconfig.MaxBFT)))
	require.ErrorContains(t, a.hear("an orderer", group(channelconfig.MaxBFT+1)), "65 members")
	assert.Len(t, a.said["an orderer"].Members, channelconfig.MaxBFT)
}
