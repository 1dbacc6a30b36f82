package bftbench

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAConfinedProcessRunsWhereItMayAndThenWhereItRanBefore(t *testing.T) {
	before, err := allowed()
	require.NoError(t, err)
	require.NotEmpty(t, before)
	restore, err := confine(before[len(before)-1:])
	require.NoError(t, err)
	now, err := allowed()
	require.NoError(t, err)
	assert.Equal(t, before[len(before)-1:], now)
	require.NoError(t, restore())
	after, err := allowed()
	require.NoError(t, err)
	assert.Equal(t, before, after)
}
