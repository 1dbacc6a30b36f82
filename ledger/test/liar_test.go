package test

import (
	"crypto/tls"
	"net"
	"os"
	"regexp"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// lie makes of what an orderer has sent to a peer what the liar sends in its place.
type lie func([]*streampb.Item) []*streampb.Item

// liar stands in an orderer's place, with its certificate, and hands on to a peer what another one sends, but for its lie.
type liar struct {
	streampb.UnimplementedStreamServer
	upstream streampb.StreamClient
	lie      func() lie // one for each stream
	lied     atomic.Int64
	// The rest is for networks in which some orderers may lie.
	word    func(*streampb.Word) *streampb.Word // what it makes of a running hash
	flood   int                                 // running hashes of its own that come with each batch
	pace    time.Duration                       // how late each batch is
	replies bool                                // whether it answers clients
	replied atomic.Int64                        // how often it did
}

func (l *liar) Follow(request *commonpb.Envelope, to streampb.Stream_FollowServer) error {
	from, err := l.upstream.Follow(to.Context(), request) // the peer has signed it
	if err != nil {
		return err
	}
	for lie := l.lie(); ; {
		batch, err := from.Recv()
		if err != nil {
			return err
		}
		time.Sleep(l.pace)
		items, word := batch.Items, batch.Word
		if len(items) > 0 {
			items = lie(items)
		}
		if word != nil && l.word != nil {
			word = l.word(word)
		}
		if !slices.Equal(items, batch.Items) || word != batch.Word || l.flood > 0 || l.pace > 0 {
			l.lied.Add(1)
		}
		for i := range l.flood {
			if err := to.Send(&streampb.Batch{Word: &streampb.Word{Block: batch.Word.GetBlock() + 1 + uint64(i), Tx: 1, Hash: []byte("lie")}}); err != nil {
				return err
			}
		}
		if len(items) == 0 && (len(batch.Items) > 0 || word == nil) {
			continue
		}
		if err := to.Send(&streampb.Batch{Items: items, Word: word}); err != nil { // it names no leader: peers are to stay
			return err
		}
	}
}

// lies are the same on each stream.
var lies = map[string]struct {
	lie    func() lie
	reason string // the peer logs it
}{
	"two transactions as one": {
		lie: func() lie {
			var first []byte
			return func(items []*streampb.Item) (out []*streampb.Item) {
				for _, item := range items {
					switch tx := item.GetTx(); {
					case tx == nil: // a seal
						if first != nil {
							out = append(out, &streampb.Item{Kind: &streampb.Item_Tx{Tx: first}})
						}
						out, first = append(out, item), nil
					case first == nil:
						first = tx
					default:
						out = append(out, &streampb.Item{Kind: &streampb.Item_Tx{Tx: slices.Concat(first, tx)}})
						first = nil
					}
				}
				return out
			}
		},
		reason: "is no longer followed",
	},
	"no seal": {
		lie: func() lie {
			return func(items []*streampb.Item) (out []*streampb.Item) {
				return slices.DeleteFunc(slices.Clone(items), func(item *streampb.Item) bool { return item.GetSeal() != nil })
			}
		},
		reason: "should have been sealed before",
	},
	"nothing after a while": {
		lie: func() lie {
			left := 200 // or a few more: the running hash that comes with a batch is for the whole of it
			return func(items []*streampb.Item) []*streampb.Item {
				if left <= 0 {
					return nil
				}
				left -= len(items)
				return items
			}
		},
		reason: "it withholds block",
	},
}

// asked is what a peer logs first of an orderer: that it follows it, or why not.
var asked = regexp.MustCompile(`\] (?:Following )?orderer (\S+:\d+)(?: from|:) `)

// firstFollowed is the orderer that a peer asked first when it started, and will again at its next start. It says so once
// something was ordered.
func (g *grid) firstFollowed(peer string) (orderer string) {
	g.t.Helper()
	var address string
	g.eventually(peer+" says whom it follows", func() bool {
		log, err := os.ReadFile(g.path(g.node(peer).Log))
		found := asked.FindSubmatch(log)
		if err != nil || found == nil {
			return false
		}
		address = string(found[1])
		return true
	})
	at := slices.IndexFunc(g.file.Nodes, func(n network.Node) bool { return n.Address == address })
	require.GreaterOrEqual(g.t, at, 0, address)
	return g.file.Nodes[at].Name
}

// replace has a liar serve in the place of an orderer.
func (g *grid) replace(orderer string, l *liar) {
	g.t.Helper()
	cfg, err := nodeconfig.Load(g.path(g.node(orderer).Config), nodeconfig.RoleOrderer)
	require.NoError(g.t, err)
	certificate, err := tls.LoadX509KeyPair(cfg.TLS.Cert, cfg.TLS.Key)
	require.NoError(g.t, err)
	g.kill(orderer, syscall.SIGKILL)
	listener, err := net.Listen("tcp", g.node(orderer).Address)
	require.NoError(g.t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})))
	streampb.RegisterStreamServer(server, l)
	if l.replies {
		ordererpb.RegisterAtomicBroadcastServer(server, &repliesTo{times: &l.replied})
	}
	go func() { _ = server.Serve(listener) }()
	g.t.Cleanup(server.Stop)
}

// TestALyingOrderer takes the place of the one that a peer asks first. The peer finds it out under load, goes on with the
// others, and in the end has what the other peer has, and all that clients were told.
func TestALyingOrderer(t *testing.T) {
	for name, c := range lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const victim = "peer0-org1"
			g := newGrid(t, "--peers-per-org", "1", "--chaincode", kv)
			w := g.load("--chaincode", "kv", "--clients", "8", "--value-size", "100")
			g.progress(victim, 30)
			g.kill(victim, syscall.SIGTERM)
			place := g.firstFollowed(victim)
			honest := slices.DeleteFunc(g.named("orderer"), func(name string) bool { return name == place })
			l := &liar{upstream: streampb.NewStreamClient(g.user().dial(honest[0])), lie: c.lie}
			g.replace(place, l)
			g.progress("peer0-org2", 300)
			g.start(victim)
			g.awaitLog(victim, c.reason)
			g.progress(victim, 300)
			g.agree(w.stop())
			assert.Positive(t, l.lied.Load())
		})
	}
}
