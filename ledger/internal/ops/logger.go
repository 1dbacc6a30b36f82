package ops

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// backend is where all loggers of a process write: one sequence, one sink.
type backend struct {
	mu      sync.Mutex
	sink    io.Writer
	encode  func(dst []byte, r record) []byte
	buf     []byte
	seq     uint64
	now     func() time.Time
	spec    spec
	loggers map[string]*ModuleLogger
}

// record is one log line before it is written.
type record struct {
	id      uint64
	time    time.Time
	level   Level
	module  string
	frame   runtime.Frame
	message string
}

func newBackend(sink io.Writer, format, specText string) (*backend, error) {
	b := &backend{sink: sink, encode: encodeText, now: time.Now, loggers: map[string]*ModuleLogger{}}
	if format == "json" {
		b.encode = encodeJSON
	}
	parsed, err := parseSpec(specText)
	if err != nil {
		parsed, _ = parseSpec("info")
	}
	b.spec = parsed
	return b, err
}

// The process's backend. A wrong FABRIC_LOGGING_SPEC must not keep a node from
// logging: it falls back to info and says so as the first line.
var process = func() *backend {
	b, err := newBackend(os.Stderr, os.Getenv("FABRIC_LOGGING_FORMAT"), os.Getenv("FABRIC_LOGGING_SPEC"))
	if err != nil {
		b.logger("flogging").Warnf("FABRIC_LOGGING_SPEC is ignored: %s", err)
	}
	return b
}()

// Logger returns the logger of a module, for example "kvledger" or
// "orderer.consensus.etcdraft". The same name gives the same logger.
func Logger(module string) *ModuleLogger { return process.logger(module) }

// SetSpec changes the levels of all loggers of the process.
func SetSpec(text string) error { return process.setSpec(text) }

// Spec returns the log specification in force.
func Spec() string { return process.specText() }

func (b *backend) logger(module string) *ModuleLogger {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, ok := b.loggers[module]
	if !ok {
		l = &ModuleLogger{backend: b, module: module}
		l.level.Store(int32(b.spec.level(module)))
		b.loggers[module] = l
	}
	return l
}

func (b *backend) setSpec(text string) error {
	parsed, err := parseSpec(text)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spec = parsed
	for name, l := range b.loggers {
		l.level.Store(int32(parsed.level(name)))
	}
	return nil
}

func (b *backend) specText() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spec.String()
}

func (b *backend) write(r record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	r.id, r.time = b.seq, b.now().UTC()
	b.buf = b.encode(b.buf[:0], r)
	// A failure of stderr cannot be reported anywhere.
	_, _ = b.sink.Write(b.buf)
}

// ModuleLogger writes the lines of one module. It is safe for concurrent use.
type ModuleLogger struct {
	backend *backend
	module  string
	level   atomic.Int32
}

// Enabled reports whether a line of this level would be written; ask before
// work that only serves a debug line.
func (l *ModuleLogger) Enabled(level Level) bool { return level >= Level(l.level.Load()) }

// Debugf writes a line for developers.
func (l *ModuleLogger) Debugf(format string, args ...any) { l.Log(1, Debug, format, args...) }

// Infof writes a line about normal operation.
func (l *ModuleLogger) Infof(format string, args ...any) { l.Log(1, Info, format, args...) }

// Warnf writes a line about a problem in spite of which the node goes on.
func (l *ModuleLogger) Warnf(format string, args ...any) { l.Log(1, Warn, format, args...) }

// Errorf writes a line about something that failed.
func (l *ModuleLogger) Errorf(format string, args ...any) { l.Log(1, Error, format, args...) }

// Log is what adapters to other logging interfaces call: skip is the number of
// their own frames between Log and the code that the line should name.
func (l *ModuleLogger) Log(skip int, level Level, format string, args ...any) {
	if !l.Enabled(level) {
		return
	}
	var pcs [1]uintptr
	runtime.Callers(skip+2, pcs[:])
	frame, _ := runtime.CallersFrames(pcs[:]).Next()
	message := fmt.Sprintf(format, args...)
	l.backend.write(record{level: level, module: l.module, frame: frame, message: strings.TrimRight(message, "\n")})
}
