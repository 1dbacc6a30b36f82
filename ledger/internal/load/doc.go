// Package load drives a ledger network as a client does, and says how fast it
// was: Endorse, Submit and CommitStatus of the Gateway service, with proposals,
// transactions and status requests really signed.
//
// Open loop: transaction i is due at start + i/rate, and its latency counts from
// then, so that a ledger that stalls is charged for what it kept waiting.
// Closed loop: each of N clients sends its next transaction when the last one
// is committed or refused. Both are the same workers under different pacers.
//
// The way of one transaction: pacer -> workload -> proposal -> gateway client ->
// recorder -> report.
package load
