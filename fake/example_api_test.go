package fake_test

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/turnstile-go/turnstile/fake"
)

// On the loopback: the client under test is given the server's URL, and knows nothing of the fake.
func ExampleAPI_Start() {
	api, err := fake.NewAPI(fake.APIConfig{
		Dialect: fake.GitHub,
		Limits: []fake.APILimit{
			{Name: "core", Kind: fake.FixedWindow, N: 5000, Period: time.Hour},
			{Name: "secondary", Kind: fake.Concurrency, N: 100, Hidden: true},
		},
	})
	if err != nil {
		panic(err)
	}
	server, err := api.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()

	response, err := http.Get(server.URL + "/repos") // the client under test
	if err != nil {
		panic(err)
	}
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()

	fmt.Println(response.StatusCode, response.Header.Get("X-RateLimit-Remaining"), "left")
	fmt.Println("refused:", api.Report().Refused, "error:", api.Report().Err())
	// Output:
	// 200 4999 left
	// refused: 0 error: <nil>
}

// In memory, on a clock moved by hand; within testing/synctest leave Clock nil, and sleeping moves it.
func ExampleAPI_Transport() {
	clock := fake.NewClock(fake.Epoch)
	api, err := fake.NewAPI(fake.APIConfig{
		Clock:  clock,
		Limits: []fake.APILimit{{Name: "default", Kind: fake.TokenBucket, N: 1, Period: 30 * time.Second, Burst: 2}},
	})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: api.Transport()}
	ask := func() {
		response, err := client.Get("http://api.example/")
		if err != nil {
			panic(err)
		}
		defer response.Body.Close()
		fmt.Printf("%d %s wait %q\n", response.StatusCode, response.Header.Get("RateLimit"), response.Header.Get("Retry-After"))
	}
	ask()
	ask()
	ask()
	clock.Advance(30 * time.Second)
	ask()
	fmt.Println(api.Report().Err())
	// Output:
	// 200 "default";r=1;t=30 wait ""
	// 200 "default";r=0;t=60 wait ""
	// 429 "default";r=0;t=60 wait "30"
	// 200 "default";r=0;t=60 wait ""
	// fake: the API refused 1 of 4 requests: 1 by "default"
}

// The report says how near the callers came to each limit.
func ExampleAPIReport() {
	clock := fake.NewClock(fake.Epoch)
	api, err := fake.NewAPI(fake.APIConfig{
		Clock:  clock,
		Limits: []fake.APILimit{{Name: "window", Kind: fake.SlidingWindow, N: 3, Period: time.Minute}},
	})
	if err != nil {
		panic(err)
	}
	for range 4 {
		r, _ := http.NewRequest(http.MethodGet, "http://api.example/", nil)
		r.Header.Set("Authorization", "ann")
		if _, err := api.Transport().RoundTrip(r); err != nil {
			panic(err)
		}
		clock.Advance(time.Second)
	}
	fmt.Print(api.Report())
	// Output:
	// 4 requests: 3 admitted, 1 refused; 3 answered, 0 failed, 0 dropped, 0 abandoned, 0 in flight, at most 1
	// SlidingWindow "window" of 3, key "ann": peak 3, asked 4, refused 1, least left 0
}

// A dialect of your own is a function.
func ExampleDialect() {
	house := func(h http.Header, s fake.APIState) (int, []byte) {
		h.Set("X-Left", fmt.Sprint(s.Limits[0].Remaining))
		if r := s.Refused(); r != nil {
			return http.StatusTooManyRequests, []byte("come back in " + r.RetryAfter.String())
		}
		return 0, nil
	}
	api, err := fake.NewAPI(fake.APIConfig{
		Clock:   fake.NewClock(fake.Epoch),
		Dialect: house,
		Limits:  []fake.APILimit{{Name: "daily", Kind: fake.FixedWindow, N: 1, Period: 24 * time.Hour, Aligned: true}},
	})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: api.Transport()}
	for range 2 {
		response, err := client.Get("http://api.example/")
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(response.Body)
		fmt.Println(response.StatusCode, response.Header.Get("X-Left"), string(body))
	}
	// Output:
	// 200 0 {}
	// 429 0 come back in 12h0m0s
}

// Several limits at once, as an API of a language model has them: requests and tokens a minute, and a cap on what is in flight.
func ExampleAPIConfig() {
	tokens := func(r *http.Request) int64 { return r.ContentLength / 4 }
	api, err := fake.NewAPI(fake.APIConfig{
		Dialect: fake.OpenAI,
		Limits: []fake.APILimit{
			{Name: "requests", Kind: fake.TokenBucket, N: 500, Period: time.Minute},
			{Name: "tokens", Kind: fake.TokenBucket, N: 30_000, Period: time.Minute, Cost: tokens},
			{Name: "in-flight", Kind: fake.Concurrency, N: 8},
		},
		Service:   fake.LogNormal(800*time.Millisecond, 0.5),
		Latency:   fake.Uniform(0, 20*time.Millisecond),
		Seed:      1,
		FailEvery: 50,
	})
	fmt.Println(api.Report().Requests(), err)
	_, err = fake.NewAPI(fake.APIConfig{Limits: []fake.APILimit{{Name: "window", Kind: fake.FixedWindow, N: 10}}})
	fmt.Println(err)
	// Output:
	// 0 <nil>
	// fake: APIConfig: Limits[0]: Period is 0s: must be above 0
}
