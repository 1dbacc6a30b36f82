// Package blockfile keeps a channel's chain of blocks in append-only files; peers
// and orderers use it alike.
//
// A ledger is a directory of segments, each a header and a run of frames. A
// block may be written piece by piece, one frame a transaction, and closed by a
// seal with its header and metadata: the payloads of its frames in order ARE the
// serialised common.Block, because protobuf merges the occurrences of an
// embedded message. A block never spans two segments.
//
// Every frame carries a CRC-32C that is keyed with the segment's random number and
// the frame's own offset, so nothing that a client puts into a transaction can
// look like a frame. At open every frame is checked, but those of finished segments that
// have an index (segmentindex.go), which are checked when they are read. What follows the last
// good frame is a torn tail, left by a crash in the middle of a write, and is cut
// off, unless a good frame follows it: then something in the middle was damaged,
// the ledger is refused with a *CorruptError and left as it is. A power cut may leave a
// bad frame with good ones behind it where they were not synced, so an orderer that can get
// them again has them cut off, too (Options.Kept). A copy of them stays. What was found is synced before Open returns.
//
// One goroutine writes; any number may read. After a failed write or fsync the
// store refuses every later write: what reached the disk is unknown, and going on
// would report transactions as durable that may not be.
package blockfile
