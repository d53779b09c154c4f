package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// A house is a limiter at which everybody has to wait until it opens.
type house struct {
	pass func(context.Context) error // waits for a turn, takes it, and gives it back
	shut func()                      // lets nobody in from now on
	open func()                      // lets them in; nil: it never opens
}

// A wave is what many goroutines waiting at one house at once cost.
type wave struct {
	took           time.Duration // from the opening, or the cancelling, to the last return
	bytes, objects float64       // allocated by a waiter until all wait
}

// A leaving is how the waiters' contexts end, if at all.
type leaving int

const (
	staying    leaving = iota // contexts that cannot be cancelled; the house opens
	together                  // one context, cancelled
	oneByOne                  // a context each, cancelled in order of creation
	fromBehind                // a context each, cancelled in the reverse order
)

// flood lets n goroutines wait at h, and then lets them in or cancels them. The goroutines and contexts exist
// before anything is measured, and no garbage is collected from then on until all have returned.
func flood(h house, n int, how leaving) wave {
	contexts := make([]context.Context, n)
	cancels := make([]context.CancelFunc, n)
	all, cancelAll := context.WithCancel(context.Background())
	defer cancelAll()
	for i := range contexts {
		switch how {
		case staying:
			contexts[i] = context.Background()
		case together:
			contexts[i] = all
		default:
			contexts[i], cancels[i] = context.WithCancel(context.Background())
			contexts[i].Done() // made now, not while it is measured
		}
	}
	gate := make(chan struct{})
	var waiters sync.WaitGroup
	for _, ctx := range contexts {
		waiters.Go(func() {
			growStack()
			if err := inFrame(gate, ctx, h.pass); (err == nil) != (how == staying) {
				panic("a waiter was let in where it should have left, or the reverse")
			}
		})
	}
	awaitParked(n)
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	close(gate)
	awaitParked(n)
	runtime.ReadMemStats(&after)
	begun := time.Now()
	switch how {
	case staying:
		h.open()
	case together:
		cancelAll()
	case oneByOne:
		for _, cancel := range cancels {
			cancel()
		}
	case fromBehind:
		for i := range cancels {
			cancels[n-1-i]()
		}
	}
	waiters.Wait()
	return wave{
		took:    time.Since(begun),
		bytes:   float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
		objects: float64(after.Mallocs-before.Mallocs) / float64(n),
	}
}

// growStack makes its goroutine's stack 8 KiB large, as that of a goroutine which has done some work before. No limiter needs
// more. In the 2 KiB of a new one, the wave would compare whose frames just fit.
//
//go:noinline
func growStack() {
	var frame [5 << 10]byte
	touch(&frame[0])
}

// inFrame passes the gate and then h, below a frame so large that the collector does not halve the stack at the gate.
//
//go:noinline
func inFrame(gate chan struct{}, ctx context.Context, pass func(context.Context) error) error {
	var frame [2100]byte
	touch(&frame[0])
	<-gate
	err := pass(ctx)
	touch(&frame[0])
	return err
}

//go:noinline
func touch(b *byte) { *b++ }

// awaitParked returns once n goroutines or more are blocked and none is about to run. That all are blocked
// means that they are where they stay, not at a mutex.
func awaitParked(n int) {
	samples := []metrics.Sample{
		{Name: "/sched/goroutines/waiting:goroutines"},
		{Name: "/sched/goroutines/runnable:goroutines"},
		{Name: "/sched/goroutines/running:goroutines"},
	}
	for quiet := 0; quiet < 2; {
		time.Sleep(200 * time.Microsecond)
		metrics.Read(samples)
		if samples[0].Value.Uint64() >= uint64(n) && samples[1].Value.Uint64() == 0 && samples[2].Value.Uint64() <= 1 {
			quiet++
		} else {
			quiet = 0
		}
	}
}
