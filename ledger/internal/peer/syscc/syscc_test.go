package syscc_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/peer/endorser"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/peer/syscc"
	"github.com/qioi/qioi/ledger/internal/peer/txids"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/lifecyclepb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// noChaincodes has none: a proposal to a system chaincode must not get there.
type noChaincodes struct{}

func (noChaincodes) Execute(context.Context, cchost.Invocation, cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
	return nil, nil, fmt.Errorf("no chaincode is here")
}

// rig is a peer's endorser over a real chain.
type rig struct {
	*peertest.World
	chain    *chain.Chain
	orderer  *peertest.Orderer
	endorser *endorser.Endorser
}

func newRig(t *testing.T) *rig {
	w := peertest.New(t, peertest.Options{Mode: channelconfig.Stream})
	c, err := chain.Open(t.TempDir(), w.Genesis, chain.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, c.Close())
	})
	lookup := func(id string) endorser.Channel {
		if id == peertest.Channel {
			return c
		}
		return nil
	}
	system := syscc.New("Org1MSP", map[string]syscc.Channel{peertest.Channel: c})
	return &rig{World: w, chain: c, orderer: w.NewOrderer(), endorser: endorser.New(w.Signer("Org1MSP", "peer"), lookup, noChaincodes{}, system, nil)}
}

// add brings a transaction of kv to the chain.
func (r *rig) add() (raw []byte, id string) {
	raw, id = r.Make(peertest.Tx{})
	require.NoError(r.T, r.chain.Add(context.Background(), raw))
	return raw, id
}

func (r *rig) seal(txs ...[]byte) {
	header, metadata := r.orderer.Seal(txs)
	require.NoError(r.T, r.chain.Seal(context.Background(), header, metadata))
}

// ask sends a proposal of client (nil: Org1MSP's) and gives its response.
func (r *rig) ask(client *identity.SigningIdentity, channelID, chaincode string, args ...string) *peerpb.ProposalResponse {
	r.T.Helper()
	return r.begin(client, channelID, chaincode, args...)()
}

