package bftbench

import (
	"fmt"

	"github.com/qioi/qioi/ledger/internal/bftbench/stage"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// StageTimes is one stage of all replicas together.
type StageTimes struct {
	Stage      string  `json:"stage"`
	Threads    int     `json:"threads"`    // Threads is of each replica; 0: the worker does it.
	Rate       float64 `json:"rate"`       // Rate is items per second.
	Wait       float64 `json:"wait_ms"`    // Wait is how long an item was in the stage's queue, in the mean.
	Service    float64 `json:"service_ms"` // Service is how long a thread then worked on it, in the mean.
	Saturation float64 `json:"saturation"` // Saturation is that of the replica whose threads worked most: at 1 they can do no more.
	Most       bft.ID  `json:"replica"`    // Most is which replica that is; 0: none has worked.
	Queue      float64 `json:"queue"`      // Queue is how many items waited at once at a replica, in the mean.
	Capacity   int     `json:"capacity"`   // Capacity is how many can; 0: the stage has no queue.
}

// breakdown tells by stage where the time went, of what each replica's stages counted in so many seconds.
func breakdown(replicas [][]stage.Sample, seconds float64) []StageTimes {
	all := make([]StageTimes, len(stage.Names))
	for i, name := range stage.Names {
		t := StageTimes{Stage: name}
		var sum stage.Sample
		for r, stages := range replicas {
			s := stages[i]
			t.Threads, t.Capacity = s.Threads, s.Capacity
			sum.Units, sum.Busy, sum.Waited = sum.Units+s.Units, sum.Busy+s.Busy, sum.Waited+s.Waited
			if saturation := s.Saturation(seconds); saturation > t.Saturation {
				t.Saturation, t.Most = saturation, bft.ID(r+1)
			}
		}
		t.Rate = float64(sum.Units) / seconds
		t.Wait, t.Service = 1000*sum.Wait(), 1000*sum.Service()
		t.Queue = sum.Queue(seconds) / float64(len(replicas))
		all[i] = t
	}
	return all
}

// breakdownText is the breakdown for people.
func breakdownText(all []StageTimes) string {
	text := fmt.Sprintf("\n%-11s %8s %10s %10s %11s %8s %17s\n", "stage", "items/s", "wait ms", "service ms", "saturation", "replica", "queue of capacity")
	for _, t := range all {
		if t.Threads == 0 {
			text += fmt.Sprintf("%-11s the worker does it\n", t.Stage)
			continue
		}
		wait, queue := "-", "-"
		if t.Capacity > 0 {
			wait, queue = fmt.Sprintf("%.3f", t.Wait), fmt.Sprintf("%.1f of %d", t.Queue, t.Capacity)
		}
		text += fmt.Sprintf("%-11s %8.0f %10s %10.3f %10.0f%% %8d %17s\n", t.Stage, t.Rate, wait, t.Service, 100*t.Saturation, t.Most, queue)
	}
	return text
}
