package fake

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func newDownstream(t *testing.T, c DownstreamConfig) *Downstream {
	t.Helper()
	d, err := NewDownstream(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// check asserts the downstream's truths; none may be serving but those it counts.
func (d *Downstream) check(t *testing.T) {
	t.Helper()
	s := d.Stats()
	open := 0
	for _, e := range d.Ledger().Entries() {
		if e.Started.IsZero() {
			t.Errorf("call %d has an end and no start", e.ID)
		}
		if e.Ended.IsZero() {
			open++
		}
	}
	if over := s.Succeeded + s.Failed + s.Abandoned; s.InFlight != int64(open) || s.Started != over+uint64(open) {
		t.Errorf("%+v, with %d open in the ledger", s, open)
	}
	if r := Audit(d.Ledger(), AuditConfig{Limits: d.config.Limits}); !r.OK() || r.PeakWeight != s.PeakInFlight {
		t.Errorf("%v, peak by its count %d", r, s.PeakInFlight)
	}
}

func TestACallTakesItsServiceTimeOnTheClock(t *testing.T) {
	c := NewClock(time.Time{})
	d := newDownstream(t, DownstreamConfig{Clock: c, Service: List(time.Second, 3*time.Second),
		Stalls: []Stall{{2 * time.Second, 10 * time.Second}}})
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			if err := d.Call(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if err := c.WaitTimers(t.Context(), i+1); err != nil {
			t.Fatal(err)
		}
	}
	c.Advance(time.Minute)
	wg.Wait()
	var ends []time.Duration
	for _, e := range d.Ledger().Entries() {
		ends = append(ends, e.Ended.Sub(Epoch))
	}
	if want := []time.Duration{1e9, 11e9, 1e9}; !slices.Equal(ends, want) {
		t.Errorf("ended at %v, want %v", ends, want)
	}
	if s := d.Stats(); s.Succeeded != 3 || s.PeakInFlight != 3 {
		t.Errorf("%+v", s)
	}
	d.check(t)
}

func TestWithoutAClockServiceRunsOnTheBubblesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDownstream(t, DownstreamConfig{Service: Constant(time.Hour), Stalls: []Stall{{time.Minute, 2 * time.Hour}}})
		begin := time.Now()
		if err := d.Call(t.Context()); err != nil || time.Since(begin) != 2*time.Hour+59*time.Minute {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := d.Call(ctx); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		d.check(t)
	})
}

