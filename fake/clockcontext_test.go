package fake

import (
	"context"
	"errors"
	"testing"
	"time"
)

// testKey is a context key of these tests alone.
type testKey struct{}

func TestADeadlineEndsTheContextInsideTheAdvanceThatReachesIt(t *testing.T) {
	c := NewClock(time.Time{})
	ctx, stop := c.WithTimeout(context.WithValue(context.Background(), testKey{}, "v"), time.Second)
	defer stop()
	child, stopChild := context.WithCancel(ctx)
	defer stopChild()
	if at, ok := child.Deadline(); !ok || !at.Equal(Epoch.Add(time.Second)) {
		t.Errorf("child's deadline %v %v", at, ok)
	}
	c.Advance(time.Second - 1)
	if ctx.Err() != nil || child.Err() != nil || context.Cause(ctx) != nil {
		t.Fatal("ended early")
	}
	c.Advance(1)
	for name, x := range map[string]context.Context{"context": ctx, "child": child} {
		select {
		case <-x.Done():
		default:
			t.Errorf("%s: Done is open after the deadline", name)
		}
		if x.Err() != context.DeadlineExceeded || context.Cause(x) != context.DeadlineExceeded {
			t.Errorf("%s: Err %v, cause %v", name, x.Err(), context.Cause(x))
		}
		if x.Value(testKey{}) != "v" {
			t.Errorf("%s: lost the parent's values", name)
		}
	}
	late, stopLate := context.WithCancel(ctx) // made after the end
	defer stopLate()
	if late.Err() != context.DeadlineExceeded {
		t.Errorf("a child made afterwards: %v", late.Err())
	}
	if c.Timers() != 0 {
		t.Errorf("%d timers left", c.Timers())
	}
}

func TestStopEndsTheContextAndFreesEverything(t *testing.T) {
	c := NewClock(time.Time{})
	parent, cancelParent := context.WithCancelCause(context.Background())
	ctx, stop := c.WithTimeout(parent, time.Second)
	child, stopChild := context.WithCancel(ctx)
	defer stopChild()
	stop()
	stop()
	if ctx.Err() != context.Canceled || child.Err() != context.Canceled || c.Timers() != 0 {
		t.Errorf("Err %v, child %v, %d timers", ctx.Err(), child.Err(), c.Timers())
	}
	if d := ctx.(*deadlineCtx); d.hooks != nil || d.disarm != nil {
		t.Error("hooks or timer kept after the end")
	}
	cancelParent(errors.New("afterwards"))
	if context.Cause(ctx) != context.Canceled {
		t.Errorf("a later end of the parent changed the cause to %v", context.Cause(ctx))
	}
	c.Advance(time.Hour)
	if ctx.Err() != context.Canceled {
		t.Errorf("a later deadline changed Err to %v", ctx.Err())
	}
}

func TestAChildThatEndsFirstLeavesNothingBehind(t *testing.T) {
	c := NewClock(time.Time{})
	ctx, stop := c.WithTimeout(context.Background(), time.Second)
	defer stop()
	_, stopChild := context.WithCancel(ctx)
	stopChild()
	if n := len(ctx.(*deadlineCtx).hooks); n != 0 {
		t.Errorf("%d hooks left", n)
	}
}

func TestTheEndOfTheParentReachesContextTimerAndChildren(t *testing.T) {
	c := NewClock(time.Time{})
	why := errors.New("parent gave up")
	parent, cancel := context.WithCancelCause(context.Background())
	ctx, stop := c.WithTimeout(parent, time.Second)
	defer stop()
	child, stopChild := context.WithCancel(ctx)
	defer stopChild()
	cancel(why)
	if ctx.Err() != context.Canceled || context.Cause(ctx) != why {
		t.Errorf("Err %v, cause %v", ctx.Err(), context.Cause(ctx))
	}
	<-child.Done()
	if child.Err() != context.Canceled || context.Cause(child) != why {
		t.Errorf("child: Err %v, cause %v", child.Err(), context.Cause(child))
	}
	if err := Until(t.Context(), func() bool { return c.Timers() == 0 }); err != nil {
		t.Error(err)
	}
}

func TestAnInstantReachedAlreadyGivesAnEndedContext(t *testing.T) {
	c := NewClock(time.Time{})
	for _, d := range []time.Duration{0, -time.Second} {
		ctx, stop := c.WithTimeout(context.Background(), d)
		if ctx.Err() != context.DeadlineExceeded || c.Timers() != 0 {
			t.Errorf("%v: Err %v, %d timers", d, ctx.Err(), c.Timers())
		}
		stop()
	}
}

func TestTheEarlierDeadlineOfAParentOnTheSameClockHolds(t *testing.T) {
	c := NewClock(time.Time{})
	outer, stop := c.WithTimeout(context.Background(), time.Second)
	defer stop()
	middle, stopMiddle := context.WithCancel(outer)
	defer stopMiddle()
	inner, stopInner := c.WithTimeout(middle, time.Minute)
	defer stopInner()
	if at, _ := inner.Deadline(); !at.Equal(Epoch.Add(time.Second)) || c.Timers() != 1 {
		t.Errorf("deadline %v, %d timers, want the parent's and 1", at, c.Timers())
	}
	sooner, stopSooner := c.WithTimeout(middle, time.Millisecond)
	defer stopSooner()
	other := NewClock(Epoch.Add(time.Hour))
	foreign, stopForeign := other.WithTimeout(middle, time.Hour)
	defer stopForeign()
	c.Advance(time.Millisecond)
	if sooner.Err() == nil || inner.Err() != nil {
		t.Error("the sooner one alone should have ended")
	}
	if at, _ := foreign.Deadline(); !at.Equal(Epoch.Add(2 * time.Hour)) {
		t.Errorf("on another clock: deadline %v, want its own", at)
	}
	c.Advance(time.Second)
	if inner.Err() != context.DeadlineExceeded || foreign.Err() != context.DeadlineExceeded {
		t.Errorf("inner %v, foreign %v", inner.Err(), foreign.Err())
	}
}
