package throttleredis

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A request is what a process says to Redis in one call.
type request struct {
	batch    int64
	releases []string
	renewals []*lease
	polls    []*call
	arrivals []*call
}

func (r *request) empty() bool {
	return len(r.releases)+len(r.renewals)+len(r.polls)+len(r.arrivals) == 0
}

// args returns r as ARGV of the script.
func (l *Limiter) args(r *request) []any {
	c := &l.config
	s := l.asked
	a := make([]any, 0, 20+len(r.releases)+2*len(r.renewals)+len(r.polls)+2*len(r.arrivals))
	a = append(a, l.process, r.batch, newProcess(), l.epoch,
		c.Lease.Microseconds(), pickup(c.Lease).Microseconds(), patience.Microseconds(), heartbeat.Microseconds(),
		c.MaxQueue, flag(l.trusted), flag(c.Strict), s.version, s.n, s.p, s.burst, s.limit)
	a = append(a, len(r.releases))
	for _, id := range r.releases {
		a = append(a, id)
	}
	a = append(a, len(r.renewals))
	for _, h := range r.renewals {
		a = append(a, h.id, flag(h.epoch != l.epoch))
	}
	a = append(a, len(r.polls))
	for _, k := range r.polls {
		a = append(a, k.id)
	}
	a = append(a, len(r.arrivals))
	for _, k := range r.arrivals {
		a = append(a, k.id, k.allowed)
	}
	return a
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// A verdict is the script's answer about one id.
type verdict struct {
	what  byte // G granted, M granted and told among the response's mine, Q waits, N not now, F line full, X never fits, H held, L lost
	value int64
}

// A response is what Redis answers to a request.
type response struct {
	now                    int64 // the server's clock, in microseconds
	epoch                  string
	settings               settings
	tokens, held, inLine   int64
	mine                   map[string]int64 // granted from the line: fences by id
	renewed, polled, added []verdict
}

// parse reads the answer to r.
func parse(text string, r *request) (response, error) {
	words := strings.Fields(text)
	bad := fmt.Errorf("throttleredis: the script answered %q, which is not understood", text)
	next := func() string {
		if len(words) == 0 {
			return ""
		}
		w := words[0]
		words = words[1:]
		return w
	}
	ok := true
	number := func() int64 {
		n, err := strconv.ParseInt(next(), 10, 64)
		ok = ok && err == nil
		return n
	}
	if next() != "OK" {
		return response{}, bad
	}
	var p response
	p.now = number()
	p.epoch = next()
	p.settings = settings{number(), number(), number(), number(), number()}
	p.tokens, p.held, p.inLine = number(), number(), number()
	if n := number(); n > 0 {
		p.mine = make(map[string]int64)
		for ; n > 0 && ok; n-- {
			id := next()
			p.mine[id] = number()
		}
	}
	verdicts := func(n int) []verdict {
		vs := make([]verdict, n)
		for i := range vs {
			w := next()
			if len(w) != 1 {
				ok = false
				return nil
			}
			vs[i].what = w[0]
			if strings.Contains("GQNF", w) {
				vs[i].value = number()
			}
		}
		return vs
	}
	p.renewed, p.polled, p.added = verdicts(len(r.renewals)), verdicts(len(r.polls)), verdicts(len(r.arrivals))
	if !ok || len(words) != 0 {
		return response{}, bad
	}
	return p, nil
}

// What a limiter does by itself.
const (
	heartbeat = time.Second     // a waiter asks again after that at the latest, whatever pushes come
	patience  = 3 * time.Second // a waiter that is not heard of for that long is forgotten
	linger    = time.Second     // a subscription outlives the last waiter by that
)

// pickup is how long a grant that is pushed to a waiter holds until its process is heard of.
func pickup(lease time.Duration) time.Duration { return min(lease, time.Second) }
