package serving

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestOneOrganisationKeepsNoOtherOut: it has half of the streams at most, and has them again when they end.
func TestOneOrganisationKeepsNoOtherOut(t *testing.T) {
	var r Readers
	enter := func(organisation string) (func(), error) { return r.Enter("/s", organisation) }
	var leave func()
	for range MostReaders / 2 {
		var err error
		leave, err = enter("Org1MSP")
		require.NoError(t, err)
	}
	_, err := enter("Org1MSP")
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "too many requests for /s, exceeding concurrency limit (1250)")
	leave()
	for _, organisation := range []string{"Org1MSP", "Org2MSP", "Org3MSP"} {
		_, err = enter(organisation)
		require.NoError(t, err)
	}
	for range MostReaders/2 - 2 {
		_, err = enter("")
		require.NoError(t, err)
	}
	for _, organisation := range []string{"Org2MSP", ""} {
		_, err = enter(organisation)
		assert.ErrorContains(t, err, "too many requests for /s, exceeding concurrency limit (2500)")
	}
}
