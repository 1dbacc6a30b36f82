package bftbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/process"
)

// busyPart is for which part of the time the replicas of a run keep a processor of this host busy.
func busyPart(run plan.Run) float64 {
	if run.Quota > 0 {
		return min(1, run.Quota*float64(run.Alive())/float64(runtime.NumCPU()))
	}
	return 1
}

// busyBeside does what replicas do on the host's other processors while f measures on the first: processors share caches,
// memory and sometimes more, so that one alone is faster than each of several.
func busyBeside(part float64, f func() error) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	processors, err := allowed()
	if err != nil {
		return err
	}
	restore, err := confine(processors[:1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	for _, processor := range processors[1:] {
		cmd := exec.Command(self, "bft-bench", "busy", strconv.FormatFloat(part, 'f', 3, 64), strconv.Itoa(processor))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, in.Close(), cmd.Wait()) }()
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // it has begun
			return fmt.Errorf("bft-bench busy: %w", err)
		}
	}
	return f()
}

// busyCommand is what beside starts.
func busyCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "busy PART PROCESSOR",
		Short:  "Verify signatures on a processor for a part of the time, until standard input ends",
		Args:   cobra.ExactArgs(2),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			part, err := strconv.ParseFloat(args[0], 64)
			if err != nil {
				return err
			}
			processor, err := strconv.Atoi(args[1])
			if err != nil {
				return err
			}
			if _, err := confine([]int{processor}); err != nil {
				return err
			}
			signal.Ignore(ofTerminal...) // who has started this one ends it
			ctx, stop := context.WithCancel(cmd.Context())
			defer stop()
			go func() {
				_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // its end is all that is waited for
				stop()
			}()
			return keepBusy(ctx, part, cmd.OutOrStdout())
		},
	}
}

// keepBusy works for a part of each of these.
const busyPeriod = 2 * time.Millisecond

func keepBusy(ctx context.Context, part float64, begun io.Writer) error {
	keys, err := auth.NewKeys(auth.ED25519, 1, 1)
	if err != nil {
		return err
	}
	suite, err := auth.New(keys, auth.Machine(0))
	if err != nil {
		return err
	}
	data := make([]byte, 80)
	signature := suite.Requests.Broadcast(data)
	if _, err := begun.Write([]byte{'.'}); err != nil {
		return err
	}
	alarm, err := process.NewAlarm() // time.Sleep would rest for a whole millisecond
	if err != nil {
		return err
	}
	defer func() { _ = alarm.Close() }()
	work := time.Duration(part * float64(busyPeriod))
	for ctx.Err() == nil {
		for began := time.Now(); time.Since(began) < work; {
			suite.Requests.VerifyBroadcast(auth.Machine(0), data, signature)
		}
		if work < busyPeriod {
			alarm.Set(busyPeriod - work)
			<-alarm.C
		}
	}
	return nil
}
