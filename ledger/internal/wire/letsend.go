package wire

import "runtime"

// LetSend lets the goroutines run that write messages to connections, and those that wait to be told something. They take
// microseconds, whereas a sync that comes next may keep this process's only thread until it returns, and other goroutines
// that are woken next would go before them. Twice, because gRPC's own writer steps back once for more to come.
func LetSend() {
	runtime.Gosched()
	runtime.Gosched()
}
