package load

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/network"
)

// scrapeTimeout bounds what a node that hangs can cost; scrapeBytes what one can send.
const (
	scrapeTimeout = 5 * time.Second
	scrapeBytes   = 16 << 20
)

// page is what a node's operations endpoint shows at one time; nil where it did not answer.
type page map[string]*dto.MetricFamily

// scrape reads the metrics of all nodes at once.
func scrape(ctx context.Context, nodes []network.Node) []page {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	pages := make([]page, len(nodes))
	var group errgroup.Group
	for i, node := range nodes {
		group.Go(func() error {
			// A node that is down has no page.
			pages[i], _ = scrapeOne(ctx, node.Operations)
			return nil
		})
	}
	_ = group.Wait()
	return pages
}

func scrapeOne(ctx context.Context, operations string) (page, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+operations+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", operations, response.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(http.MaxBytesReader(nil, response.Body, scrapeBytes))
}

// series are a family's metrics that carry all these labels.
func (p page) series(family string, labels ...label) []*dto.Metric {
	var found []*dto.Metric
	for _, metric := range p[family].GetMetric() {
		if !slices.ContainsFunc(labels, func(l label) bool { return !l.on(metric) }) {
			found = append(found, metric)
		}
	}
	return found
}

type label struct{ name, value string }

func (l label) on(metric *dto.Metric) bool {
	return slices.ContainsFunc(metric.GetLabel(), func(pair *dto.LabelPair) bool {
		return pair.GetName() == l.name && pair.GetValue() == l.value
	})
}

// counter sums up counters.
func (p page) counter(family string, labels ...label) float64 {
	var sum float64
	for _, metric := range p.series(family, labels...) {
		sum += metric.GetCounter().GetValue()
	}
	return sum
}
