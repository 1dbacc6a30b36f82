package replica

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// register adds the series of where the replica stands, of its stages, and of what waits for them. How much the stage works
// that steps, and how much waits for that now, is shown of every kind of consenter.
func (n *Node) register() {
	n.registerView()
	for name, busy := range map[string]*ops.Saturation{"write": &n.writing, "apply": &n.applying} {
		consensus.Show(n.host.Registry(), prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "qioi", Subsystem: "orderer", Name: "stage_busy_seconds_total", Help: "Time that a stage of consensus has worked.",
			ConstLabels: prometheus.Labels{"channel": n.settings.Channel, "stage": name},
		}, busy.Seconds))
	}
	for name, stands := range map[string]func() ops.Stood{"write": n.disk.stands, "apply": n.work.stands} {
		consensus.ShowQueue(n.host.Registry(), n.settings.Channel, name, stands)
	}
	consensus.ShowWaits(n.host.Registry(), n.settings.Channel, "proposals", n.intake.Stands)
	consensus.ShowWaits(n.host.Registry(), n.settings.Channel, "messages", n.mail.stands)
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
		consensus.Show(n.host.Registry(), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "consensus", Subsystem: "BFT", Name: series.name, Help: series.help,
			ConstLabels: prometheus.Labels{"channel": n.settings.Channel},
		}, func() float64 { return float64(series.value(n.view.Load())) }))
	}
}

func flag(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}
