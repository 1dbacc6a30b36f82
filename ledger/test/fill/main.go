// Command fill extends a stopped peer's ledger by many transactions, through the peer's own
// pipeline and with real signatures, in minutes where a network would take much longer. For
// benchmarks/bench_restart.py:
//
//	go run ./test/fill -network DIR -peer peer0-org1 -transactions 1000000
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/peer/rwset"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

const (
	chaincode = "kv"
	makers    = 2   // goroutines that sign
	perBlock  = 100 // transactions
)

type options struct {
	network, peer             string
	transactions, keys        int
	valueSize                 int
	client, endorser, orderer *identity.SigningIdentity
}

func main() {
	var o options
	flag.StringVar(&o.network, "network", "", "the network's folder")
	flag.StringVar(&o.peer, "peer", "peer0-org1", "whose ledger it is")
	flag.IntVar(&o.transactions, "transactions", 1_000_000, "how many to add")
	flag.IntVar(&o.keys, "keys", 100_000, "how many keys they write to in turn")
	flag.IntVar(&o.valueSize, "value-size", 100, "bytes of each value")
	flag.Parse()
	if err := fill(&o); err != nil {
		fmt.Fprintln(os.Stderr, "fill:", err)
		os.Exit(1)
	}
}

func fill(o *options) error {
	peer, err := nodeconfig.Load(filepath.Join(o.network, "nodes", o.peer+".yaml"), nodeconfig.RolePeer)
	if err != nil {
		return err
	}
	orderers, err := nodeconfig.Load(filepath.Join(o.network, "nodes", "orderer1.yaml"), nodeconfig.RoleOrderer)
	if err != nil {
		return err
	}
	if o.endorser, err = peer.Signer(); err != nil {
		return err
	}
	if o.orderer, err = orderers.Signer(); err != nil {
		return err
	}
	if o.client, err = client(o.network); err != nil {
		return err
	}
	channel := peer.Channels[0]
	genesis, _, err := channel.GenesisBlock()
	if err != nil {
		return err
	}
	ledger, err := chain.Open(filepath.Join(peer.Data, "channels", channel.Name), genesis, chain.Options{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ledger.Run(ctx) }()
	err = o.extend(ctx, ledger)
	cancel()
	return errors.Join(err, <-ended, ledger.Close())
}

// client is the network's first one.
func client(dir string) (*identity.SigningIdentity, error) {
	raw, err := os.ReadFile(filepath.Join(dir, network.FileName))
	if err != nil {
		return nil, err
	}
	var file network.File
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	c := file.Clients[0]
	return identity.LoadSigner(c.MSPID, filepath.Join(dir, c.Cert), filepath.Join(dir, c.Key))
}

type made struct {
	raw []byte
	id  string
	err error
}

func (o *options) extend(ctx context.Context, ledger *chain.Chain) error {
	at := ledger.Position()
	if at.Tx != 0 {
		return fmt.Errorf("block %d is open: a ledger without open transactions is accepted", at.Block)
	}
	last, err := ledger.Block(at.Block - 1)
	if err != nil {
		return err
	}
	previous := protoutil.BlockHeaderHash(last.Header)
	var queues [makers]chan made
	for m := range queues {
		queues[m] = make(chan made, 256)
		go func() {
			for i := m; i < o.transactions; i += makers {
				queues[m] <- o.transaction(ledger.ID(), i)
			}
		}()
	}
	start, number, newest := time.Now(), at.Block, ""
	var open [][]byte
	for i := range o.transactions {
		tx := <-queues[i%makers]
		if tx.err != nil {
			return tx.err
		}
		if err := ledger.Add(ctx, tx.raw); err != nil {
			return err
		}
		open, newest = append(open, tx.raw), tx.id
		if len(open) < perBlock && i < o.transactions-1 {
			continue
		}
		header := &commonpb.BlockHeader{Number: number, PreviousHash: previous, DataHash: protoutil.DataHash(open)}
		metadata, err := protoutil.SignBlock(o.orderer, header, 0, nil)
		if err != nil {
			return err
		}
		if err := ledger.Seal(ctx, header, metadata); err != nil {
			return err
		}
		number, previous, open = number+1, protoutil.BlockHeaderHash(header), nil
	}
	status, err := ledger.Status(ctx, newest)
	if err != nil {
		return err
	}
	for ledger.Height() < number {
		<-ledger.UntilChanged()
	}
	fmt.Printf("%d transactions in %s, the last one %s\n", o.transactions, time.Since(start).Round(time.Second), status.Code)
	return nil
}

// transaction is a put, as client and endorser would make it.
func (o *options) transaction(channel string, i int) (out made) {
	var marshal = func(m proto.Message) []byte {
		raw, err := proto.Marshal(m)
		out.err = errors.Join(out.err, err)
		return raw
	}
	sign := func(by *identity.SigningIdentity, message []byte) []byte {
		signature, err := by.Sign(message)
		out.err = errors.Join(out.err, err)
		return signature
	}
	key, value := fmt.Sprintf("key%09d", i%o.keys), make([]byte, o.valueSize)
	copy(value, fmt.Sprint(i))
	simulation := rwset.NewSimulator(statedb.New().Snapshot())
	out.err = simulation.Put(chaincode, key, value)
	results, err := simulation.Encode()
	out.err = errors.Join(out.err, err)
	nonce, err := protoutil.NewNonce()
	out.err = errors.Join(out.err, err)

	id := &peerpb.ChaincodeID{Name: chaincode, Version: "1.0"}
	out.id = protoutil.TxID(nonce, o.client.Serialized())
	creator := marshal(&commonpb.SignatureHeader{Creator: o.client.Serialized(), Nonce: nonce})
	header := marshal(&commonpb.ChannelHeader{
		Type: int32(commonpb.HeaderType_ENDORSER_TRANSACTION), ChannelId: channel, TxId: out.id, Timestamp: timestamppb.Now(),
		Extension: marshal(&peerpb.ChaincodeHeaderExtension{ChaincodeId: &peerpb.ChaincodeID{Name: chaincode}}),
	})
	input := marshal(&peerpb.ChaincodeProposalPayload{Input: marshal(&peerpb.ChaincodeInvocationSpec{ChaincodeSpec: &peerpb.ChaincodeSpec{
		ChaincodeId: id, Input: &peerpb.ChaincodeInput{Args: [][]byte{[]byte("put"), []byte(key), value}},
	}})})
	payload := marshal(&peerpb.ProposalResponsePayload{
		ProposalHash: validate.ProposalHash(header, creator, input),
		Extension:    marshal(&peerpb.ChaincodeAction{Results: results, Response: &peerpb.Response{Status: 200}, ChaincodeId: id}),
	})
	endorser := o.endorser.Serialized()
	action := marshal(&peerpb.ChaincodeActionPayload{ChaincodeProposalPayload: input, Action: &peerpb.ChaincodeEndorsedAction{
		ProposalResponsePayload: payload,
		Endorsements:            []*peerpb.Endorsement{{Endorser: endorser, Signature: sign(o.endorser, append(append([]byte{}, payload...), endorser...))}},
	}})
	envelope := &commonpb.Envelope{Payload: marshal(&commonpb.Payload{
		Header: &commonpb.Header{ChannelHeader: header, SignatureHeader: creator},
		Data:   marshal(&peerpb.Transaction{Actions: []*peerpb.TransactionAction{{Header: creator, Payload: action}}}),
	})}
	envelope.Signature = sign(o.client, envelope.Payload)
	out.raw = marshal(envelope)
	return out
}
