package replica

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// register adds the series of where the replica stands, of its stages, and of what waits for them. How much the stage works
// that steps, and how much waits for that now, is shown of every kind of consenter.
func (n *Node) register() {
	n.registerView()
	for name, busy := range map[string]*ops.Saturation{"write": &n.writing, "apply": &n.applying} {
		n.show(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "qioi", Subsystem: "orderer", Name: "stage_busy_seconds_total", Help: "Time that a stage of consensus has worked.",
			ConstLabels: n.labels("stage", name),
		}, busy.Seconds))
	}
	for name, stands := range map[string]func() ops.Stood{"write": n.disk.stands, "apply": n.work.stands} {
		n.show(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "qioi", Subsystem: "orderer", Name: "queue_depth", Help: "Items that wait in a queue.",
			ConstLabels: n.labels("queue", name),
		}, func() float64 { return float64(stands().Length) }))
		n.registerWaits(name, stands)
	}
	n.registerWaits("proposals", n.intake.Stands)
	n.registerWaits("messages", n.mail.stands)
}

func (n *Node) registerWaits(name string, stands func() ops.Stood) {
	n.show(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: "qioi", Subsystem: "orderer", Name: "queue_items_total", Help: "Items that were put into a queue.",
		ConstLabels: n.labels("queue", name),
	}, func() float64 { return float64(stands().Came) }))
	n.show(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: "qioi", Subsystem: "orderer", Name: "queue_wait_seconds_total", Help: "Time in a queue, of all items together.",
		ConstLabels: n.labels("queue", name),
	}, func() float64 { return stands().Waited.Seconds() }))
}

func (n *Node) labels(kind, name string) prometheus.Labels {
	return prometheus.Labels{"channel": n.settings.Channel, kind: name}
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
