package throttlehttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
	"github.com/turnstile-go/turnstile/throttlehttp"
)

func TestRequestsWaitInOrderForAsLongAsTheyMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, rate(1, time.Second, 1))
		h := guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(l), MaxWait: 3 * time.Second, MaxWaiting: 10}).Wrap(ok)
		begin := time.Now()
		type answer struct{ i, status, retry int }
		answers := make(chan answer, 6)
		for i := range 6 {
			go func() {
				res := serve(h, request("192.0.2.1:1"))
				answers <- answer{i, res.StatusCode, retryAfter(t, res)}
			}()
			synctest.Wait()
		}
		var got []string
		for range 6 {
			a := <-answers
			got = append(got, fmt.Sprintf("%d: %d at %v, retry %d", a.i, a.status, time.Since(begin), a.retry))
		}
		want := []string{"0: 200 at 0s, retry -1", "4: 429 at 0s, retry 4", "5: 429 at 0s, retry 4", "1: 200 at 1s, retry -1", "2: 200 at 2s, retry -1", "3: 200 at 3s, retry -1"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("answers:\n%v\nwant\n%v", got, want)
		}
	})
}

// The bound on those who wait holds for all keys together.
func TestSRV06_AtMostMaxWaitingWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, throttle.Config{MaxInFlight: 1})
		h := guardOf(t, throttlehttp.Rule{Limiters: k, Key: throttlehttp.RemoteIP, MaxWait: time.Minute, MaxWaiting: 3}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(10 * time.Second) }))
		count, answers := map[int]int{}, make(chan int, 20)
		for i := range 20 {
			go func() { answers <- serve(h, request(fmt.Sprintf("10.0.0.%d:1", i%2))).StatusCode }()
		}
		synctest.Wait()
		for len(answers) > 0 {
			count[<-answers]++
		}
		if count[503] != 15 || len(count) != 1 {
			t.Errorf("of 20 requests, 2 in flight and 3 waiting, the rest are told %v; want 503 15 times", count)
		}
		for range 5 {
			count[<-answers]++
		}
		if count[200] != 5 {
			t.Errorf("in the end they are told %v; want 200 5 times", count)
		}
		if code := serve(h, request("10.0.0.1:1")).StatusCode; code != 200 {
			t.Errorf("a later request is told %d; want 200", code)
		}
	})
}

// Nobody knows when a permit comes: who waits for it is told 503 once MaxWait is over.
func TestAWaitForAPermitEndsAtMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 1})
		p, _ := l.TryAcquire()
		h := guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(l), MaxWait: 5 * time.Second, MaxWaiting: 1}).Wrap(ok)
		begin := time.Now()
		res := serve(h, request("192.0.2.1:1"))
		if res.StatusCode != 503 || retryAfter(t, res) != 1 || time.Since(begin) != 5*time.Second || l.Stats().Waiting != 0 {
			t.Errorf("after %v: %d, Retry-After %d, %d still wait; want 503 after 5s, 1, none", time.Since(begin), res.StatusCode, retryAfter(t, res), l.Stats().Waiting)
		}
		p.Release()
		if res := serve(h, request("192.0.2.1:1")); res.StatusCode != 200 {
			t.Errorf("the next is told %d", res.StatusCode)
		}
	})
}

// A pause that comes while a request waits may outlast MaxWait: then it is told the wait as it is at that instant.
func TestWhoHasWaitedInVainIsToldTheWaitOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, rate(1, time.Second, 1))
		l.TryAcquire()
		h := guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(l), MaxWait: 2 * time.Second, MaxWaiting: 1}).Wrap(ok)
		answer := make(chan *http.Response, 1)
		go func() { answer <- serve(h, request("192.0.2.1:1")) }()
		synctest.Wait()
		l.PauseFor(10 * time.Second)
		if res := <-answer; res.StatusCode != 429 || retryAfter(t, res) != 8 {
			t.Errorf("told %d, Retry-After %d; want 429, 8", res.StatusCode, retryAfter(t, res))
		}
	})
}

// A client that disconnects frees its place at once, and takes no token.
func TestADisconnectFreesThePlaceInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, rate(1, time.Minute, 1))
		l.TryAcquire()
		called := false
		s := newPipeServer(guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(l), MaxWait: 2 * time.Minute, MaxWaiting: 1}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true })))
		defer s.server.Close()
		conn := s.dial()
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: server\r\n\r\n")
		synctest.Wait()
		if got := l.Stats().Waiting; got != 1 {
			t.Fatalf("%d wait; want 1", got)
		}
		conn.Close()
		synctest.Wait()
		if st := l.Stats(); st.Waiting != 0 || st.Left != 1 {
			t.Errorf("the client has gone: %d wait, %d left; want 0, 1", st.Waiting, st.Left)
		}
		time.Sleep(time.Minute)
		if res, err := s.client().Get("http://server/"); err != nil || res.StatusCode != 200 || !called {
			t.Errorf("the next client: %v, %v; want its token there", res, err)
		}
	})
}

// A deadline of the server's own, as http.TimeoutHandler sets one, ends the wait too.
func TestTheRequestsOwnDeadlineEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, throttle.Config{MaxInFlight: 1})
		p, _ := l.TryAcquire()
		defer p.Release()
		h := guardOf(t, throttlehttp.Rule{Limiters: throttlehttp.Shared(l), MaxWait: time.Minute, MaxWaiting: 1}).Wrap(ok)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin, w := time.Now(), httptest.NewRecorder()
		h.ServeHTTP(w, request("192.0.2.1:1").WithContext(ctx))
		if w.Code != 503 || w.Header().Get("Retry-After") != "1" || time.Since(begin) != time.Second {
			t.Errorf("told %d, Retry-After %q, after %v; want 503, 1, 1s", w.Code, w.Header().Get("Retry-After"), time.Since(begin))
		}
	})
}
