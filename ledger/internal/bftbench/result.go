package bftbench

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/clients"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/protocol"
	"github.com/qioi/qioi/ledger/internal/bftbench/simulate"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/stage"
	"github.com/qioi/qioi/ledger/internal/zipf"
)

// Result is what a run has measured, or the simulator has computed.
type Result struct {
	Kind       string    `json:"kind"` // Kind is real or simulated.
	Run        plan.Run  `json:"run"`
	Seconds    float64   `json:"seconds"`
	Throughput float64   `json:"throughput"` // Throughput is transactions per second.
	Operations float64   `json:"operations"` // Operations is writes per second.
	Latency    Latency   `json:"latency"`
	Replicas   []Replica `json:"replicas"`
	Clients    Client    `json:"clients"`
	// CPU is of all replicas together, in microseconds per transaction; Stages has its parts.
	CPU    float64            `json:"cpu_us"`
	Stages map[string]float64 `json:"stages_us"`
	Floor  Floor              `json:"floor"`
	// Breakdown is where the time went, by stage, in the order of a transaction's way, where that was asked for.
	Breakdown []stage.Times `json:"breakdown,omitempty"`
	// Costs is what a simulated run was computed from, and Machines are those that it was computed for.
	Costs    *simulate.Costs   `json:"costs,omitempty"`
	Machines *simulate.Options `json:"machines,omitempty"`
}

// Latency is in milliseconds, from sending a transaction to its last reply that is needed.
type Latency struct {
	Mean float64 `json:"mean_ms"`
	P50  float64 `json:"p50_ms"`
	P95  float64 `json:"p95_ms"`
	P99  float64 `json:"p99_ms"`
}

// Replica is one replica's part.
type Replica struct {
	ID      bft.ID  `json:"id"`
	CPU     float64 `json:"cpu_us"` // CPU is in microseconds per transaction, the kernel's work included.
	System  float64 `json:"system_us"`
	Memory  float64 `json:"memory_mb"`
	Dropped int64   `json:"dropped"` // Dropped is messages that found a queue full.
	Refused int64   `json:"refused"` // Refused is messages and transactions without a proof.
	Stages  []Stage `json:"stages"`
}

// Stage is one stage of a replica.
type Stage struct {
	Name       string  `json:"stage"`
	Threads    int     `json:"threads"`
	Saturation float64 `json:"saturation"` // Saturation is for which part of the time each thread worked.
	CPU        float64 `json:"cpu_us"`     // CPU is in microseconds per transaction.
	Queue      float64 `json:"queue"`      // Queue is how many items waited at once, in the mean.
}

// Client is the clients' process.
type Client struct {
	CPU float64 `json:"cpu_us"`
	clients.Counts
}

// Floor is the most that the signatures of clients allow by the replicas that verify them.
type Floor struct {
	VerifyMicroseconds float64 `json:"verify_us"`  // VerifyMicroseconds is of a request's signature, which hashes the request.
	Cores              float64 `json:"cores"`      // Cores are the processors of these replicas together.
	Throughput         float64 `json:"throughput"` // Throughput is 0 where nothing is signed.
	Part               float64 `json:"part"`       // Part is the run's throughput as a part of that.
}

// floorOf measures what verifying a client's signature takes here and now.
func floorOf(run plan.Run, keys auth.Keys, inProcess bool) (f Floor, err error) {
	f.Cores = verifying(run, runtime.NumCPU(), inProcess)
	if run.Auth == auth.None {
		return f, nil
	}
	suite, err := auth.New(keys, auth.Machine(0))
	if err != nil {
		return f, err
	}
	if f.VerifyMicroseconds, err = verifyMicroseconds(run, suite.Requests); err != nil {
		return f, err
	}
	f.Throughput = f.bound(run)
	return f, nil
}

