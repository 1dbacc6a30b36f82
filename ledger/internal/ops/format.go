package ops

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// encodeText writes Fabric 2.5's line without colour:
//
//	2026-11-21 03:27:56.052 UTC 002b INFO [module] func -> message
func encodeText(dst []byte, r record) []byte {
	dst = r.time.AppendFormat(dst, "2006-01-02 15:04:05.000 MST ")
	id := strconv.FormatUint(r.id, 16)
	for range 4 - len(id) {
		dst = append(dst, '0')
	}
	dst = append(dst, id...)
	dst = append(dst, ' ')
	dst = append(dst, strings.ToUpper(r.level.String()[:4])...)
	dst = append(dst, " ["...)
	dst = append(dst, r.module...)
	dst = append(dst, "] "...)
	dst = append(dst, shortFunc(r.frame.Function)...)
	dst = append(dst, " -> "...)
	dst = appendOneLine(dst, r.message)
	return append(dst, '\n')
}

// appendOneLine escapes control characters, tabs excepted: messages quote what
// clients sent, and readers of the log trust that a line is a record.
func appendOneLine(dst []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c < ' ' && c != '\t' || c == 0x7f:
			dst = append(dst, `\x`...)
			dst = append(dst, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// shortFunc cuts "a/b/pkg.(*T).method.func1" down to "method": a reader looks
// for the named function, not for the number of a closure in it.
func shortFunc(full string) string {
	full = full[strings.LastIndexByte(full, '/')+1:]
	parts := strings.Split(full, ".")
	for i := len(parts) - 1; i > 0; i-- {
		p := parts[i]
		if closure := strings.TrimPrefix(p, "func"); closure != p && isDigits(closure) || isDigits(p) || p == "init" && i > 1 {
			continue
		}
		return p
	}
	return parts[len(parts)-1]
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// encodeJSON writes the fields that Fabric's JSON format has, in its order.
func encodeJSON(dst []byte, r record) []byte {
	line := struct {
		Level  string      `json:"level"`
		TS     json.Number `json:"ts"`
		Name   string      `json:"name"`
		Caller string      `json:"caller"`
		Msg    string      `json:"msg"`
	}{r.level.String(), unixSeconds(r.time), r.module, callerOf(r), r.message}
	// Strings and a number we formatted ourselves always marshal.
	out, _ := json.Marshal(line)
	return append(append(dst, out...), '\n')
}

// unixSeconds has microseconds: a float64 of today's seconds carries no more.
func unixSeconds(t time.Time) json.Number {
	us := t.UnixMicro()
	frac := strconv.FormatInt(1_000_000+us%1_000_000, 10)
	return json.Number(strconv.FormatInt(us/1_000_000, 10) + "." + frac[1:])
}

func callerOf(r record) string {
	dir, file := filepath.Split(r.frame.File)
	return filepath.Join(filepath.Base(dir), file) + ":" + strconv.Itoa(r.frame.Line)
}
