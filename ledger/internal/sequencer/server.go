package sequencer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/wire"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
)

const (
	// window is how many requests of a stream may wait for their answers.
	window = 512
	// groupBytes is about how much is written and synced at once.
	groupBytes = 4 << 20
	// batchBytes is about how much a reader is sent at once.
	batchBytes = 1 << 20
	// MostBlob is the largest blob that is taken, and that those who read it must take. A transaction has at most 252 MiB.
	MostBlob = 254 << 20
	// MostMessage is the largest message that is taken on either side: a blob, or a request of a facade, whose last transaction
	// may be as large as any, behind less than 1 MiB of others.
	MostMessage = MostBlob + 2<<20
	// mostRequest bounds what a request takes in the log: with a group before it less than a frame holds.
	mostRequest = 2 * MostBlob
)

// request is blobs of a stream; first gets the number of the first of them, and has room for it.
type request struct {
	blobs [][]byte
	first chan<- uint64
}

// channel is one log and the goroutine that appends to it.
type channel struct {
	log     *Log
	waiting chan request
	wrote   prometheus.Observer // how long a write and its sync took; nil: nobody asks
}

// run appends what waits, all of it with one sync, until ctx ends.
func (c *channel) run(ctx context.Context) error {
	for {
		var group []request
		select {
		case <-ctx.Done():
			return nil
		case r := <-c.waiting:
			group = append(group, r)
		}
		blobs, size := [][]byte(nil), 0
		take := func(r request) {
			blobs = append(blobs, r.blobs...)
			size += kept(r.blobs)
		}
		take(group[0])
		for more := true; more && size < groupBytes; {
			select {
			case r := <-c.waiting:
				group = append(group, r)
				take(r)
			default:
				more = false
			}
		}
		began := time.Now()
		number, err := c.log.Append(blobs)
		if c.wrote != nil {
			c.wrote.Observe(time.Since(began).Seconds())
		}
		if err != nil {
			return fmt.Errorf("the log: %w", err) // what is on disk is known after a restart
		}
		for _, r := range group {
			r.first <- number
			number += uint64(len(r.blobs))
		}
		wire.LetSend() // clients wait for the answers, and nobody yet for what readers are sent
		c.log.Tell()
	}
}

// Server answers for logs by the names of their channels.
type Server struct {
	sequencerpb.UnimplementedSequencerServer
	channels              map[string]*channel
	mostBlob, mostRequest int
}

// NewServer makes a server of logs that are open. Run appends to them.
func NewServer(logs map[string]*Log) *Server {
	s := &Server{channels: map[string]*channel{}, mostBlob: MostBlob, mostRequest: mostRequest}
	for name, log := range logs {
		s.channels[name] = &channel{log: log, waiting: make(chan request, window)}
	}
	return s
}

// Register adds the series of each channel. Call it before Run.
func (s *Server) Register(registry prometheus.Registerer) {
	writes := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "qioi", Subsystem: "sequencer", Name: "write_seconds", Buckets: ops.LatencyBuckets,
		Help: "Time of one write to the log, its sync included where the log is durable. It may be of many blobs.",
	}, []string{"channel"})
	registry.MustRegister(writes)
	for name, c := range s.channels {
		c.wrote = writes.WithLabelValues(name)
		labels := prometheus.Labels{"channel": name}
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "qioi", Subsystem: "sequencer", Name: "ordered_total", Help: "Blobs in the log.", ConstLabels: labels,
		}, func() float64 { last, _ := c.log.Last(); return float64(last) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "qioi", Subsystem: "sequencer", Name: "queue_depth", Help: "Requests that wait to be written.", ConstLabels: labels,
		}, func() float64 { return float64(len(c.waiting)) }))
	}
}

