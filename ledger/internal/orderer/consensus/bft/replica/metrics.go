package replica

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// register adds the series of where the replica stands. A consenter that is opened again replaces its own.
func (n *Node) register() {
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
		gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "consensus", Subsystem: "BFT", Name: series.name, Help: series.help,
			ConstLabels: prometheus.Labels{"channel": n.settings.Channel},
		}, func() float64 { return float64(series.value(n.view.Load())) })
		var already prometheus.AlreadyRegisteredError
		if err := n.host.Registry().Register(gauge); errors.As(err, &already) {
			n.host.Registry().Unregister(already.ExistingCollector)
			n.host.Registry().MustRegister(gauge)
		} else if err != nil {
			panic(err)
		}
	}
}

func flag(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}
