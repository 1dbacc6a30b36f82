package consensus

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qioi/qioi/ledger/internal/ops"
)

// Show registers a series. A consenter that is opened again replaces its own.
func Show(registry prometheus.Registerer, series prometheus.Collector) {
	var already prometheus.AlreadyRegisteredError
	if err := registry.Register(series); errors.As(err, &already) {
		registry.Unregister(already.ExistingCollector)
		registry.MustRegister(series)
	} else if err != nil {
		panic(err)
	}
}

// ShowQueue adds the series of a queue of a consenter's own.
func ShowQueue(registry prometheus.Registerer, channel, queue string, stands func() ops.Stood) {
	Show(registry, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "qioi", Subsystem: "orderer", Name: "queue_depth", Help: "Items that wait in a queue.",
		ConstLabels: prometheus.Labels{"channel": channel, "queue": queue},
	}, func() float64 { return float64(stands().Length) }))
	ShowWaits(registry, channel, queue, stands)
}

// ShowWaits adds those of one that every consenter has, proposals or messages: how many wait is shown already.
func ShowWaits(registry prometheus.Registerer, channel, queue string, stands func() ops.Stood) {
	labels := prometheus.Labels{"channel": channel, "queue": queue}
	Show(registry, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: "qioi", Subsystem: "orderer", Name: "queue_items_total", Help: "Items that were put into a queue.", ConstLabels: labels,
	}, func() float64 { return float64(stands().Came) }))
	Show(registry, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: "qioi", Subsystem: "orderer", Name: "queue_wait_seconds_total", Help: "Time in a queue, of all items together.", ConstLabels: labels,
	}, func() float64 { return stands().Waited.Seconds() }))
}
