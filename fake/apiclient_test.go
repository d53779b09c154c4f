package fake_test

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/fake"
)

// patient stands for the client under test: it waits as Retry-After says.
type patient struct{ http.Client }

func (p *patient) fetch(url string) error {
	for {
		response, err := p.Get(url)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusTooManyRequests {
			return err
		}
		wait, err := time.ParseDuration(response.Header.Get("Retry-After") + "s")
		if err != nil {
			return err
		}
		time.Sleep(wait)
	}
}

// An hour's worth of requests takes no real time: within the bubble, sleeping moves the clock of client and API alike.
func TestAClientOnVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := fake.NewAPI(fake.APIConfig{
			Limits:  []fake.APILimit{{Name: "minute", Kind: fake.SlidingWindow, N: 10, Period: time.Minute}},
			Latency: fake.Uniform(0, 50*time.Millisecond), Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &patient{http.Client{Transport: api.Transport()}}
		began := time.Now()
		var group sync.WaitGroup
		for range 600 {
			group.Go(func() {
				if err := client.fetch("http://api.example/"); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		report := api.Report()
		if report.Answered != 600 || report.Limits[0].Peak != 10 {
			t.Error(report)
		}
		if took := time.Since(began); took < 59*time.Minute || took > 70*time.Minute {
			t.Errorf("took %v of virtual time", took)
		}
		t.Logf("%d refusals on the way", report.Refused) // a client that shapes its calls would have none: report.Err() == nil
	})
}
