// Package problems gathers all that is wrong with a configuration, so that it is told at once.
package problems

import (
	"errors"
	"fmt"
)

// List is the problems found so far.
type List []error

// If adds a problem where something is wrong.
func (l *List) If(wrong bool, format string, args ...any) {
	if wrong {
		*l = append(*l, fmt.Errorf(format, args...))
	}
}

// Err is all problems as one error, a line each; nil when there are none.
func (l List) Err() error { return errors.Join(l...) }
