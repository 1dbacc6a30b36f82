package ops

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func startServer(t *testing.T, pprof bool) *Server {
	t.Helper()
	s, err := Listen(Config{Listen: "127.0.0.1:0", Pprof: pprof})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	return s
}

func call(t *testing.T, s *Server, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+s.Addr()+path, strings.NewReader(body))
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}

func TestHealthFollowsReadiness(t *testing.T) {
	s := startServer(t, false)
	code, body := call(t, s, "GET", "/healthz", "")
	assert.Equal(t, 503, code)
	assert.Contains(t, body, `"status":"Service Unavailable"`)
	assert.Contains(t, body, `"failed_checks":[{"component":"node","reason":"starting"}]`)

	s.SetReady()
	code, body = call(t, s, "GET", "/healthz", "")
	assert.Equal(t, 200, code)
	assert.Contains(t, body, `"status":"OK"`)
	assert.NotContains(t, body, "failed_checks")
}

func TestMetricsShowWhatANodeRegisters(t *testing.T) {
	s := startServer(t, false)
	height := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ledger_blockchain_height", Help: "Height."}, []string{"channel"})
	s.Registry().MustRegister(height)
	height.WithLabelValues("mychannel").Set(12)
	code, body := call(t, s, "GET", "/metrics", "")
	assert.Equal(t, 200, code)
	assert.Contains(t, body, `ledger_blockchain_height{channel="mychannel"} 12`)
	assert.Contains(t, body, "process_cpu_seconds_total")
}

func TestLogspecIsReadAndChanged(t *testing.T) {
	before := Spec()
	t.Cleanup(func() { require.NoError(t, SetSpec(before)) })
	s := startServer(t, false)
	code, _ := call(t, s, "PUT", "/logspec", `{"spec":"gateway=debug:warn"}`)
	assert.Equal(t, 204, code)
	code, body := call(t, s, "GET", "/logspec", "")
	assert.Equal(t, 200, code)
	assert.JSONEq(t, `{"spec":"gateway=debug:warn"}`, body)
	for _, wrong := range []string{`{"spec":"loud"}`, `nonsense`, `{"level":"info"}`, `{"spec":"` + strings.Repeat("a", maxSpecBytes) + `"}`} {
		code, body = call(t, s, "PUT", "/logspec", wrong)
		assert.Equal(t, 400, code)
		assert.Contains(t, body, "error")
	}
	assert.Equal(t, "gateway=debug:warn", Spec())
}

func TestNobodyElsewhereChangesWhatIsLogged(t *testing.T) {
	before := Spec()
	t.Cleanup(func() { require.NoError(t, SetSpec(before)) })
	s := startServer(t, false)
	for from, want := range map[string]int{
		"10.0.0.7:4711": http.StatusForbidden, "[fd00::7]:4711": http.StatusForbidden, "": http.StatusForbidden,
		"127.0.0.1:4711": http.StatusNoContent, "[::1]:4711": http.StatusNoContent, "[::ffff:127.0.0.1]:4711": http.StatusNoContent,
	} {
		r := httptest.NewRequest(http.MethodPut, "/logspec", strings.NewReader(`{"spec":"debug"}`))
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, from)
	}
}

func TestTheVersionIsThatOfTheBuild(t *testing.T) {
	code, body := call(t, startServer(t, false), "GET", "/version", "")
	assert.Equal(t, 200, code)
	build := ThisBuild()
	want, err := json.Marshal(build)
	require.NoError(t, err)
	assert.JSONEq(t, string(want), body)
	assert.Equal(t, "v1.2.3 (commit abc)", Build{Version: "v1.2.3", CommitSHA: "abc"}.String())
	assert.Equal(t, "(devel)", Build{Version: "(devel)"}.String())
}

func TestPprofOnlyWhereAskedFor(t *testing.T) {
	code, _ := call(t, startServer(t, false), "GET", "/debug/pprof/cmdline", "")
	assert.Equal(t, 404, code)
	code, _ = call(t, startServer(t, true), "GET", "/debug/pprof/cmdline", "")
	assert.Equal(t, 200, code)
}

// piped is a listener of connections within the process.
type piped struct {
	net.Listener // for its address
	conns        chan net.Conn
}

func (p *piped) Accept() (net.Conn, error) {
	conn, open := <-p.conns
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p *piped) Close() error {
	close(p.conns)
	return nil
}

// TestAClientThatStopsIsHungUpOn, within a request and between two of them, and not while a long answer is made.
func TestAClientThatStopsIsHungUpOn(t *testing.T) {
	real, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, real.Close()) }()
	for text, within := range map[string]time.Duration{
		"PUT /logspec HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n": readTimeout,
		"GET /version HTTP/1.1\r\nHost: a\r\n\r\n":                      idleTimeout,
		"GET /long HTTP/1.1\r\nHost: a\r\n\r\n":                         time.Hour + idleTimeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("GET /version", getVersion)
			mux.HandleFunc("PUT /logspec", putSpec)
			mux.HandleFunc("GET /long", func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(time.Hour):
				case <-r.Context().Done():
				}
			})
			server, conns := &Server{handler: mux}, make(chan net.Conn, 1)
			server.listener = &piped{real, conns}
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- server.Serve(ctx) }()
			ours, theirs := net.Pipe()
			conns <- theirs
			began := time.Now()
			_, err := ours.Write([]byte(text))
			require.NoError(t, err)
			_, err = io.ReadAll(ours)
			require.NoError(t, err)
			assert.InDelta(t, within, time.Since(began), float64(time.Second), text)
			cancel()
			require.NoError(t, <-served)
		})
	}
}

func TestABusyPortIsSaid(t *testing.T) {
	s := startServer(t, false)
	_, err := Listen(Config{Listen: s.Addr()})
	require.ErrorContains(t, err, s.Addr())
	assert.ErrorContains(t, err, "address already in use")
}
