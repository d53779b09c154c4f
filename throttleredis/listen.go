package throttleredis

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A listener hears the grants that other processes' calls bring about. It is there while callers of this process are in line, and a
// second longer. What it misses, the polls find.
type listener struct {
	l      *Limiter
	up     atomic.Bool // subscribed
	cancel context.CancelFunc
	ended  chan struct{}
	idle   *time.Timer // the limiter's lock guards it
}

// ready reports whether pushes are heard now. The listener may be nil.
func (s *listener) ready() bool { return s != nil && s.up.Load() }

// listen has the limiter listen. The caller holds its lock.
func (l *Limiter) listen() {
	if l.closed {
		return
	}
	if s := l.listener; s != nil {
		if s.idle != nil {
			s.idle.Stop()
			s.idle = nil
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.listener = &listener{l: l, cancel: cancel, ended: make(chan struct{})}
	go l.listener.run(ctx)
}

// unneeded ends the listening soon. The caller holds the limiter's lock.
func (s *listener) unneeded(time.Time) {
	if s.idle != nil {
		return
	}
	s.idle = time.AfterFunc(linger, func() {
		s.l.mu.Lock()
		ends := s.l.listener == s && s.idle != nil
		if ends {
			s.l.listener = nil
		}
		s.l.mu.Unlock()
		if ends {
			s.stop()
		}
	})
}

// stop ends the listening and waits until it has ended. The limiter's lock is not held.
func (s *listener) stop() {
	if s.idle != nil {
		s.idle.Stop()
	}
	s.cancel()
	<-s.ended
}

func (s *listener) run(ctx context.Context) {
	defer close(s.ended)
	for ctx.Err() == nil {
		sub := s.l.client.Subscribe(ctx, s.l.keys.state+":"+s.l.process)
		unblock := context.AfterFunc(ctx, func() { sub.Close() })
		for {
			got, err := sub.ReceiveTimeout(ctx, 0)
			if err != nil {
				break
			}
			switch m := got.(type) {
			case *redis.Subscription: // now, or again: what was missed meanwhile is asked for
				s.up.Store(true)
				s.l.mu.Lock()
				s.l.pollAt = time.Time{}
				s.l.kick()
				s.l.mu.Unlock()
			case *redis.Message:
				s.push(m.Payload)
			}
		}
		s.up.Store(false)
		unblock()
		sub.Close()
		select {
		case <-ctx.Done():
		case <-time.After(heartbeat / 20):
		}
	}
}

// push takes over a grant: the server's clock, the fence, the length of the lease in microseconds, and the id.
func (s *listener) push(text string) {
	words := strings.Fields(text)
	if len(words) != 4 {
		return
	}
	var n [3]int64
	for i := range n {
		v, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			return
		}
		n[i] = v
	}
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen.now == 0 || l.waiting[words[3]] == nil {
		return
	}
	// The grant came (n[0] - seen.now) after an instant of the server's clock that was not before sentAt.
	from := l.sentAt.Add(time.Duration(n[0]-l.seen.now) * time.Microsecond)
	if now := time.Now(); from.After(now) {
		from = now
	}
	l.grant(words[3], n[1], from, time.Duration(n[2])*time.Microsecond)
	if l.asked.limit == 0 {
		l.depart(words[3]) // the note of the grant is no longer needed
	}
	l.kick()
}
