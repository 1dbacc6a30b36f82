package simulate

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/bftbench/link"
	"github.com/qioi/qioi/ledger/internal/process"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// measureConnections writes frames of two sizes through loopback. One thread writes and reads, and what it has used for
// each is that side's.
func (c *Costs) measureConnections() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	accepted := make(chan net.Conn, 1)
	go func() {
		raw, err := listener.Accept()
		if err != nil {
			close(accepted)
			return
		}
		accepted <- raw
	}()
	sender, err := link.Dial(listener.Addr().String(), nil, nil)
	if err != nil {
		return err
	}
	defer func() { _ = sender.Close() }()
	raw, is := <-accepted
	if !is {
		return fmt.Errorf("nobody has accepted a connection to %s", listener.Addr())
	}
	receiver := link.New(raw, nil)
	defer func() { _ = receiver.Close() }()
	const small, large, frames = 200, 32 << 10, 8 // about what a replica sends for a batch
	var sendSmall, sendLarge, receiveSmall, receiveLarge time.Duration
	for size, to := range map[int][2]*time.Duration{small: {&sendSmall, &receiveSmall}, large: {&sendLarge, &receiveLarge}} {
		if *to[0], *to[1], err = c.transfer(sender, receiver, size, frames); err != nil {
			return err
		}
	}
	c.SendByte = max(0, float64(sendLarge-sendSmall)/(large-small))
	c.ReceiveByte = max(0, float64(receiveLarge-receiveSmall)/(large-small))
	c.Send, c.Receive = sendSmall, receiveSmall
	return nil
}

// transfer sends frames one by one, and has each read before the next. A frame is garbage of who reads it.
func (c *Costs) transfer(sender, receiver *link.Conn, size, frames int) (send, receive time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	frame := make([]byte, size)
	var sends, receives []time.Duration
	before := allocated()
	for range chunks {
		var sent, received time.Duration
		spoil(ownCache)
		for range frames {
			at := stage.ThreadTime()
			sender.Append(frame)
			if err := sender.Flush(); err != nil {
				return 0, 0, err
			}
			between := stage.ThreadTime()
			if _, err := receiver.Next(); err != nil {
				return 0, 0, err
			}
			sent, received = sent+between-at, received+stage.ThreadTime()-between
		}
		sends, receives = append(sends, sent/time.Duration(frames)), append(receives, received/time.Duration(frames))
	}
	garbage := scale(c.Garbage, int(allocated()-before)/chunks/frames)
	slices.Sort(sends)
	slices.Sort(receives)
	return sends[chunks/2], receives[chunks/2] + garbage, nil
}

// measureThreads has goroutines wake each other, and counts as a stage does.
func (c *Costs) measureThreads() error {
	alarm, err := process.NewAlarm()
	if err != nil {
		return err
	}
	defer func() { _ = alarm.Close() }()
	c.Wake, c.Handoff = wake(func() {}), wake(runtime.LockOSThread)
	// A replica waits about so long for others' messages. A wake-up right after the one before would cost half as much.
	const pause = time.Millisecond
	c.Idle = typicalCPU(10, func() { time.Sleep(pause) })
	c.Await = typicalCPU(10, func() {
		alarm.Set(pause)
		<-alarm.C
	})
	meter := &stage.Meter{}
	c.Meter = c.measure(100, func(n int) {
		for range n {
			waiting := stage.Wait(n)
			span := meter.Begin()
			stage.Take(&span, waiting)
			span.End(1)
		}
	})
	return nil
}

// wake is the CPU time until another goroutine has begun, whose first act is begin.
func wake(begin func()) time.Duration {
	const times = 200
	ping, pong := make(chan struct{}), make(chan struct{})
	go func() {
		begin()
		defer runtime.UnlockOSThread() // a thread that ends with its goroutine would take along what it has started
		for range ping {
			pong <- struct{}{}
		}
	}()
	defer close(ping)
	return typicalCPU(times, func() {
		ping <- struct{}{}
		<-pong
	}) / 2
}

// typicalCPU is the median over chunks of what the whole process uses for each of so many calls of f.
func typicalCPU(times int, f func()) time.Duration {
	found := make([]time.Duration, chunks)
	for i := range found {
		before := stage.ProcessTime()
		for range times {
			f()
		}
		found[i] = (stage.ProcessTime() - before) / time.Duration(times)
	}
	slices.Sort(found)
	return found[chunks/2]
}
