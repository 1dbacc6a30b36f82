package configtool

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/serving/servingtest"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// chain is what some orderers have.
type chain struct {
	t  *testing.T
	mu sync.Mutex
	// newest is the last block; it has a configuration.
	newest *commonpb.Block
	got    int // got is how many updates were sent to these orderers
	// unread is how many answers still show the block before, as of an orderer by Kafka that has not read its topic to the end.
	unread int
	before *commonpb.Block
}

// scripted is an orderer that serves a chain.
type scripted struct {
	ordererpb.UnimplementedAtomicBroadcastServer
	*chain
	answer *ordererpb.BroadcastResponse // answer is what it says without doing anything; nil: it orders
	mute   bool                         // mute is one that answers nothing after an update was sent
}

func (o *scripted) Deliver(st ordererpb.AtomicBroadcast_DeliverServer) error {
	if _, err := st.Recv(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	block := o.newest
	switch {
	case o.mute && o.got > 0:
		return errors.New("mute")
	case o.before != nil && o.unread > 0:
		o.unread--
		block = o.before
	}
	return st.Send(&ordererpb.DeliverResponse{Type: &ordererpb.DeliverResponse_Block{Block: block}})
}

func (o *scripted) Broadcast(st ordererpb.AtomicBroadcast_BroadcastServer) error {
	env, err := st.Recv()
	if err != nil {
		return err
	}
	if o.answer != nil {
		return st.Send(o.answer)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got++
	bundle, err := channelconfig.FromBlock(o.newest)
	if !assert.NoError(o.t, err) {
		return err
	}
	msg, err := protoutil.OpenEnvelope(env)
	if !assert.NoError(o.t, err) {
		return err
	}
	config, err := bundle.Updated(msg, time.Now())
	if err != nil {
		return st.Send(&ordererpb.BroadcastResponse{Status: commonpb.Status_BAD_REQUEST, Info: err.Error()})
	}
	o.before, o.newest = o.newest, follow(o.t, o.newest, config, env)
	return st.Send(&ordererpb.BroadcastResponse{Status: commonpb.Status_SUCCESS})
}

// follow makes the block of a configuration that comes after another one.
func follow(t *testing.T, before *commonpb.Block, config *commonpb.Config, update *commonpb.Envelope) *commonpb.Block {
	msg, err := protoutil.ParseEnvelope(before.Data.Data[0])
	require.NoError(t, err)
	data, err := proto.Marshal(&commonpb.ConfigEnvelope{Config: config, LastUpdate: update})
	require.NoError(t, err)
	block := proto.Clone(before).(*commonpb.Block)
	block.Header.Number++
	block.Header.PreviousHash = protoutil.BlockHeaderHash(before.Header)
	return holding(t, block, msg, data)
}

// holding gives a block another configuration, with all hashes right.
func holding(t *testing.T, block *commonpb.Block, msg *protoutil.Message, data []byte) *commonpb.Block {
	var payload commonpb.Payload
	require.NoError(t, proto.Unmarshal(msg.Envelope.Payload, &payload))
	payload.Data = data
	raw, err := proto.Marshal(&payload)
	require.NoError(t, err)
	tx, err := proto.Marshal(&commonpb.Envelope{Payload: raw, Signature: []byte("signature")})
	require.NoError(t, err)
	block.Data.Data = [][]byte{tx}
	block.Header.DataHash = protoutil.DataHash(block.Data.Data)
	value, err := proto.Marshal(&commonpb.OrdererBlockMetadata{LastConfig: &commonpb.LastConfig{Index: block.Header.Number}})
	require.NoError(t, err)
	signatures, err := proto.Marshal(&commonpb.Metadata{Value: value})
	require.NoError(t, err)
	block.Metadata = &commonpb.BlockMetadata{Metadata: make([][]byte, protoutil.MetadataSlots)}
	block.Metadata.Metadata[commonpb.BlockMetadataIndex_SIGNATURES] = signatures
	return block
}

// lied is a block whose configuration has the same versions as another one's, and another policy.
func lied(t *testing.T, block *commonpb.Block) *commonpb.Block {
	msg, err := protoutil.ParseEnvelope(block.Data.Data[0])
	require.NoError(t, err)
	var config commonpb.ConfigEnvelope
	require.NoError(t, proto.Unmarshal(msg.Data, &config))
	application := config.Config.ChannelGroup.Groups["Application"]
	application.Policies["Admins"].Policy = application.Policies["Readers"].Policy
	data, err := proto.Marshal(&config)
	require.NoError(t, err)
	return holding(t, proto.Clone(block).(*commonpb.Block), msg, data)
}

// town is a network of four scripted orderers, and the options of commands on it.
type town struct {
	*options
	honest *chain
	nodes  []*scripted
	stop   []func()
}

func newTown(t *testing.T, consenter string) *town {
	made := setup.Defaults()
	made.Dir, made.Orderers, made.Consenter, made.NoTLS = filepath.Join(t.TempDir(), "net"), 4, consenter, true
	_, err := setup.Init(made)
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(made.Dir, "channels", "mychannel.block"))
	require.NoError(t, err)
	genesis := &commonpb.Block{}
	require.NoError(t, proto.Unmarshal(raw, genesis))
	w := &town{honest: &chain{t: t, newest: genesis}}
	bundle, err := channelconfig.FromBlock(genesis)
	require.NoError(t, err)
	w.honest.newest = follow(t, genesis, &commonpb.Config{Sequence: 1, ChannelGroup: bundle.Config.ChannelGroup}, nil)
	w.options = &options{network: filepath.Join(made.Dir, network.FileName), timeout: time.Minute}
	file, err := network.Load(w.network)
	require.NoError(t, err)
	for i, n := range file.Nodes {
		if n.Role != "orderer" {
			continue
		}
		o := &scripted{chain: w.honest}
		address, stop := servingtest.Serve(t, func(s *grpc.Server) { ordererpb.RegisterAtomicBroadcastServer(s, o) })
		file.Nodes[i].Address = address
		w.nodes, w.stop = append(w.nodes, o), append(w.stop, stop)
	}
	require.NoError(t, file.Save(made.Dir))
	return w
}

// lies has an orderer serve another configuration of the same versions.
func (w *town) lies(t *testing.T, node int) {
	w.nodes[node].chain = &chain{t: t, newest: lied(t, w.honest.newest)}
}

// run calls `config`.
func (w *town) run(t *testing.T, args ...string) (string, error) {
	cmd := Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append(args, "--network", w.network, "--timeout", "20s"))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestNobodySignsWhatOneOrdererInvents: its configuration has the right versions, so the honest orderers would take it.
func TestNobodySignsWhatOneOrdererInvents(t *testing.T) {
	for _, kind := range []string{"bft", "zyzzyva"} {
		t.Run(kind, func(t *testing.T) {
			w := newTown(t, kind)
			w.lies(t, 0)
			_, c, err := w.open()
			require.NoError(t, err)
			now, err := c.fetch(t.Context())
			require.NoError(t, err)
			want, err := channelconfig.FromBlock(w.honest.newest)
			require.NoError(t, err)
			assert.True(t, proto.Equal(want.Config, now.config), "it is the liar's")
			w.stop[3]()
			_, err = c.fetch(t.Context())
			require.NoError(t, err, "one lies and one is away: the other two agree")
		})
	}
}

// TestTooFewOrderersAgree is an error that says who has answered what.
func TestTooFewOrderersAgree(t *testing.T) {
	w := newTown(t, "bft")
	w.lies(t, 0)
	w.stop[2]()
	w.stop[3]()
	_, err := w.run(t, "upgrade-chaincode", "smallbank", "--version", "2.0")
	require.ErrorContains(t, err, "2 of the 4 orderers must give the same configuration: ")
	assert.ErrorContains(t, err, "configuration 1 of block 1 (another one than ")
	assert.ErrorContains(t, err, `orderers that were removed for good and stopped must leave "nodes" in network.json`)
	assert.NotContains(t, err.Error(), "\n")
}

// TestWhoIsRemovedIsToLeaveTheNetwork where orderers are counted: each that is stopped is one less that can answer.
func TestWhoIsRemovedIsToLeaveTheNetwork(t *testing.T) {
	for kind, counted := range map[string]bool{"bft": true, "raft": false} {
		t.Run(kind, func(t *testing.T) {
			w := newTown(t, kind)
			bundle, err := channelconfig.FromBlock(w.honest.newest)
			require.NoError(t, err)
			file, err := network.Load(w.network)
			require.NoError(t, err)
			last := &file.Nodes[0]
			for i := range file.Nodes {
				if file.Nodes[i].Role == "orderer" {
					last = &file.Nodes[i]
				}
			}
			// The channel names the orderers by the addresses that `init` gave them.
			last.Address = channelconfig.ConsenterAddress(bundle.Orderer.Consenters[len(bundle.Orderer.Consenters)-1])
			require.NoError(t, file.Save(filepath.Dir(w.network)))
			out, err := w.run(t, "remove-consenter", last.Name)
			require.NoError(t, err)
			assert.Contains(t, out, "configuration 2 is in force from block 2 on")
			assert.Equal(t, counted, strings.Contains(out, last.Address+" goes on to count among the 4 orderers that are asked: orderers that"), out)
		})
	}
}

// TestOneOrdererConfirmsNothing: a liar that is asked first says that an update was ordered, or refuses it, and does nothing.
func TestOneOrdererConfirmsNothing(t *testing.T) {
	for name, answer := range map[string]*ordererpb.BroadcastResponse{
		"ordered": {Status: commonpb.Status_SUCCESS},
		"refused": {Status: commonpb.Status_FORBIDDEN, Info: "a lie"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t, "bft")
			w.nodes[0].answer = answer
			out, err := w.run(t, "upgrade-chaincode", "smallbank", "--version", "2.0")
			require.NoError(t, err)
			assert.Contains(t, out, "configuration 2 is in force from block 2 on")
			assert.Equal(t, uint64(2), w.honest.newest.Header.Number)
		})
	}
}

