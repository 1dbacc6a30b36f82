package process

import (
	"os"
	"runtime"
)

// limitProcessors makes this process run Go code on at most n threads at once; 0 leaves it as it is, and so does
// the environment variable GOMAXPROCS, which the user has set. A node hands each message on through several
// goroutines. Where many nodes share few cores, waking another thread for each costs more than it brings.
func limitProcessors(n int) {
	if n > 0 && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(n)
	}
}

// FairProcessors is a node's limit where nodes of them share a host of that many cores: twice its part, since
// not all of them are busy at the same time, and at least one.
func FairProcessors(cores, nodes int) int {
	return max(1, min(cores, (2*cores+nodes-1)/max(1, nodes)))
}
