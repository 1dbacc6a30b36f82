// Package sequencertest has connections that end in the middle of what is being said.
package sequencertest

import "net"

// Whole is the bound of a direction that is not cut.
const Whole = 1 << 40

// Cut is a connection that closes after so many bytes in one direction: the rest of a frame never comes. One goroutine
// reads and one writes, as gRPC's do.
type Cut struct {
	net.Conn
	Reads, Writes int
}

// Read implements net.Conn.
func (c *Cut) Read(p []byte) (int, error) {
	if c.Reads == 0 {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(p[:min(c.Reads, len(p))])
	c.Reads -= n
	return n, err
}

// Write implements net.Conn.
func (c *Cut) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p[:min(c.Writes, len(p))])
	c.Writes -= n
	if err == nil && n < len(p) {
		_ = c.Close()
		err = net.ErrClosed
	}
	return n, err
}
