package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// processSlack is what a process of its own may take beside its operation: to begin, to connect, and to say what it
// found.
const processSlack = connectTimeout + 5*time.Second

// refused is the status of a process that could not begin its operation. One that has panicked ends with another.
const refused = 1

// told is an outcome as a process says it that did one operation.
type told struct {
	TxID     string `json:"tx_id"`
	Block    uint64 `json:"block"`
	FailedAt stage  `json:"failed_at"`
	Code     string `json:"code"`
	Detail   string `json:"detail"`
	Lost     bool   `json:"lost"`
	Unknown  bool   `json:"unknown"`
}

// spawned does its one operation in a process of its own, as a shell's user does.
type spawned struct {
	number  int
	options *options
}

func (s spawned) connect(context.Context) error { return nil }
func (s spawned) setup(context.Context) error   { return nil }
func (s spawned) close() error                  { return nil }

func (s spawned) do(ctx context.Context, _ int, c call) outcome {
	program, err := os.Executable()
	if err != nil {
		return unreached(err)
	}
	// The process ends the operation at its timeout. Only it can say what became of a write that was under way then.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.timeout+resolvePatience+processSlack)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, s.options.onceArguments(s.number)...)
	// The terminal's ctrl-C goes to a whole group. What is under way then is waited for.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdin = bytes.NewReader(bytes.Join(c, []byte{0}))
	var said bytes.Buffer
	cmd.Stderr = &said
	answer, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
		if state := cmd.ProcessState; state == nil || state.ExitCode() == refused {
			return unreached(err)
		}
		return s.speechless(c, err)
	}
	var t told
	if err := json.Unmarshal(answer, &t); err != nil {
		return s.speechless(c, err)
	}
	return outcome{
		txID: t.TxID, block: t.Block, failedAt: t.FailedAt, code: t.Code, detail: t.Detail, lost: t.Lost, unknown: t.Unknown,
	}
}

// speechless is the outcome of an operation whose process was killed, or has crashed: it may have been sent.
func (s spawned) speechless(c call, err error) outcome {
	if readers[s.options.chaincode][string(c[0])] {
		return outcome{failedAt: stageOperation, code: "UNAVAILABLE", detail: err.Error()}
	}
	return outcome{}.open(err.Error())
}

func (o *options) onceArguments(number int) []string {
	words := []string{
		"load", "once", "--network", o.network, "--channel", o.channel, "--chaincode", o.chaincode, "--timeout", o.timeout.String(),
		"--consistency", o.consistency, "--number", strconv.Itoa(number),
	}
	if o.queries {
		words = append(words, "--queries")
	}
	if len(o.peers) > 0 {
		words = append(words, "--peers", strings.Join(o.peers, ","))
	}
	return words
}

// onceCommand is `qioi-ledger load once`: one operation, read from standard input, its words divided by NUL.
func onceCommand() *cobra.Command {
	o := options{clients: 1}
	var number int
	cmd := &cobra.Command{
		Use: "once", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var words bytes.Buffer
			if _, err := words.ReadFrom(cmd.InOrStdin()); err != nil {
				return err
			}
			c := call(bytes.Split(words.Bytes(), []byte{0}))
			if len(c[0]) == 0 {
				return errors.New("a function and its arguments are expected on standard input")
			}
			done, err := o.once(cmd.Context(), number, c)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(told{
				done.txID, done.block, done.failedAt, done.code, done.detail, done.lost, done.unknown,
			})
		},
	}
	f := cmd.Flags()
	o.systemFlags(f)
	f.IntVar(&number, "number", 0, "number of the operation, which chooses the node")
	return cmd
}

func (o *options) once(ctx context.Context, number int, c call) (outcome, error) {
	net, err := readNetwork(o.network)
	if err != nil {
		return outcome{}, err
	}
	channel, err := net.channel(o.channel)
	if err != nil {
		return outcome{}, err
	}
	open, _, err := o.opening(net, channel)
	if err != nil {
		return outcome{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	r := &run{fresh: open}
	return r.transact(ctx, number, c), nil
}
