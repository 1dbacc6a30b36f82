package load

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/network"
)

func TestAClientTakesItsPartOfAHostThatItSharesWithAllNodes(t *testing.T) {
	node := func(role, address string) network.Node { return network.Node{Role: role, Address: address} }
	here := []network.Node{
		node("orderer", "127.0.0.1:1"), node("peer", "127.0.0.1:2"), node("peer", "[::1]:3"), node("peer", "127.0.0.1:5"), node("chaincode", "127.0.0.1:4"),
	}
	for name, c := range map[string]struct {
		nodes []network.Node
		want  int
	}{
		"all here":      {here, 4},
		"one elsewhere": {append(here[:4:4], node("peer", "10.0.0.1:2")), 0},
		"by name":       {append(here[:4:4], node("peer", "peer0:2")), 0},
	} {
		described := &description{File: network.File{Nodes: c.nodes}}
		assert.Equal(t, c.want, described.processors(8), name)
	}
}
