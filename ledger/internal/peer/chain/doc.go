// Package chain is a peer's copy of one channel: the block files, the state and the
// index of transaction ids that follow from them, and the pipeline that extends
// them with what the orderers send.
//
//	follow ─▶ stage 1: signatures, policy   any number of workers, results in order
//	          stage 2: id, reads, state     one goroutine, serial
//	          stage 3: files, fsync, notify one goroutine, as much as waits at once
//
// The files are the truth: at start the state is rebuilt from them. A transaction
// is reported as committed only after its fsync. Stage 2 runs ahead of the disk, so
// simulations may see what is not durable here yet; that is sound, because it
// is ordered, durably, at the orderers: after a crash it comes again, the same.
package chain