// Run appends until ctx ends, or a log cannot be written to.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for name, c := range s.channels {
		group.Go(func() error {
			if err := c.run(ctx); err != nil {
				return fmt.Errorf("channel %s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (s *Server) channel(name string) (*channel, error) {
	if c := s.channels[name]; c != nil {
		return c, nil
	}
	return nil, status.Errorf(codes.NotFound, "the sequencer has no channel %q", name)
}

// check refuses what the log could not keep, or what nobody could read from it.
func (s *Server) check(blobs [][]byte) error {
	if len(blobs) == 0 {
		return status.Error(codes.InvalidArgument, "a request of at least one blob is accepted")
	}
	for _, blob := range blobs {
		if len(blob) > s.mostBlob {
			return status.Errorf(codes.InvalidArgument, "a blob of %d bytes: at most %d are accepted", len(blob), s.mostBlob)
		}
	}
	if size := kept(blobs); size > s.mostRequest {
		return status.Errorf(codes.InvalidArgument, "a request that takes %d bytes of the log: at most %d are accepted", size, s.mostRequest)
	}
	return nil
}

// Order implements sequencerpb.SequencerServer.
func (s *Server) Order(stream sequencerpb.Sequencer_OrderServer) error {
	in, err := stream.Recv()
	if err != nil {
		return ignoreEOF(err)
	}
	c, err := s.channel(in.Channel)
	if err != nil {
		return err
	}
	o := &ordering{server: s, stream: stream, channel: c, first: make(chan uint64, window), slots: make(chan struct{}, window)}
	group, ctx := errgroup.WithContext(stream.Context())
	group.Go(func() error { return o.answer(ctx) })
	group.Go(func() error { return o.take(ctx, in) })
	return ignoreEOF(group.Wait())
}

// ordering is one stream of requests. They are answered in their order, for there is one goroutine that appends.
type ordering struct {
	server  *Server
	stream  sequencerpb.Sequencer_OrderServer
	channel *channel
	first   chan uint64   // never lacks room: slots bounds the requests that are not answered
	slots   chan struct{} // has an item for each of those
}

// answer tells where requests were kept; it always errs.
func (o *ordering) answer(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case number := <-o.first:
			if err := o.stream.Send(&sequencerpb.OrderResponse{First: number}); err != nil {
				return err
			}
			<-o.slots
		}
	}
}

// take brings requests to the log, this one first; it always errs, with EOF once no more come and all are answered.
func (o *ordering) take(ctx context.Context, in *sequencerpb.OrderRequest) error {
	for {
		if err := o.server.check(in.Blobs); err != nil {
			return err
		}
		if err := o.slot(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o.channel.waiting <- request{in.Blobs, o.first}:
		}
		var err error
		if in, err = o.stream.Recv(); errors.Is(err, io.EOF) {
			return o.allAnswered(ctx)
		} else if err != nil {
			return err
		}
	}
}

func (o *ordering) slot(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case o.slots <- struct{}{}:
		return nil
	}
}

// allAnswered waits for the answers that are still to come. Nobody else takes slots: when it has all, none is under way.
func (o *ordering) allAnswered(ctx context.Context) error {
	for range cap(o.slots) {
		if err := o.slot(ctx); err != nil {
			return err
		}
	}
	return io.EOF
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Get implements sequencerpb.SequencerServer.
func (s *Server) Get(in *sequencerpb.GetRequest, stream sequencerpb.Sequencer_GetServer) error {
	c, err := s.channel(in.Channel)
	if err != nil {
		return err
	}
	for next := in.Number; ; {
		blobs, chain, more, err := c.log.Get(next, batchBytes)
		switch {
		case errors.Is(err, ErrPast):
			return status.Error(codes.OutOfRange, err.Error())
		case err != nil:
			return err
		}
		if len(blobs) == 0 {
			select {
			case <-more:
				continue
			case <-stream.Context().Done():
				return nil
			}
		}
		if err := stream.Send(&sequencerpb.Blobs{First: next, Blobs: blobs, Chain: chain[:]}); err != nil {
			return err
		}
		next += uint64(len(blobs))
	}
}

// Last implements sequencerpb.SequencerServer.
func (s *Server) Last(_ context.Context, in *sequencerpb.LastRequest) (*sequencerpb.LastResponse, error) {
	c, err := s.channel(in.Channel)
	if err != nil {
		return nil, err
	}
	number, chain := c.log.Last()
	return &sequencerpb.LastResponse{Number: number, Chain: chain[:]}, nil
}
