// Command chi is a server on the chi router with its routes under limits: sign-ins few for each address, everything else as much as an API key
// allows, and so many requests at a time.
//
//	go run ./chi
//	for i in $(seq 7); do curl -s -o /dev/null -w '%{http_code}\n' -X POST localhost:8080/login; done
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/turnstile-go/turnstile/throttle"
	"github.com/turnstile-go/turnstile/throttlehttp"
)

func main() {
	h, err := newHandler()
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: "localhost:8080", Handler: h, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func newHandler() (http.Handler, error) {
	// What all share: at most 64 requests in flight.
	all, err := throttle.New(throttle.Config{Name: "server", MaxInFlight: 64})
	if err != nil {
		return nil, err
	}
	signIn, err := throttle.NewKeyed[string](throttle.Config{Name: "sign_in", Rate: throttle.Per(1, 10*time.Second), Burst: 5, Parent: all})
	if err != nil {
		return nil, err
	}
	perKey, err := throttle.NewKeyed[string](throttle.Config{Name: "api", Rate: throttle.PerSecond(10), Burst: 20, Parent: all})
	if err != nil {
		return nil, err
	}

	mux := chi.NewRouter()
	guard, err := throttlehttp.NewGuard(throttlehttp.GuardConfig{
		// A Guard in Use comes before chi has found the route: ask chi for it.
		Route: func(r *http.Request) string {
			return r.Method + " " + mux.Find(chi.NewRouteContext(), r.Method, r.URL.Path)
		},
		Rules: []throttlehttp.Rule{
			{Name: "sign_in", Patterns: []string{"POST /login"}, Limiters: signIn, Key: throttlehttp.RemoteIP},
			{Name: "api", Limiters: perKey, Key: throttlehttp.FirstKey(throttlehttp.HeaderKey("X-Api-Key"), throttlehttp.RemoteIP)},
		},
	})
	if err != nil {
		return nil, err
	}
	mux.Use(guard.Wrap)
	mux.Post("/login", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("welcome\n")) })
	mux.Get("/items/{id}", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("item " + chi.URLParam(r, "id") + "\n")) })
	return mux, nil
}
