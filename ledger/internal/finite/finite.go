// Package finite has flags for numbers that bounds can be held against: NaN is neither below nor above any.
package finite

import (
	"errors"
	"math"
	"strconv"

	"github.com/spf13/pflag"
)

// Is reports whether a number is neither NaN nor an infinity.
func Is(number float64) bool { return !math.IsNaN(number) && !math.IsInf(number, 0) }

type value float64

// Var defines a flag like pflag's Float64Var, which takes neither NaN nor an infinity.
func Var(f *pflag.FlagSet, p *float64, name string, otherwise float64, usage string) {
	*p = otherwise
	f.Var((*value)(p), name, usage)
}

func (v *value) Set(text string) error {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || !Is(number) {
		return errors.New("a finite number is accepted")
	}
	*v = value(number)
	return nil
}

func (v *value) String() string { return strconv.FormatFloat(float64(*v), 'g', -1, 64) }

// Type is what the help is made from: float.
func (v *value) Type() string { return "float64" }
