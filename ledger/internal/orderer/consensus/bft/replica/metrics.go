package replica

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// register adds the series of where the replica stands, and of its stages behind the one that steps.
func (n *Node) register() {
	n.registerView()
	labels := func(kind, name string) prometheus.Labels {
		return prometheus.Labels{"channel": n.settings.Channel, kind: name}
	}
	for _, stage := range []struct {
		name   string
		busy   *ops.Saturation
		stands func() stood
	}{
		{"write", &n.writing, n.disk.stands},
		{"apply", &n.applying, n.work.stands},
	} {
		n.show(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "qioi", Subsystem: "orderer", Name: "stage_busy_seconds_total", Help: "Time that a stage of consensus has worked.",
			ConstLabels: labels("stage", stage.name),
		}, stage.busy.Seconds))
		n.show(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "qioi", Subsystem: "orderer", Name: "queue_depth", Help: "Items that wait in a queue.",
			ConstLabels: labels("queue", stage.name),
		}, func() float64 { return float64(stage.stands().length) }))
		n.show(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "qioi", Subsystem: "orderer", Name: "queue_items_total", Help: "Items that were put into a queue.",
			ConstLabels: labels("queue", stage.name),
		}, func() float64 { return float64(stage.stands().came) }))
		n.show(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "qioi", Subsystem: "orderer", Name: "queue_found_total", Help: "Items that each found in a queue when it was put there, of all items together.",
			ConstLabels: labels("queue", stage.name),
		}, func() float64 { return float64(stage.stands().found) }))
	}
}

func (n *Node) registerView() {
	for _, series := range []struct {
		name, help string
		value      func(*bft.View) uint64
	}{
		{"view", "The view that the replica is in, of its epoch.", func(v *bft.View) uint64 { return v.View }},
		{"epoch", "The entry of the configuration in force, which names the epoch.", func(v *bft.View) uint64 { return v.Group.Epoch }},
		{"active", "1 while the replica's view has begun, 0 while it waits for that.", func(v *bft.View) uint64 { return flag(v.Active) }},
		{"applied", "The last entry that is applied.", func(v *bft.View) uint64 { return v.Applied }},
		{"stable", "The entry of the stable checkpoint.", func(v *bft.View) uint64 { return v.Stable }},
		{"window", "Sequence numbers of which votes or entries are kept.", func(v *bft.View) uint64 { return uint64(v.Held) }},
		{"pending", "Transactions that wait to be ordered.", func(v *bft.View) uint64 { return uint64(v.Pending) }},
		{"suspicions", "Views that this replica has given up.", func(v *bft.View) uint64 { return v.Suspicions }},
	} {
		n.show(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "consensus", Subsystem: "BFT", Name: series.name, Help: series.help,
			ConstLabels: prometheus.Labels{"channel": n.settings.Channel},
		}, func() float64 { return float64(series.value(n.view.Load())) }))
	}
}

// show registers a series. A consenter that is opened again replaces its own.
func (n *Node) show(series prometheus.Collector) {
	var already prometheus.AlreadyRegisteredError
	if err := n.host.Registry().Register(series); errors.As(err, &already) {
		n.host.Registry().Unregister(already.ExistingCollector)
		n.host.Registry().MustRegister(series)
	} else if err != nil {
		panic(err)
	}
}

func flag(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}
