// Package p256 checks ECDSA P-256 signatures of keys that sign again and again. A
// table of the key's multiples, made once, replaces the doublings of every later check:
// u1·G + u2·Q is then a sum of at most 66 table entries. Nothing here is secret,
// so nothing takes constant time.
//
// The field arithmetic is the assembly of filippo.io/nistec (the Go
// project's own, as a module), reached by linkname because that module exports only
// complete, constant-time points, which cost twice as much to add. go.mod and go.sum pin
// its version, and the tests compare every result with crypto/ecdsa.
// Where that assembly is missing (other processors, purego), New makes no table.
package p256
