package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A Job is what is done with each line.
type Job interface {
	// Check says why the line can never be run; it costs no token then.
	Check(input string) error
	// Do runs the line and fills the result in. It returns once ctx is done.
	Do(ctx context.Context, input string, r *Result)
	// Close lets go of what the job keeps between lines.
	Close()
}

// Fetch is the job that sends each line, a URL, one request. The answer's body is read to its end while the
// permit is held, counted and thrown away.
type Fetch struct {
	method string
	header http.Header
	client http.Client
}

// NewFetch returns a job that sends requests of the given method and header fields. Redirects are
// not followed, since each would be one more request than the limits counted, unless follow is set
// (then up to 10). keep is how many idle connections to a host are kept.
func NewFetch(method string, header http.Header, follow bool, keep int) (*Fetch, error) {
	if _, err := http.NewRequest(method, "http://localhost/", nil); err != nil {
		return nil, fmt.Errorf("--method %q: want an HTTP method such as GET or HEAD", method)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = 0
	transport.MaxIdleConnsPerHost = keep
	transport.DisableCompression = true // so that bytes are those sent
	f := &Fetch{method: method, header: header, client: http.Client{Transport: transport}}
	if !follow {
		f.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return f, nil
}

// Check refuses what is not an absolute http or https URL.
func (f *Fetch) Check(input string) error {
	u, err := url.Parse(strings.TrimSpace(input))
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err
		}
		return fmt.Errorf("not a URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return errors.New("not a URL to fetch: want http://host/path or https://host/path")
	}
	return nil
}

// Do sends the request and reads the answer.
func (f *Fetch) Do(ctx context.Context, input string, r *Result) {
	if err := f.do(ctx, strings.TrimSpace(input), r); err != nil {
		r.Error = cause(ctx, err).Error()
		r.failed = true
	}
}

func (f *Fetch) do(ctx context.Context, target string, r *Result) error {
	request, err := http.NewRequestWithContext(ctx, f.method, target, nil)
	if err != nil {
		return err
	}
	request.Header = f.header.Clone()
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	answer, err := f.client.Do(request)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err
		}
		return err
	}
	defer answer.Body.Close()
	r.Status = answer.StatusCode
	r.Location = answer.Header.Get("Location")
	r.failed = answer.StatusCode >= 400
	r.Bytes, err = io.Copy(io.Discard, answer.Body)
	if err != nil {
		return fmt.Errorf("the answer broke off after %d bytes: %w", r.Bytes, err)
	}
	return nil
}

// Close closes idle connections.
func (f *Fetch) Close() { f.client.CloseIdleConnections() }

// A timeoutError is the cause of a line's context that ran out.
type timeoutError time.Duration

func (t timeoutError) Error() string {
	return fmt.Sprintf("timeout: not finished %v after its start", time.Duration(t))
}

// errAborted is the cause of every context after the second interrupt.
var errAborted = errors.New("aborted by the second interrupt")

// cause prefers the reason for which ctx is done to the error that followed from it.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