// verifyMicroseconds is how long a request of the run takes to verify.
func verifyMicroseconds(run plan.Run, by auth.Authenticator) (float64, error) {
	w := &bft.Writer{}
	ycsb.NewSource(run.Load, zipf.New(2, 0), 1).Append(w, by, 0, 1) // keys are as short as any
	request := ycsb.ReadSigned(bft.NewReader(w.Bytes))
	const most = 300 * time.Millisecond
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	count, began, used := 0, time.Now(), stage.ThreadTime()
	for ; time.Since(began) < most; count++ {
		if !ycsb.CheckOne(request, by) {
			return 0, fmt.Errorf("%s does not verify its own signature", run.Auth)
		}
	}
	// CPU time, so that whoever else is on the machine does not count.
	return float64((stage.ThreadTime() - used).Nanoseconds()) / 1000 / float64(count), nil
}

// verifiers is how many replicas verify each signature of a client.
func verifiers(run plan.Run) int {
	if p, err := protocol.Find(run); run.Check == plan.CheckPrimary || err == nil && p.Alone {
		return 1
	}
	return run.Alive()
}

// verifying is the processors of a host that the replicas which verify have together. One process has all of them.
func verifying(run plan.Run, host int, inProcess bool) float64 {
	if inProcess {
		return float64(host)
	}
	each := float64(processorsOf(run, host))
	if run.Quota > 0 {
		each = min(each, run.Quota)
	}
	return min(float64(host), each*float64(verifiers(run)))
}

// bound is the throughput at which verifying is all that the processors do.
func (f Floor) bound(run plan.Run) float64 {
	return f.Cores / float64(verifiers(run)) / f.VerifyMicroseconds * 1e6 * float64(run.Load.Burst)
}

// WriteJSON writes it for programs.
func (r *Result) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// breakdownText is the breakdown for people.
func breakdownText(all []stage.Times) string {
	text := stage.Head("replica")
	for _, t := range all {
		text += t.Text(fmt.Sprint(t.Most))
	}
	return text
}

// WriteText writes it for people.
func (r *Result) WriteText(w io.Writer) error {
	text := fmt.Sprintf("%s: %s, %d replicas, batches of %d, auth %s, %s, %d clients\n", r.Kind, r.Run.Protocol, r.Run.Replicas, r.Run.Batch, r.Run.Auth, r.Run.Execution, r.Run.Clients)
	if m := r.Machines; m != nil {
		text += fmt.Sprintf("machines   %10d cores each, of %g times this one's speed; links of %s and %.0f MB/s\n", m.Cores, m.Speed, m.Latency, m.Bandwidth/1e6)
	}
	text += fmt.Sprintf("throughput %10.0f tps   %.0f writes/s\n", r.Throughput, r.Operations)
	text += fmt.Sprintf("latency    %10.2f ms mean   p50 %.2f   p95 %.2f   p99 %.2f\n", r.Latency.Mean, r.Latency.P50, r.Latency.P95, r.Latency.P99)
	text += fmt.Sprintf("CPU        %10.2f us of replicas per transaction, %.2f of clients\n", r.CPU, r.Clients.CPU)
	if r.Floor.Throughput > 0 {
		text += fmt.Sprintf("signatures %10.2f us to verify: at most %.0f tps; %.0f %% of that\n", r.Floor.VerifyMicroseconds, r.Floor.Throughput, 100*r.Floor.Part)
	}
	if r.Clients.Retries > 0 {
		text += fmt.Sprintf("retries    %10d transactions sent to all replicas, warm-up included\n", r.Clients.Retries)
	}
	text += fmt.Sprintf("\n%-8s %-11s %8s %11s %12s %8s\n", "replica", "stage", "threads", "saturation", "us per tx", "queue")
	for _, one := range r.Replicas {
		for _, s := range one.Stages {
			text += fmt.Sprintf("%-8d %-11s %8d %10.0f%% %12.2f %8.1f\n", one.ID, s.Name, s.Threads, 100*s.Saturation, s.CPU, s.Queue)
		}
		text += fmt.Sprintf("%-8d %-11s %8s %11s %12.2f\n", one.ID, "process", "", "", one.CPU)
	}
	if len(r.Breakdown) > 0 {
		text += breakdownText(r.Breakdown)
	}
	_, err := io.WriteString(w, text)
	return err
}