// begin sends a proposal of client (nil: Org1MSP's). What it gives waits for the response.
func (r *rig) begin(client *identity.SigningIdentity, channelID, chaincode string, args ...string) func() *peerpb.ProposalResponse {
	r.T.Helper()
	signed, _ := r.Propose(peertest.Proposal{
		Chaincode: chaincode, Client: client, Args: args,
		Change: func(h *commonpb.ChannelHeader, _ *commonpb.SignatureHeader) { h.ChannelId = channelID },
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	var answer *peerpb.ProposalResponse
	var err error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		answer, err = r.endorser.ProcessProposal(ctx, signed)
	}()
	return func() *peerpb.ProposalResponse {
		r.T.Helper()
		defer cancel()
		<-answered
		require.NoError(r.T, err)
		return answer
	}
}

// answered reads what a query gave.
func answered[M proto.Message](t *testing.T, from *peerpb.ProposalResponse, into M) M {
	t.Helper()
	require.EqualValues(t, 200, from.Response.Status, from.Response.Message)
	require.NoError(t, proto.Unmarshal(from.Response.Payload, into))
	return into
}

func TestLedgerQueries(t *testing.T) {
	r := newRig(t)
	one, first := r.add()
	two, second := r.add()
	_, err := r.chain.Status(context.Background(), second)
	require.NoError(t, err)
	// Both are committed, and their block is still open: a client that has heard of its commit finds it.
	found := r.begin(nil, peertest.Channel, "qscc", "GetTransactionByID", peertest.Channel, second)
	r.seal(one, two)
	tx := answered(t, found(), &peerpb.ProcessedTransaction{})
	raw, err := proto.Marshal(tx.TransactionEnvelope)
	require.NoError(t, err)
	assert.Equal(t, two, raw)
	assert.EqualValues(t, peerpb.TxValidationCode_VALID, tx.ValidationCode)

	sealed, err := r.chain.Block(1)
	require.NoError(t, err)
	hash := string(protoutil.BlockHeaderHash(sealed.Header))
	for name, args := range map[string][]string{
		"number":      {"GetBlockByNumber", peertest.Channel, "1"},
		"newest":      {"GetBlockByNumber", peertest.Channel, fmt.Sprint(uint64(math.MaxUint64))},
		"hash":        {"GetBlockByHash", peertest.Channel, hash},
		"transaction": {"GetBlockByTxID", peertest.Channel, first},
	} {
		t.Run(name, func(t *testing.T) {
			answer := r.ask(nil, peertest.Channel, "qscc", args...)
			assert.True(t, proto.Equal(sealed, answered(t, answer, &commonpb.Block{})))
			assert.NotNil(t, answer.Endorsement, "as in Fabric")
		})
	}
	genesis := answered(t, r.ask(nil, peertest.Channel, "qscc", "GetBlockByHash", peertest.Channel, string(sealed.Header.PreviousHash)), &commonpb.Block{})
	assert.Zero(t, genesis.Header.Number)

	info := answered(t, r.ask(nil, "", "qscc", "GetChainInfo", peertest.Channel), &commonpb.BlockchainInfo{})
	assert.EqualValues(t, 2, info.Height)
	assert.Equal(t, hash, string(info.CurrentBlockHash))
	assert.Equal(t, sealed.Header.PreviousHash, info.PreviousBlockHash)
}

func TestChannelAndLifecycleQueries(t *testing.T) {
	r := newRig(t)
	joined := r.ask(nil, "", "cscc", "GetChannels")
	assert.Equal(t, peertest.Channel, answered(t, joined, &peerpb.ChannelQueryResponse{}).Channels[0].ChannelId)
	assert.Nil(t, joined.Endorsement, "there is no channel that it could be for")

	config := answered(t, r.ask(nil, peertest.Channel, "cscc", "GetChannelConfig", peertest.Channel), &commonpb.Config{})
	assert.True(t, proto.Equal(r.Bundle.Config, config))
	block := answered(t, r.ask(nil, peertest.Channel, "cscc", "GetConfigBlock", peertest.Channel), &commonpb.Block{})
	assert.True(t, proto.Equal(r.Genesis.Data, block.Data))
	// A block names the configuration that it was ordered under.
	raw, _ := r.add()
	r.seal(raw)
	require.Eventually(t, func() bool { return r.chain.Height() == 2 }, time.Minute, time.Millisecond)
	block = answered(t, r.ask(nil, peertest.Channel, "cscc", "GetConfigBlock", peertest.Channel), &commonpb.Block{})
	assert.True(t, proto.Equal(r.Genesis.Data, block.Data))

	all := answered(t, r.ask(nil, peertest.Channel, "_lifecycle", "QueryChaincodeDefinitions", ""), &lifecyclepb.QueryChaincodeDefinitionsResult{})
	require.Len(t, all.ChaincodeDefinitions, 2)
	assert.Equal(t, "both", all.ChaincodeDefinitions[0].Name)
	asked, err := proto.Marshal(&lifecyclepb.QueryChaincodeDefinitionArgs{Name: "kv"})
	require.NoError(t, err)
	kv := answered(t, r.ask(nil, peertest.Channel, "_lifecycle", "QueryChaincodeDefinition", string(asked)), &lifecyclepb.QueryChaincodeDefinitionResult{})
	assert.Equal(t, "1.0", kv.Version)
	assert.EqualValues(t, r.Bundle.Chaincodes["kv"].Sequence, kv.Sequence)
	assert.Equal(t, map[string]bool{"Org1MSP": true, "Org2MSP": true}, kv.Approvals)
	var rule peerpb.ApplicationPolicy
	require.NoError(t, proto.Unmarshal(kv.ValidationParameter, &rule))
	assert.NotNil(t, rule.GetSignaturePolicy())
}

func TestRefusals(t *testing.T) {
	r := newRig(t)
	orderer, other := r.Signer("OrdererMSP", "orderer"), r.Signer("Org2MSP", "client")
	peer := r.Signer("Org1MSP", "peer")
	id := fmt.Sprintf("%064x", 1)
	none, err := proto.Marshal(&lifecyclepb.QueryChaincodeDefinitionArgs{Name: "none"})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		client    *identity.SigningIdentity
		channel   string
		chaincode string
		args      []string
		status    int32
		want      string
	}{
		"no arguments":        {nil, peertest.Channel, "qscc", nil, 500, "Incorrect number of arguments, 0"},
		"no third argument":   {nil, peertest.Channel, "qscc", []string{"GetBlockByNumber", peertest.Channel}, 500, "missing 3rd argument for GetBlockByNumber"},
		"other channel":       {nil, peertest.Channel, "qscc", []string{"GetChainInfo", "other"}, 500, "Invalid chain ID, other"},
		"no number":           {nil, peertest.Channel, "qscc", []string{"GetBlockByNumber", peertest.Channel, "x"}, 500, "Failed to parse block number"},
		"too far":             {nil, peertest.Channel, "qscc", []string{"GetBlockByNumber", peertest.Channel, "7"}, 500, "Failed to get block number 7, error no such block number [7] in index"},
		"unknown hash":        {nil, peertest.Channel, "qscc", []string{"GetBlockByHash", peertest.Channel, "x"}, 500, "no such block hash [78]"},
		"unknown id":          {nil, peertest.Channel, "qscc", []string{"GetTransactionByID", peertest.Channel, id}, 500, "no such transaction ID [" + id + "] in index"},
		"malformed id":        {nil, peertest.Channel, "qscc", []string{"GetBlockByTxID", peertest.Channel, "x"}, 500, "no such transaction ID [x] in index"},
		"unknown function":    {nil, peertest.Channel, "qscc", []string{"Forget", peertest.Channel, "1"}, 500, "access denied for [Forget][mychannel]: [Unmapped policy for qscc/Forget]"},
		"no function of cscc": {nil, "", "cscc", []string{"Forget", "x"}, 500, "Requested function Forget not found."},
		"an orderer":          {orderer, peertest.Channel, "qscc", []string{"GetChainInfo", peertest.Channel}, 500, "access denied for [GetChainInfo][mychannel]"},
		"join":                {nil, "", "cscc", []string{"JoinChain", "block"}, 500, "JoinChain: a peer's channels stand in its configuration file"},
		"bytes as function":   {nil, "", "cscc", []string{"\xff", "x"}, 500, "Requested function \ufffd not found."},
		"bytes as channel":    {nil, "", "cscc", []string{"GetConfigBlock", "\xff"}, 500, "Unknown channel ID, \ufffd"},
		"config elsewhere":    {nil, "", "cscc", []string{"GetConfigBlock", "other"}, 500, "Unknown channel ID, other"},
		"config, an orderer":  {orderer, peertest.Channel, "cscc", []string{"GetConfigBlock", peertest.Channel}, 500, "access denied for [GetConfigBlock][mychannel]"},
		"another's channels":  {other, "", "cscc", []string{"GetChannels"}, 500, "access denied for [GetChannels]: Org2MSP is not the organisation of this peer"},
		"snapshots":           {nil, "", "cscc", []string{"JoinBySnapshotStatus"}, 500, "JoinBySnapshotStatus: a peer's channels stand in its configuration file"},
		"chaincode list":      {nil, peertest.Channel, "lscc", []string{"getchaincodes"}, 500, "peer lifecycle chaincode querycommitted"},
		"those installed":     {nil, "", "lscc", []string{"getinstalledchaincodes"}, 500, "peer lifecycle chaincode querycommitted"},
		"install":             {nil, "", "_lifecycle", []string{"InstallChaincode", "x"}, 500, "this ledger installs no packages"},
		"undefined":           {nil, peertest.Channel, "_lifecycle", []string{"QueryChaincodeDefinition", string(none)}, 404, "namespace none is not defined"},
		"without channel":     {nil, "", "_lifecycle", []string{"QueryChaincodeDefinitions", ""}, 500, "could not get channelconfig for channel ''"},
		"not a writer's":      {orderer, peertest.Channel, "_lifecycle", []string{"QueryChaincodeDefinitions", ""}, 500, "Failed to authorize invocation due to failed ACL check"},
		"not the system's":    {nil, "", "kv", []string{"get", "a"}, 500, "a proposal without a channel can only go to a system chaincode"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := r.ask(c.client, c.channel, c.chaincode, c.args...)
			assert.Equal(t, c.status, answer.Response.Status)
			assert.Contains(t, answer.Response.Message, c.want)
			assert.Nil(t, answer.Endorsement)
			_, err := proto.Marshal(answer)
			assert.NoError(t, err)
		})
	}
	// A peer reads: qscc asks for no more.
	answered(t, r.ask(peer, peertest.Channel, "qscc", "GetChainInfo", peertest.Channel), &commonpb.BlockchainInfo{})
}

