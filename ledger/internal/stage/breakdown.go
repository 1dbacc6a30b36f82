package stage

import "fmt"

// Times is one stage of all replicas together.
type Times struct {
	Stage      string  `json:"stage"`
	Threads    int     `json:"threads"`           // Threads is of each replica; 0: the worker does it; Elsewhere: others do.
	Rate       float64 `json:"rate"`              // Rate is items per second.
	Wait       float64 `json:"wait_ms"`           // Wait is how long an item was in the stage's queue, in the mean.
	Service    float64 `json:"service_ms"`        // Service is how long a thread then worked on it, in the mean.
	Saturation float64 `json:"saturation"`        // Saturation is that of the replica whose threads worked most: at 1 they can do no more.
	Most       uint64  `json:"replica,omitempty"` // Most is which replica that is; 0: none has worked.
	Queue      float64 `json:"queue"`             // Queue is how many items waited at once at a replica, in the mean.
	Capacity   int     `json:"capacity"`          // Capacity is how many can; 0: the stage has no queue; Unstated: no such number.
}

// Unstated is the capacity of a queue that no number of items bounds: it has no bound of its own, or several of other kinds.
const Unstated = -1

// Elsewhere is the number of threads of a stage whose work others do: all that is known of it is for how long items wait.
const Elsewhere = -1

// Breakdown tells by stage where the time went, of what each replica's stages, in one order, have counted in so many seconds.
func Breakdown(replicas [][]Sample, seconds float64) []Times {
	all := make([]Times, len(replicas[0]))
	for i := range all {
		t := Times{Stage: replicas[0][i].Name}
		var sum Sample
		for r, stages := range replicas {
			s := stages[i]
			t.Threads, t.Capacity = s.Threads, s.Capacity
			sum.Units, sum.Busy, sum.Waited = sum.Units+s.Units, sum.Busy+s.Busy, sum.Waited+s.Waited
			if saturation := s.Saturation(seconds); saturation > t.Saturation {
				t.Saturation, t.Most = saturation, uint64(r+1)
			}
		}
		t.Rate = float64(sum.Units) / seconds
		t.Wait, t.Service = 1000*sum.Wait(), 1000*sum.Service()
		t.Queue = sum.Queue(seconds) / float64(len(replicas))
		all[i] = t
	}
	return all
}

// Head names the columns of Times.Text, and who is meant by its who.
func Head(who string) string {
	return fmt.Sprintf("\n%-11s %8s %10s %10s %11s %8s %17s\n", "stage", "items/s", "wait ms", "service ms", "saturation", who, "queue of capacity")
}

// Text is a line for people; most is the name of which one worked most.
func (t Times) Text(most string) string {
	if t.Threads == 0 {
		return fmt.Sprintf("%-11s the worker does it\n", t.Stage)
	}
	wait, queue := "-", "-"
	switch {
	case t.Capacity > 0:
		wait, queue = fmt.Sprintf("%.3f", t.Wait), fmt.Sprintf("%.1f of %d", t.Queue, t.Capacity)
	case t.Capacity == Unstated:
		wait, queue = fmt.Sprintf("%.3f", t.Wait), fmt.Sprintf("%.1f", t.Queue)
	}
	service, saturation := fmt.Sprintf("%.3f", t.Service), fmt.Sprintf("%.0f%%", 100*t.Saturation)
	if t.Threads == Elsewhere {
		service, saturation, most = "-", "-", "-"
	}
	return fmt.Sprintf("%-11s %8.0f %10s %10s %11s %8s %17s\n", t.Stage, t.Rate, wait, service, saturation, most, queue)
}
