package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/turnstile-go/turnstile/adapt"
	"github.com/turnstile-go/turnstile/throttle"
)

var _ flowcontrol.RateLimiter = (*adapt.Flow)(nil)

// client returns a Kubernetes client whose requests pass lim.
func client(host string, lim *throttle.Limiter, rate throttle.Rate) (*kubernetes.Clientset, error) {
	flow, err := adapt.NewFlow(lim, rate)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(&rest.Config{Host: host, RateLimiter: flow})
}

// Every request of the client takes a token; one whose deadline comes too soon is told so at once, and does not reach the server.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("server:", r.Method, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"}}`)
	}))
	defer server.Close()
	rate := throttle.PerHour(1)
	lim, err := throttle.New(throttle.Config{Name: "kubernetes", Rate: rate, Burst: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := client(server.URL, lim, rate)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 3 {
		pod, err := c.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			var yet *throttle.NotYetError
			fmt.Println(errors.As(err, &yet), lim.Stats().Started, "started")
			continue
		}
		fmt.Println(pod.Name)
	}
	// Output:
	// server: GET /api/v1/namespaces/default/pods/web
	// web
	// server: GET /api/v1/namespaces/default/pods/web
	// web
	// true 2 started
}

func TestAClientRefusesALimiterWhosePermitsItWouldNotRelease(t *testing.T) {
	lim, err := throttle.New(throttle.Config{Rate: throttle.PerSecond(1), Burst: 1, MaxInFlight: 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client("http://127.0.0.1", lim, throttle.PerSecond(1)); !errors.Is(err, throttle.ErrCapped) {
		t.Errorf("got %v; want ErrCapped", err)
	}
}