func TestTheServiceTimesAndFailuresOfASeedAreAlwaysTheSame(t *testing.T) {
	play := func(c DownstreamConfig) (ends []time.Duration, failed []int) {
		clock := NewClock(time.Time{})
		c.Clock = clock
		d := newDownstream(t, c)
		for i := range 200 {
			done := make(chan error)
			begin := clock.Now()
			go func() { done <- d.Call(context.Background()) }()
			if err := clock.WaitTimers(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			clock.AdvanceToNext()
			if err := <-done; err != nil {
				failed = append(failed, i)
			}
			ends = append(ends, clock.Now().Sub(begin))
		}
		d.check(t)
		return ends, failed
	}
	lucky := DownstreamConfig{Service: Exponential(time.Second), Seed: 7}
	unlucky := lucky
	unlucky.FailProbability = 0.3
	a, none := play(lucky)
	b, some := play(unlucky)
	c, again := play(unlucky)
	if !slices.Equal(a, b) || !slices.Equal(b, c) || !slices.Equal(some, again) || none != nil {
		t.Error("the same seed gave something else")
	}
	if len(some) < 30 || len(some) > 90 {
		t.Errorf("%d of 200 failed at probability 0.3", len(some))
	}
	constant := unlucky
	constant.Service = Constant(time.Second)
	if _, same := play(constant); !slices.Equal(some, same) {
		t.Error("other service times made other calls fail")
	}
	unlucky.Seed = 8
	if other, failed := play(unlucky); slices.Equal(a, other) || slices.Equal(some, failed) {
		t.Error("another seed gave the same")
	}
}

func TestEveryKthStartFailsWithTheChosenError(t *testing.T) {
	boom := errors.New("boom")
	d := newDownstream(t, DownstreamConfig{FailEvery: 3, Failure: boom})
	for i := 1; i <= 9; i++ {
		if err := d.Call(t.Context()); (err == boom) != (i%3 == 0) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if s := d.Stats(); s.Failed != 3 || s.Succeeded != 6 {
		t.Errorf("%+v", s)
	}
	if err := newDownstream(t, DownstreamConfig{FailProbability: 1}).Call(t.Context()); err != ErrFailed {
		t.Errorf("got %v, want ErrFailed", err)
	}
	d.check(t)
}

func TestCallsBeyondItsOwnLimitsAreRejectedAndCounted(t *testing.T) {
	c := NewClock(time.Time{})
	d := newDownstream(t, DownstreamConfig{Clock: c, Service: Constant(time.Second),
		Limits: Limits{N: 2, Period: time.Second, Burst: 3, MaxInFlight: 2}})
	var wg sync.WaitGroup
	wg.Go(func() { d.Call(context.Background()) })
	wg.Go(func() { d.Call(context.Background()) })
	if err := c.WaitTimers(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	var rejected *RejectedError
	if err := d.Call(t.Context()); !errors.As(err, &rejected) || *rejected != (RejectedError{"in flight", 2, 0}) {
		t.Errorf("got %v", err)
	}
	if rejected.Error() != "fake: the downstream rejected the call: in flight: 2 already" {
		t.Error(rejected)
	}
	c.Advance(time.Second) // two tokens come, to 3
	wg.Wait()
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() { d.Call(ctx) })
		if err := c.WaitTimers(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		cancel()
		wg.Wait()
	}
	if err := d.Call(t.Context()); !errors.As(err, &rejected) || *rejected != (RejectedError{"rate", 3, 500 * time.Millisecond}) {
		t.Errorf("got %v", err)
	}
	if rejected.Error() != "fake: the downstream rejected the call: rate: burst of 3 used up, retry after 500ms" {
		t.Error(rejected)
	}
	if s := d.Stats(); s.RejectedInFlight != 1 || s.RejectedRate != 1 || s.Started != 5 || s.Abandoned != 3 {
		t.Errorf("%+v", s)
	}
	d.check(t)
}

func TestACallEndsWithItsContext(t *testing.T) {
	c := NewClock(time.Time{})
	d := newDownstream(t, DownstreamConfig{Clock: c, Service: Constant(time.Hour)})
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("gave up")
	done := make(chan error)
	go func() { done <- d.Call(ctx) }()
	if err := c.WaitTimers(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Minute)
	cancel(why)
	if err := <-done; err != why {
		t.Errorf("got %v", err)
	}
	if c.Timers() != 0 {
		t.Errorf("%d timers left", c.Timers())
	}
	if e := d.Ledger().Entries(); len(e) != 1 || e[0].Ended.Sub(e[0].Started) != time.Minute {
		t.Errorf("%+v", e)
	}
	if err := d.Call(ctx); err != why || d.Stats().Started != 1 {
		t.Errorf("a call with a done context: %v, %d started", err, d.Stats().Started)
	}
	if err := d.Call(nil); err == nil {
		t.Error("nil ctx: want an error")
	}
	d.check(t)
}

func TestManyCallersKeepTheDownstreamsBooksStraight(t *testing.T) {
	c := NewClock(time.Time{})
	d := newDownstream(t, DownstreamConfig{Clock: c, Service: Uniform(0, 10*time.Millisecond), FailProbability: 0.1,
		Stalls: []Stall{{5 * time.Millisecond, 20 * time.Millisecond}}, Limits: Limits{N: 1, Period: time.Microsecond, Burst: 50, MaxInFlight: 16}})
	var wg, work sync.WaitGroup
	over := make(chan struct{})
	for range 32 {
		work.Go(func() {
			for range 50 {
				ctx, stop := c.WithTimeout(context.Background(), 7*time.Millisecond)
				d.Call(ctx)
				stop()
			}
		})
	}
	wg.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				c.Advance(100 * time.Microsecond)
			}
		}
	})
	work.Wait()
	close(over)
	wg.Wait()
	if s := d.Stats(); s.InFlight != 0 || c.Timers() != 0 {
		t.Errorf("%+v, %d timers", s, c.Timers())
	}
	d.check(t)
}