// TestAnUpdateThatIsRefusedIsSaidToBe where more orderers refuse it than may lie.
func TestAnUpdateThatIsRefusedIsSaidToBe(t *testing.T) {
	w := newTown(t, "bft")
	_, err := w.run(t, "upgrade-chaincode", "smallbank", "--version", "2.0", "--signers", "Org1MSP")
	require.ErrorContains(t, err, "refused: ")
	require.ErrorContains(t, err, "do not satisfy")
	assert.Equal(t, 2, w.honest.got)
}

// TestOrderersThatAreBehindRefuseNothing: they do not have the configuration yet that the update was made of.
func TestOrderersThatAreBehindRefuseNothing(t *testing.T) {
	w := newTown(t, "bft")
	behind := &chain{t: t, newest: w.honest.newest}
	_, err := w.run(t, "upgrade-chaincode", "smallbank", "--version", "2.0")
	require.NoError(t, err)
	for _, node := range w.nodes[:2] {
		node.chain = behind
	}
	out, err := w.run(t, "upgrade-chaincode", "smallbank", "--version", "3.0")
	require.NoError(t, err)
	assert.Contains(t, out, "configuration 3 is in force from block 3 on")
	assert.Equal(t, 2, behind.got)
}

// TestTheFirstOrdererSpeaksForThoseWhoDoNotLie, also where all others are away.
func TestTheFirstOrdererSpeaksForThoseWhoDoNotLie(t *testing.T) {
	w := newTown(t, "raft")
	for _, stop := range w.stop[1:] {
		stop()
	}
	out, err := w.run(t, "upgrade-chaincode", "smallbank", "--version", "2.0")
	require.NoError(t, err)
	assert.Contains(t, out, "configuration 2 is in force from block 2 on")
	assert.Equal(t, 1, w.honest.got)
}
