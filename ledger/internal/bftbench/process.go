package bftbench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/replica"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/process"
)

// member is a replica of a run, in this process or in one of its own.
type member interface {
	Address() string
	Connect(map[bft.ID]string) error
	Sample() (replica.Sample, error)
	// Profile begins a CPU profile of it into a file; "": ends it.
	Profile(file string) error
	// Stop ends it, and says why it ended before.
	Stop() error
}

// inside is a replica in this process.
type inside struct {
	*replica.Replica
	cancel context.CancelFunc
	ended  chan error
}

func startInside(cfg replica.Config) (member, error) {
	r, err := replica.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	i := &inside{r, cancel, make(chan error, 1)}
	go func() { i.ended <- r.Run(ctx) }()
	return i, nil
}

func (i *inside) Sample() (replica.Sample, error) { return i.Replica.Sample(), nil }

// errInside is why some runs are refused.
var errInside = errors.New("in-process: replicas in one process have no profiles, metrics, processors and quota of their own")

func (i *inside) Profile(string) error { return errInside }

func (i *inside) Stop() error {
	i.cancel()
	return ignoreCancelled(<-i.ended)
}

func ignoreCancelled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// outside is a replica in a process of its own. The two talk in lines of JSON; it ends with its standard input.
type outside struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
	address string
	id      bft.ID
}

// What a replica's process is told after its configuration, and what it answers.
type (
	request struct {
		Connect map[bft.ID]string `json:",omitempty"`
		Sample  bool              `json:",omitempty"`
		Profile *string           `json:",omitempty"`
	}
	response struct {
		Address string          `json:",omitempty"`
		Error   string          `json:",omitempty"`
		Sample  *replica.Sample `json:",omitempty"`
	}
)

func startOutside(ctx context.Context, cfg replica.Config, groups *groups, metrics string) (member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := &outside{id: cfg.ID, cmd: exec.Command(self, "bft-bench", "replica", "--metrics", metrics)}
	o.cmd.Stderr = os.Stderr
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	o.cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(processorsOf(cfg.Run, runtime.NumCPU())))
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	o.out = json.NewDecoder(out)
	if err := o.cmd.Start(); err != nil {
		return nil, err
	}
	// The process waits for its configuration, so that all of its work is done inside its group.
	if err := groups.add(cfg.ID, o.cmd.Process.Pid); err != nil {
		return nil, errors.Join(err, o.Stop())
	}
	// It fills its table before it answers, which may take long.
	heed := context.AfterFunc(ctx, func() { _ = o.cmd.Process.Kill() })
	answer, err := o.ask(cfg)
	heed()
	if err != nil {
		return nil, errors.Join(err, o.Stop())
	}
	o.address = answer.Address
	return o, nil
}

// processorsOf is on how many threads a replica runs Go code.
func processorsOf(run plan.Run, host int) int {
	switch {
	case run.Processors > 0:
		return run.Processors
	case run.Quota > 0:
		return max(1, int(run.Quota+0.999))
	}
	return process.FairProcessors(host, run.Alive()+1)
}

func (o *outside) ask(question any) (answer response, err error) {
	if err := json.NewEncoder(o.in).Encode(question); err != nil {
		return answer, fmt.Errorf("replica %d: %w", o.id, err)
	}
	if err := o.out.Decode(&answer); err != nil {
		return answer, fmt.Errorf("replica %d has ended: %w", o.id, err)
	}
	if answer.Error != "" {
		return answer, fmt.Errorf("replica %d: %s", o.id, answer.Error)
	}
	return answer, nil
}

func (o *outside) Address() string { return o.address }

func (o *outside) Connect(all map[bft.ID]string) error {
	_, err := o.ask(request{Connect: all})
	return err
}

func (o *outside) Sample() (replica.Sample, error) {
	answer, err := o.ask(request{Sample: true})
	if err != nil {
		return replica.Sample{}, err
	}
	return *answer.Sample, nil
}

func (o *outside) Profile(file string) error {
	_, err := o.ask(request{Profile: &file})
	return err
}

func (o *outside) Stop() error {
	_ = o.in.Close() // a process that has ended already has closed it
	if err := o.cmd.Wait(); err != nil {
		return fmt.Errorf("replica %d: %w", o.id, err)
	}
	return nil
}

// serveReplica is the other end of outside, in the replica's process.
func serveReplica(ctx context.Context, in io.Reader, out io.Writer, metrics string) error {
	decoder, encoder := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	var cfg replica.Config
	if err := decoder.Decode(&cfg); err != nil {
		return fmt.Errorf("the configuration on standard input: %w", err)
	}
	r, err := replica.New(cfg)
	if err != nil {
		return errors.Join(err, encoder.Encode(response{Error: err.Error()}))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if metrics != "" {
		server, err := ops.Listen(ops.Config{Listen: metrics, Pprof: true})
		if err != nil {
			return errors.Join(err, encoder.Encode(response{Error: err.Error()}))
		}
		for _, m := range r.Meters() {
			m.Register(server.Registry())
		}
		server.SetReady()
		go func() { _ = server.Serve(ctx) }()
	}
	ended := make(chan error, 1)
	go func() {
		ended <- r.Run(ctx)
		cancel()
	}()
	answer := response{Address: r.Address()}
	var recording profile
	for {
		if err := encoder.Encode(answer); err != nil {
			return err
		}
		var asked request
		if decoder.Decode(&asked) != nil { // who has started it is done with it, or gone
			cancel()
			return ignoreCancelled(<-ended)
		}
		answer = response{}
		switch {
		case ctx.Err() != nil:
			err := <-ended
			return errors.Join(err, encoder.Encode(response{Error: fmt.Sprint(err)}))
		case asked.Sample:
			s := r.Sample()
			answer.Sample = &s
		case asked.Profile != nil:
			if err := recording.turn(*asked.Profile); err != nil {
				answer.Error = err.Error()
			}
		default:
			if err := r.Connect(asked.Connect); err != nil {
				answer.Error = err.Error()
			}
		}
	}
}
