package scm

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIsWrittenIsReadTheShortWay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	numbers := []int64{0, 1, -1, math.MaxInt64, math.MinInt64}
	for range 100 {
		numbers = append(numbers, r.Int64()>>r.IntN(64))
	}
	for range 1000 {
		want := Inventory{Stock: numbers[r.IntN(len(numbers))], Demand: numbers[r.IntN(len(numbers))], Ordered: numbers[r.IntN(len(numbers))]}
		stored, err := json.Marshal(want)
		require.NoError(t, err)
		var got Inventory
		assert.True(t, got.readOwn(stored), "%s", stored)
		assert.Equal(t, want, got)
	}
}

// FuzzInventory: whatever the value, both ways of reading agree.
func FuzzInventory(f *testing.F) {
	for _, text := range []string{
		`{"stock":1,"demand":2,"ordered":3}`, `{"stock":01,"demand":2,"ordered":3}`, `{"stock":-0,"demand":2,"ordered":3}`,
		`{"stock":,"demand":2,"ordered":3}`, `{"stock":-,"demand":2,"ordered":3}`, `{"stock":1-2,"demand":2,"ordered":3}`,
		`{"stock":1,"demand":2,"ordered":3} `, `{"stock":1,"demand":2,"ordered":3}}`, `{"stock":1,"demand":2,"ordered":3`,
		`{"demand":2}`, `{"stock":9223372036854775808,"demand":2,"ordered":3}`, ``, `null`, `{"stock":1,"demand":-02,"ordered":3}`,
		`{"stock":1e1,"demand":2,"ordered":3}`, `{"stock":+1,"demand":2,"ordered":3}`, `{"stock":1_0,"demand":2,"ordered":3}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		want, got := &Inventory{Stock: Stock}, &Inventory{Stock: Stock}
		wrong := json.Unmarshal(value, want)
		err := got.read(value)
		require.Equal(t, wrong == nil, err == nil)
		if err == nil {
			assert.Equal(t, want, got)
		}
	})
}
