// Command gin is a server on the gin router with its routes under limits: sign-ins few for each address, everything else as much as an API key
// allows, and so many requests at a time.
//
//	go run ./gin
//	for i in $(seq 7); do curl -s -o /dev/null -w '%{http_code}\n' -X POST localhost:8080/login; done
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

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

// guarded is guard as gin's middleware. A permit is held until the handlers behind it have returned.
func guarded(guard *throttlehttp.Guard) gin.HandlerFunc {
	return func(c *gin.Context) {
		// gin has found the route before it calls its middleware; net/http's field for it is empty.
		c.Request.Pattern = c.Request.Method + " " + c.FullPath()
		through := false
		guard.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			through = true
			c.Request = r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		if !through {
			c.Abort()
		}
	}
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
	guard, err := throttlehttp.NewGuard(throttlehttp.GuardConfig{
		Rules: []throttlehttp.Rule{
			{Name: "sign_in", Patterns: []string{"POST /login"}, Limiters: signIn, Key: throttlehttp.RemoteIP},
			{Name: "api", Limiters: perKey, Key: throttlehttp.FirstKey(throttlehttp.HeaderKey("X-Api-Key"), throttlehttp.RemoteIP)},
		},
	})
	if err != nil {
		return nil, err
	}
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(gin.Recovery(), guarded(guard))
	router.POST("/login", func(c *gin.Context) { c.String(http.StatusOK, "welcome\n") })
	router.GET("/items/:id", func(c *gin.Context) { c.String(http.StatusOK, "item %s\n", c.Param("id")) })
	router.GET("/fault", func(*gin.Context) { panic("a fault, to be recovered from") })
	return router, nil
}
