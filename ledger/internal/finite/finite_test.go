package finite

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFiniteNumbersAreTaken(t *testing.T) {
	var number float64
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	Var(f, &number, "rate", 0.9, "")
	assert.InDelta(t, 0.9, number, 0)
	for text, want := range map[string]float64{"0": 0, "-1": -1, "1e6": 1e6, "0.1": 0.1} {
		require.NoError(t, f.Parse([]string{"--rate", text}))
		assert.InDelta(t, want, number, 0)
	}
	require.NoError(t, f.Parse([]string{"--rate", "2.5"}))
	for _, text := range []string{"NaN", "nan", "Inf", "+inf", "-Infinity", "1e999", "x", ""} {
		require.EqualError(t, f.Parse([]string{"--rate", text}), `invalid argument "`+text+`" for "--rate" flag: a finite number is accepted`)
	}
	assert.InDelta(t, 2.5, number, 0, "what is refused changes nothing")
}

func TestTheHelpIsThatOfANumber(t *testing.T) {
	var number float64
	for otherwise, want := range map[float64]string{0: "      --rate float   tps\n", 0.9: "      --rate float   tps (default 0.9)\n"} {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		Var(f, &number, "rate", otherwise, "tps")
		assert.Equal(t, want, f.FlagUsages())
	}
}
