package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config is the operations section of a node's configuration.
type Config struct {
	// Listen is the host:port of the endpoint.
	Listen string
	// Pprof is whether it serves /debug/pprof.
	Pprof bool
}

// Server is a node's operations endpoint.
type Server struct {
	listener net.Listener
	registry *prometheus.Registry
	handler  http.Handler
	ready    atomic.Bool
}

// Limits of the endpoint: it faces an operator's tools, whose requests are small.
const (
	maxSpecBytes    = 4 << 10
	shutdownTimeout = time.Second
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second // of a whole request; an answer, such as a profile, takes as long as it takes
	idleTimeout     = 5 * time.Minute  // between two requests: longer than scrapes are apart
)

// Listen claims the address, so that a busy port is known before a node starts
// its real work.
func Listen(cfg Config) (*Server, error) {
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("operations endpoint: %w (a free host:port is accepted)", err)
	}
	s := &Server{listener: listener, registry: prometheus.NewRegistry()}
	s.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{Registry: s.registry}))
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /version", getVersion)
	mux.HandleFunc("GET /logspec", getSpec)
	mux.HandleFunc("PUT /logspec", ofThisHost(putSpec))
	if cfg.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	s.handler = mux
	return s, nil
}

// Addr is the address in use; it tells the port when :0 was asked for.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Registry is where the node registers its metrics.
func (s *Server) Registry() *prometheus.Registry { return s.registry }

// SetReady says that the node serves: /healthz answers 503 before. There is no way back: a node that cannot go on ends.
func (s *Server) SetReady() { s.ready.Store(true) }

// Serve answers until ctx ends; then it returns nil.
func (s *Server) Serve(ctx context.Context) error {
	srv := &http.Server{Handler: s.handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout}
	stop := context.AfterFunc(ctx, func() {
		// The node is stopping: long profiles do not hold it up.
		short, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if srv.Shutdown(short) != nil {
			_ = srv.Close()
		}
	})
	defer stop()
	if err := srv.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("operations endpoint %s: %w", s.Addr(), err)
	}
	return nil
}

type failedCheck struct {
	Component string `json:"component"`
	Reason    string `json:"reason"`
}

// health is Fabric's answer at /healthz.
type health struct {
	Status       string        `json:"status"`
	Time         time.Time     `json:"time"`
	FailedChecks []failedCheck `json:"failed_checks,omitempty"`
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	answer, code := health{Status: "OK", Time: time.Now().UTC()}, http.StatusOK
	if !s.ready.Load() {
		answer.FailedChecks = []failedCheck{{Component: "node", Reason: "starting"}}
		code, answer.Status = http.StatusServiceUnavailable, "Service Unavailable"
	}
	writeJSON(w, code, answer)
}

// specBody is Fabric's form of a request and an answer at /logspec.
type specBody struct {
	Spec string `json:"spec"`
}

func getSpec(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, specBody{Spec: Spec()})
}

// ofThisHost answers who is on the same host, or in the same pod, alone: the endpoint has neither TLS nor passwords, and every
// line at DEBUG costs the node.
func ofThisHost(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !from.Addr().Unmap().IsLoopback() {
			writeJSON(w, http.StatusForbidden, map[string]string{"error": "accepted from this host's own addresses alone (127.0.0.1, ::1)"})
			return
		}
		answer(w, r)
	}
}

func putSpec(w http.ResponseWriter, r *http.Request) {
	var body specBody
	decoder := json.NewDecoder(io.LimitReader(r.Body, maxSpecBytes))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&body)
	if err == nil {
		err = SetSpec(body.Spec)
	}
	if err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// The client may be gone; the error has no other receiver.
	_ = json.NewEncoder(w).Encode(body)
}
