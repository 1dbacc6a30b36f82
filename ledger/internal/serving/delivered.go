package serving

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Delivered are Fabric's series for a service that sends blocks, on peers and orderers alike; a nil *Delivered
// counts nothing.
type Delivered struct {
	opened, closed            prometheus.Counter
	received, completed, sent *prometheus.CounterVec
}

// NewDelivered registers the series.
func NewDelivered(registry prometheus.Registerer) *Delivered {
	options := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "deliver", Name: name, Help: help}
	}
	labels := []string{"channel", "filtered", "data_type"}
	d := &Delivered{
		opened:    prometheus.NewCounter(options("streams_opened", "The number of GRPC streams that have been opened for the deliver service.")),
		closed:    prometheus.NewCounter(options("streams_closed", "The number of GRPC streams that have been closed for the deliver service.")),
		received:  prometheus.NewCounterVec(options("requests_received", "The number of deliver requests that have been received."), labels),
		completed: prometheus.NewCounterVec(options("requests_completed", "The number of deliver requests that have been completed."), append(labels, "success")),
		sent:      prometheus.NewCounterVec(options("blocks_sent", "The number of blocks sent by the deliver service."), labels),
	}
	registry.MustRegister(d.opened, d.closed, d.received, d.completed, d.sent)
	return d
}

// Stream counts a stream that has been opened; what it gives is for its end.
func (d *Delivered) Stream() (end func()) {
	if d == nil {
		return func() {}
	}
	d.opened.Inc()
	return d.closed.Inc
}

// Request counts one for a channel that the node has: clients could name any number of others. What it
// gives counts each block that is sent, and the end.
func (d *Delivered) Request(channel, dataType string) (sent func(), end func(success bool)) {
	if d == nil {
		return func() {}, func(bool) {}
	}
	filtered := strconv.FormatBool(dataType == "filtered_block")
	d.received.WithLabelValues(channel, filtered, dataType).Inc()
	return d.sent.WithLabelValues(channel, filtered, dataType).Inc, func(success bool) {
		d.completed.WithLabelValues(channel, filtered, dataType, strconv.FormatBool(success)).Inc()
	}
}