// TestForeignersAskNothing: without a channel, too, a proposal's signature must be a member's.
func TestForeignersAskNothing(t *testing.T) {
	r, foreign := newRig(t), peertest.New(t, peertest.Options{})
	signed, _ := r.Propose(peertest.Proposal{
		Chaincode: "cscc", Client: foreign.Signer("Org1MSP", "client"), Args: []string{"GetChannels"},
		Change: func(h *commonpb.ChannelHeader, _ *commonpb.SignatureHeader) { h.ChannelId = "" },
	})
	_, err := r.endorser.ProcessProposal(context.Background(), signed)
	assert.ErrorContains(t, err, "access denied: channel [] creator org unknown, creator is malformed")
}

// taken is a channel whose open block is taken back while somebody waits for its seal; the one that is sealed in its
// place has other transactions.
type taken struct {
	*chain.Chain
	asked int
}

func (c *taken) Find(string) (chain.Status, error) {
	if c.asked > 1 {
		return chain.Status{}, chain.ErrNotFound
	}
	return chain.Status{Position: chain.Position{Block: 1}}, nil
}

func (c *taken) Height() uint64 {
	if c.asked++; c.asked == 1 {
		return 1
	}
	return c.Chain.Height()
}

func (c *taken) UntilChanged() <-chan struct{} {
	changed := make(chan struct{})
	close(changed)
	return changed
}

