package ops

import (
	"fmt"
	"sort"
	"strings"
)

// Level orders the importance of a log line.
type Level int32

// The levels, in Fabric's words and order.
const (
	Debug Level = iota - 1
	Info
	Warn
	Error
	Panic
	Fatal
)

// The names are those of a log specification and of the JSON field "level";
// their first four letters in capitals stand in a text line.
var levelNames = map[Level]string{
	Debug: "debug", Info: "info", Warn: "warn", Error: "error", Panic: "panic", Fatal: "fatal",
}

func (l Level) String() string { return levelNames[l] }

func parseLevel(s string) (Level, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	if s == "warning" {
		s = "warn"
	}
	for l, name := range levelNames {
		if s == name {
			return l, nil
		}
	}
	return Info, fmt.Errorf("unknown log level %q: debug, info, warn, error, panic and fatal are accepted", s)
}

// spec is a parsed log specification: a default level and the levels of modules
// and all that is below them ("a.b" covers "a.b.c").
type spec struct {
	fallback Level
	modules  map[string]Level
}

// parseSpec reads Fabric's form: `[module[,module...]=]level[:...]`.
func parseSpec(text string) (spec, error) {
	out := spec{fallback: Info, modules: map[string]Level{}}
	if strings.TrimSpace(text) == "" {
		return out, nil
	}
	for _, part := range strings.Split(text, ":") {
		names, level, named := strings.Cut(part, "=")
		if !named {
			names, level = "", part
		}
		parsed, err := parseLevel(level)
		if err != nil {
			return spec{}, fmt.Errorf("log specification %q: %w", text, err)
		}
		if !named {
			out.fallback = parsed
			continue
		}
		for _, name := range strings.Split(names, ",") {
			name = strings.TrimSuffix(strings.TrimSpace(name), ".")
			if name == "" {
				return spec{}, fmt.Errorf("log specification %q: a module name before = is missing", text)
			}
			out.modules[name] = parsed
		}
	}
	return out, nil
}

func (s spec) level(module string) Level {
	for name := module; name != ""; {
		if l, ok := s.modules[name]; ok {
			return l
		}
		cut := strings.LastIndexByte(name, '.')
		if cut < 0 {
			break
		}
		name = name[:cut]
	}
	return s.fallback
}

// String gives the specification in a canonical order.
func (s spec) String() string {
	parts := make([]string, 0, len(s.modules)+1)
	for name, level := range s.modules {
		parts = append(parts, name+"="+level.String())
	}
	sort.Strings(parts)
	return strings.Join(append(parts, s.fallback.String()), ":")
}
