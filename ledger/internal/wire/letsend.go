package wire

import "runtime"

// LetSend lets the goroutines run that write messages to connections, and those that wait to be told something. They take
// microseconds, whereas a sync that comes next may keep this process's only thread until it returns, and other goroutines
// that are woken next would go before them. Thrice, because gRPC's own writer and the connection (Pacer) each step back
// once for more to come.
func LetSend() {
	for range 3 {
		runtime.Gosched()
	}
}
