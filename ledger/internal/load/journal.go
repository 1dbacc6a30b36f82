package load

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
)

// journal writes the ids of the transactions that were reported as committed
// and valid, one line each: `TXID BLOCK`. Crash tests compare the ledger with it.
type journal struct {
	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
}

// open begins the file anew. One without a name, or not open, keeps nothing.
func (j *journal) open(name string) error {
	if name == "" {
		return nil
	}
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("record of committed transactions: %w", err)
	}
	j.file, j.out = file, bufio.NewWriter(file)
	return nil
}

func (j *journal) committed(o outcome) {
	if j.file == nil || o.txID == "" {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	// A bufio.Writer keeps its first error for Flush.
	_, _ = j.out.WriteString(o.txID + " " + strconv.FormatUint(o.block, 10) + "\n")
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	if err := errors.Join(j.out.Flush(), j.file.Close()); err != nil {
		return fmt.Errorf("record of committed transactions: %w", err)
	}
	return nil
}
