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

func TestAnAlarmRingsOnceNotBeforeItsTime(t *testing.T) {
	a := newAlarm(t)
	for _, after := range []time.Duration{-time.Second, 0, time.Microsecond, 3 * time.Millisecond} {
		set := time.Now()
		a.Set(after)
		<-a.C
		assert.GreaterOrEqual(t, time.Since(set), after)
	}
	select {
	case <-a.C:
		assert.Fail(t, "it rings again")
	case <-time.After(20 * time.Millisecond):
	}
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
	a.Stop()
	require.NoError(t, a.raw.Control(func(fd uintptr) {
		var left unix.ItimerSpec
		require.NoError(t, unix.TimerfdGettime(int(fd), &left))
		assert.Zero(t, left.Value)
	}))
	a.Set(0)
	<-a.C
}

func TestAnAlarmThatIsClosedIsSilent(t *testing.T) {
	a := newAlarm(t)
	a.Set(time.Hour)
	require.NoError(t, a.Close())
	a.Set(time.Microsecond)
	select {
	case <-a.C:
		assert.Fail(t, "it rings")
	case <-time.After(10 * time.Millisecond):
	}
}
