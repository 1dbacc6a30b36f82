package protoutil

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPressureIsKnownByItsText(t *testing.T) {
	assert.True(t, Exhausted(fmt.Errorf("%w: too many transactions wait", ErrExhausted).Error()))
	assert.False(t, Exhausted(fmt.Errorf("the leader refused: %w", ErrExhausted).Error()))
	assert.False(t, Exhausted(errors.New("exhausted").Error()))
	assert.False(t, Exhausted(""))
}