func TestWhatIsTakenBackIsNotFound(t *testing.T) {
	r := newRig(t)
	other, id := r.add()
	r.seal(other)
	_, err := r.chain.Status(context.Background(), id)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.chain.Height() == 2 }, time.Minute, time.Millisecond)
	r.lost(func() syscc.Channel { return &taken{Chain: r.chain} }, "no such transaction ID [lost] in index")
}

// lost asks for a transaction that the channel does not give.
func (r *rig) lost(channel func() syscc.Channel, want string) {
	r.T.Helper()
	for _, function := range []string{"GetTransactionByID", "GetBlockByTxID"} {
		system := syscc.New("Org1MSP", map[string]syscc.Channel{peertest.Channel: channel()})
		answer := system.Answer(context.Background(), syscc.Query{
			Chaincode: "qscc", Creator: r.Signer("Org1MSP", "client").Serialized(),
			Args: [][]byte{[]byte(function), []byte(peertest.Channel), []byte("lost")},
		})
		assert.EqualValues(r.T, 500, answer.Status, function)
		assert.Contains(r.T, answer.Message, want, function)
	}
}

// damaged is a channel whose ids cannot be read.
type damaged struct{ *chain.Chain }

func (damaged) Find(string) (chain.Status, error) { return chain.Status{}, txids.ErrDamaged }

// TestWhatCannotBeReadIsNotSaidToBeMissing: a client would send it again.
func TestWhatCannotBeReadIsNotSaidToBeMissing(t *testing.T) {
	r := newRig(t)
	r.lost(func() syscc.Channel { return damaged{r.chain} }, "lost, error damaged")
}
