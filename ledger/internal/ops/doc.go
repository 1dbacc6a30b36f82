// Package ops is what a node shows its operator: log lines in Fabric's format
// and the operations endpoint.
//
// Logging: take one logger per module at package level and call it like fmt:
//
//	var log = ops.Logger("kvledger")
//	log.Infof("[%s] Committed block [%d] with %d transaction(s)", ch, n, txs)
//
// A line goes to stderr as Fabric 2.5 writes it, without colour (or as JSON
// with FABRIC_LOGGING_FORMAT=json); levels follow FABRIC_LOGGING_SPEC and
// can be changed while the node runs with PUT /logspec. A message is always one
// line: line breaks inside are escaped, so that no client can forge a line.
//
// Operations endpoint: Listen claims the address, Serve answers until its
// context ends. A node registers its metrics with Registry, and calls SetReady
// once it serves.
package ops
