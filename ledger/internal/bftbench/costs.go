package bftbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/simulate"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
	"github.com/qioi/qioi/ledger/internal/resultfile"
)

// Costs is what was measured so far, by what it depends on. A machine's speed changes from one minute to the next: what is
// compared with each other is computed from the same measurement.
type Costs struct {
	Parts map[string]simulate.Costs `json:"parts"`
	Cores map[string]simulate.Core  `json:"cores"`

	file string // file is where it is kept; "": nowhere
}

// parts is what the costs beside the core depend on.
type parts struct {
	Version         int // Version is partsVersion.
	Replicas        int
	Requests        int // of a batch
	Auth, Execution string
	Load            ycsb.Load
	Beside          float64 // Beside is how busy the other processors are.
}

// core is what its costs depend on.
type core struct {
	Version    int // Version is stepsVersion.
	Protocol   string
	Replicas   int
	Checkpoint int // in batches
	Beside     float64
}

const (
	// partsVersion grows when the costs beside the core are measured otherwise: what was kept before is of something else.
	partsVersion = 3
	// stepsVersion grows when more kinds of a core's steps are measured, or otherwise.
	stepsVersion = 3
)

// ReadCosts reads what a file has, if it exists; "": nothing. What is measured for want of it is kept there.
func ReadCosts(file string) (*Costs, error) {
	c := &Costs{file: file}
	if file == "" {
		return c, nil
	}
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, c)
	}
	if err != nil {
		return nil, fmt.Errorf("costs %s: %w", file, err)
	}
	return c, nil
}

// keep writes it to its file, as results are written.
func (c *Costs) keep() error {
	err := resultfile.Write(c.file, func(out io.Writer) error {
		as := json.NewEncoder(out)
		as.SetIndent("", "  ")
		return as.Encode(c)
	})
	if err != nil {
		return fmt.Errorf("costs: %w", err)
	}
	return nil
}

// of is what a run's steps cost. What is missing is measured, and kept.
func (c *Costs) of(ctx context.Context, run plan.Run) (simulate.Costs, error) {
	beside := busyPart(run)
	parts := fmt.Sprintf("%+v", parts{partsVersion, run.Replicas, run.Requests(), run.Auth, run.Execution, run.Load, beside})
	core := fmt.Sprintf("%+v", core{stepsVersion, run.Protocol, run.Replicas, run.Interval(), beside})
	cost, has := c.Parts[parts]
	its, knows := c.Cores[core]
	if has && knows {
		cost.Core = its.Collected(cost.Garbage)
		return cost, nil
	}
	err := busyBeside(beside, func() (err error) {
		if !has {
			cost, err = simulate.MeasureCosts(ctx, run)
		}
		if err == nil && !knows {
			its, err = simulate.MeasureCore(ctx, run)
		}
		return err
	})
	if err != nil {
		return cost, err
	}
	if c.Parts == nil {
		c.Parts, c.Cores = map[string]simulate.Costs{}, map[string]simulate.Core{}
	}
	c.Parts[parts], c.Cores[core] = cost, its
	cost.Core = its.Collected(cost.Garbage)
	return cost, c.keep()
}
