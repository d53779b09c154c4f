package throttlehttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
	"github.com/turnstile-go/turnstile/throttlehttp"
)

// hello is the handler that the examples guard.
var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

func need[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// call makes a request of a handler.
func call(h http.Handler, method, path, accept string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	r.Header.Set("Accept", accept)
	h.ServeHTTP(w, r)
	return w
}

func ExampleGuard() {
	clock := fake.NewClock(time.Time{})
	limiters := need(throttle.NewKeyed[string](throttle.Config{
		Name: "api", Rate: throttle.Per(10, time.Minute), Burst: 2, MaxInFlight: 5, Clock: clock,
	}))
	guard := need(throttlehttp.NewGuard(throttlehttp.GuardConfig{
		Rules: []throttlehttp.Rule{{Name: "api", Limiters: limiters, Key: throttlehttp.RemoteIP}},
	}))
	handler := guard.Wrap(hello)
	for range 3 {
		w := call(handler, "GET", "/", "application/problem+json")
		fmt.Printf("%d, RateLimit: %s, Retry-After: %q\n", w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
		fmt.Println(w.Body)
	}
	// Output:
	// 200, RateLimit: "api";r=1;t=6, Retry-After: ""
	// hello
	// 200, RateLimit: "api";r=0;t=12, Retry-After: ""
	// hello
	// 429, RateLimit: "api";r=0;t=12, Retry-After: "6"
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"try again in 6 s","violated-policies":["api"]}
}

// Sign-ins have a rule of their own; whatever else there is has another; and all share the server's cap.
func ExampleRule() {
	server := need(throttle.New(throttle.Config{Name: "server", MaxInFlight: 64}))
	signIns := need(throttle.NewKeyed[string](throttle.Config{
		Name: "sign_in", Rate: throttle.Per(1, 10*time.Second), Burst: 5, Parent: server,
	}))
	rest := need(throttle.NewKeyed[string](throttle.Config{
		Name: "rest", Rate: throttle.PerSecond(10), Burst: 20, Parent: server,
	}))
	guard := need(throttlehttp.NewGuard(throttlehttp.GuardConfig{
		Rules: []throttlehttp.Rule{
			{Name: "sign_in", Patterns: []string{"POST /login"}, Limiters: signIns, Key: throttlehttp.RemoteIP},
			{Name: "rest", Limiters: rest, Key: throttlehttp.RemoteIP, MaxWait: 2 * time.Second, MaxWaiting: 100},
		},
	}))
	mux := http.NewServeMux()
	mux.Handle("POST /login", hello)
	mux.Handle("GET /items/{id}", hello)
	handler := guard.Wrap(mux)
	fmt.Println(call(handler, "POST", "/login", "").Header().Get("RateLimit-Policy"))
	fmt.Println(call(handler, "GET", "/items/7", "").Header().Get("RateLimit-Policy"))
	// Output:
	// "sign_in";q=5;w=50
	// "rest";q=20;w=2
}

func ExampleNewClientIP() {
	key := need(throttlehttp.NewClientIP(throttlehttp.ClientIP{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}))
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Forwarded-For", "198.51.100.1, 2001:db8:1:2::3, 10.0.0.2")
	r.RemoteAddr = "10.0.0.1:4711"
	fmt.Println("through our proxies:", key(r))
	r.RemoteAddr = "203.0.113.9:4711"
	fmt.Println("past them:", key(r))
	// Output:
	// through our proxies: 2001:db8:1:2::/64
	// past them: 203.0.113.9
}

func ExampleJoinKeys() {
	key := throttlehttp.JoinKeys(throttlehttp.HeaderKey("X-Tenant"), throttlehttp.RemoteIP)
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Tenant", "ann")
	fmt.Println(key(r))
	// Output: 3:ann9:192.0.2.1
}

// Limiters of one's own: here, tenants that pay have others than those that do not.
type byPlan struct{ paid, free throttlehttp.Limiters }

func (p byPlan) For(key string) throttle.Admitter {
	if key == "ann" {
		return p.paid.For(key)
	}
	return p.free.For(key)
}

func ExampleLimiters() {
	plans := byPlan{
		paid: need(throttle.NewKeyed[string](throttle.Config{Name: "paid", Rate: throttle.PerSecond(100), Burst: 100})),
		free: need(throttle.NewKeyed[string](throttle.Config{Name: "free", Rate: throttle.PerSecond(1), Burst: 10})),
	}
	guard := need(throttlehttp.NewGuard(throttlehttp.GuardConfig{
		Rules: []throttlehttp.Rule{{Name: "plan", Limiters: plans, Key: throttlehttp.HeaderKey("X-Tenant")}},
	}))
	r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
	r.Header.Set("X-Tenant", "ann")
	guard.Wrap(hello).ServeHTTP(w, r)
	fmt.Println(w.Header().Get("RateLimit-Policy"))
	// Output: "plan";q=100;w=1
}

// An answer in the server's own form; the header is filled already.
func ExampleRefusal() {
	full := need(throttle.New(throttle.Config{Name: "reports", MaxInFlight: 1}))
	permit := need(full.TryAcquire())
	defer permit.Release()
	guard := need(throttlehttp.NewGuard(throttlehttp.GuardConfig{
		Rules: []throttlehttp.Rule{{Name: "reports", Limiters: throttlehttp.Shared(full)}},
		Answer: func(w http.ResponseWriter, _ *http.Request, refused throttlehttp.Refusal) {
			w.WriteHeader(refused.Status)
			fmt.Fprintf(w, "busy; come again in %d s", refused.Seconds())
		},
	}))
	w := call(guard.Wrap(hello), "GET", "/", "")
	fmt.Println(w.Code, w.Header().Get("Retry-After"), w.Body)
	// Output: 503 1 busy; come again in 1 s
}
