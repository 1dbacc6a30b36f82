package process

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func newAlarm(t *testing.T) *Alarm {
	t.Helper()
	a, err := NewAlarm()
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// left is for how long an alarm is set, by the kernel; zero: it is not.
func left(t *testing.T, a *Alarm) unix.Timespec {
	t.Helper()
	var value unix.Timespec
	require.NoError(t, a.raw.Control(func(fd uintptr) { value = leftOf(t, int(fd)) }))
	return value
}

func leftOf(t *testing.T, fd int) unix.Timespec {
	t.Helper()
	var spec unix.ItimerSpec
	require.NoError(t, unix.TimerfdGettime(fd, &spec))
	assert.Zero(t, spec.Interval, "it rings once")
	return spec.Value
}

func TestAnAlarmRingsOnceNotBeforeItsTime(t *testing.T) {
	a := newAlarm(t)
	for _, after := range []time.Duration{-time.Second, 0, time.Microsecond, 3 * time.Millisecond} {
		set := time.Now()
		a.Set(after)
		<-a.C
		assert.GreaterOrEqual(t, time.Since(set), after)
		assert.Zero(t, left(t, a), "it rings again")
	}
	assert.Empty(t, a.C)
}

func TestAnAlarmRingsForWhatItWasSetForLast(t *testing.T) {
	a := newAlarm(t)
	a.Set(time.Hour)
	a.Set(time.Millisecond)
	<-a.C
}

func TestAnAlarmThatIsStoppedIsNotSet(t *testing.T) {
	a := newAlarm(t)
	a.Set(time.Hour)
	assert.NotZero(t, left(t, a))
	a.Stop()
	assert.Zero(t, left(t, a))
	a.Set(0)
	<-a.C
}

func TestAnAlarmThatIsClosedIsSilent(t *testing.T) {
	a := newAlarm(t)
	a.Set(time.Hour)
	var timer int // the kernel's, which this test still sees when it is closed
	require.NoError(t, a.raw.Control(func(fd uintptr) {
		var err error
		timer, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
	}))
	defer func() { require.NoError(t, unix.Close(timer)) }()
	require.NoError(t, a.Close())
	a.Set(time.Microsecond)
	assert.Positive(t, leftOf(t, timer).Sec, "it was set")
	assert.Empty(t, a.C)
}
