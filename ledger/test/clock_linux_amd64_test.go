package test

import (
	"bytes"
	"debug/elf"
	endian "encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// clock is how a process's clocks run. Go asks the kernel's page in its process (vDSO) for the time, so what that page answers
// is the time for all that the process does, but for sleeps: those are the kernel's, and true.
type clock struct {
	off  time.Duration // how far its wall clock is ahead; negative: behind
	rate float64       // how much time passes by both of its clocks in a second

	since time.Time // when it was lent
}

// shows is what the wall clock shows at a time.
func (c *clock) shows(at time.Time) time.Time {
	return c.since.Add(time.Duration(float64(at.Sub(c.since))*c.rate) + c.off)
}

// wrongTime is in place of the page's clock_gettime. It asks the kernel, and for CLOCK_REALTIME (0) and CLOCK_MONOTONIC (1) gives
// (t - since) * rate >> 32 + shown. Constants follow: rate, and since and shown of each clock.
var wrongTime = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228 (clock_gettime)
	0x0f, 0x05, // syscall
	0x83, 0xff, 0x01, // cmp edi, 1
	0x77, 0x41, // ja done
	0x48, 0x69, 0x06, 0x00, 0xca, 0x9a, 0x3b, // imul rax, [rsi], 1000000000
	0x48, 0x03, 0x46, 0x08, // add rax, [rsi+8]
	0x48, 0x8d, 0x0d, 0x3a, 0x00, 0x00, 0x00, // lea rcx, [rip+clocks]
	0xc1, 0xe7, 0x04, // shl edi, 4
	0x48, 0x01, 0xf9, // add rcx, rdi
	0x48, 0x2b, 0x01, // sub rax, [rcx]
	0x48, 0x8b, 0x15, 0x22, 0x00, 0x00, 0x00, // mov rdx, [rip+rate]
	0x48, 0xf7, 0xea, // imul rdx
	0x48, 0x0f, 0xac, 0xd0, 0x20, // shrd rax, rdx, 32
	0x48, 0x03, 0x41, 0x08, // add rax, [rcx+8]
	0x31, 0xd2, // xor edx, edx
	0xb9, 0x00, 0xca, 0x9a, 0x3b, // mov ecx, 1000000000
	0x48, 0xf7, 0xf1, // div rcx
	0x48, 0x89, 0x06, // mov [rsi], rax
	0x48, 0x89, 0x56, 0x08, // mov [rsi+8], rdx
	0x31, 0xc0, // xor eax, eax
	0xc3,       // done: ret
	0x66, 0x90, // (so that constants are aligned)
}

// lend starts a program whose clocks run so from its first instruction on. The page of a program that is executed is a new one,
// so the program has two threads for Go: with one it would start itself anew (package process).
func (c *clock) lend(cmd *exec.Cmd) error {
	runtime.LockOSThread() // it traces; a process that is to end with its parent ends with this thread, which Go keeps
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr.Ptrace = true
	cmd.Env = append(cmd.Environ(), "GOMAXPROCS=2")
	if err := cmd.Start(); err != nil {
		return err
	}
	err := c.patch(cmd.Process.Pid)
	if err == nil {
		err = unix.PtraceDetach(cmd.Process.Pid)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		return fmt.Errorf("a clock for %s: %w", filepath.Base(cmd.Path), err)
	}
	return nil
}

// patch changes a process that has just been executed, and stands.
func (c *clock) patch(pid int) error {
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	if !status.Stopped() {
		return fmt.Errorf("it does not stand: %x", status)
	}
	page, at, err := vdso(pid)
	if err != nil {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(page))
	if err != nil {
		return err
	}
	dynamic := file.Section(".dynsym")
	if dynamic == nil {
		return fmt.Errorf("the page has no symbols")
	}
	names, err := file.DynamicSymbols()
	if err != nil {
		return err
	}
	// Nobody reads the table of sections once a program runs: there is room for the answer.
	room := endian.LittleEndian.Uint64(page[0x28:])
	code := c.code()
	if int(room)+len(code) > len(page) {
		return fmt.Errorf("the page has no room for %d bytes", len(code))
	}
	for i, name := range names {
		if name.Name != "__vdso_clock_gettime" {
			continue
		}
		const value = 8 // where a symbol has its address
		entry := dynamic.Addr + uint64(i+1)*elf.Sym64Size + value
		if _, err := unix.PtracePokeData(pid, uintptr(at+room), code); err != nil {
			return err
		}
		_, err := unix.PtracePokeData(pid, uintptr(at+entry), endian.LittleEndian.AppendUint64(nil, room))
		return err
	}
	return fmt.Errorf("the page has no clock_gettime")
}

// code is the answer with its constants. A second is as long as ever until now.
func (c *clock) code() []byte {
	var wall, monotonic unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME, &wall) // it is there
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic)
	c.since = time.Unix(wall.Unix())
	code := bytes.Clone(wrongTime)
	for _, constant := range []int64{int64(c.rate * (1 << 32)), wall.Nano(), wall.Nano() + int64(c.off), monotonic.Nano(), monotonic.Nano()} {
		code = endian.LittleEndian.AppendUint64(code, uint64(constant))
	}
	return code
}

// vdso is the page that the kernel has given a process, and where.
func vdso(pid int) (page []byte, at uint64, err error) {
	auxiliary, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return nil, 0, err
	}
	const place = 33 // AT_SYSINFO_EHDR
	for ; len(auxiliary) >= 16; auxiliary = auxiliary[16:] {
		if endian.LittleEndian.Uint64(auxiliary) == place {
			at = endian.LittleEndian.Uint64(auxiliary[8:])
		}
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, 0, err
	}
	for line := range bytes.Lines(maps) {
		var from, to uint64
		if _, err := fmt.Sscanf(string(line), "%x-%x", &from, &to); err != nil || from != at {
			continue
		}
		page = make([]byte, to-from)
		_, err := unix.PtracePeekData(pid, uintptr(at), page)
		return page, at, err
	}
	return nil, 0, fmt.Errorf("it has no page of the kernel's")
}
