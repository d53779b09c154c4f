package throttlehttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// errWaited is the cause by which a request's wait, not the request, ends.
var errWaited = errors.New("throttlehttp: MaxWait is over")

// admit lets a request through at once if it lacks nothing; otherwise it waits, if the rule lets it, and there is hope.
//
// A try comes first: it does not overtake, and its refusal tells the wait, so that a request that would wait for too long never joins the line.
func (p *rule) admit(ctx context.Context, a throttle.Admitter, c throttle.Cost) (context.Context, throttle.Held, error) {
	callCtx, held, err := a.TryAdmit(ctx, c)
	var notYet *throttle.NotYetError
	if err == nil || p.MaxWait == 0 || !errors.As(err, &notYet) || notYet.RetryAfter > p.MaxWait {
		return callCtx, held, err
	}
	if p.waiting.Add(1) > int64(p.MaxWaiting) {
		p.waiting.Add(-1)
		return nil, nil, err
	}
	defer p.waiting.Add(-1)
	return p.wait(ctx, a, c)
}

// wait joins the line for MaxWait at the most. The wait has a context of its own, which the handler's must not end with: where an Admitter
// derives the one from the other, that of the wait lives as long as ctx does, once the timer is stopped.
func (p *rule) wait(ctx context.Context, a throttle.Admitter, c throttle.Cost) (context.Context, throttle.Held, error) {
	waitCtx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(p.MaxWait, func() { end(errWaited) })
	callCtx, held, err := a.Admit(waitCtx, c)
	inTime := timer.Stop()
	switch {
	case err != nil:
		end(nil)
		if ctx.Err() == nil && errors.Is(err, errWaited) {
			return a.TryAdmit(ctx, c) // its refusal tells the wait as it is now
		}
		return nil, nil, err
	case callCtx == waitCtx:
		end(nil)
		return ctx, held, nil
	case !inTime: // let through at the very end, with a context that has ended
		end(nil)
		held.Release()
		return a.TryAdmit(ctx, c)
	}
	return callCtx, ending{held, end}, nil
}

// An ending is a permit whose release ends a context too.
type ending struct {
	throttle.Held
	end context.CancelCauseFunc
}

func (e ending) Release() {
	e.Held.Release()
	e.end(nil)
}

// judge says how a request is refused that err was the answer to, or that it is to be let through all the same.
//
// What time restores is 429: the client has spent what it had, and is told when to come again. What only the end of other requests restores, and
// what concerns the server alone, is 503: then the client has done nothing that it could do less of.
func (g *Guard) judge(r *http.Request, p *rule, a throttle.Admitter, c throttle.Cost, err error) (Refusal, bool) {
	refused := Refusal{Rule: p.Name, Status: http.StatusServiceUnavailable, RetryAfter: g.busy, Err: err}
	var notYet *throttle.NotYetError
	var left *throttle.LeftError
	switch {
	case errors.As(err, &notYet) && notYet.RetryAfter > 0:
		refused.Status, refused.RetryAfter = http.StatusTooManyRequests, notYet.RetryAfter
		refused.Violated = violated(p.Name, a, c)
	case notYet != nil, errors.As(err, &left), r.Context().Err() != nil, errors.Is(err, throttle.ErrClosed), errors.Is(err, throttle.ErrTooManyKeys):
	case errors.Is(err, throttle.ErrTooLarge):
		refused.Status, refused.RetryAfter = http.StatusRequestEntityTooLarge, 0
	case errors.Is(err, throttle.ErrInvalid): // a Cost that is none
		refused.Status, refused.RetryAfter = http.StatusInternalServerError, 0
	case g.onError != nil && g.onError(r, err):
		return Refusal{}, false
	}
	return refused, true
}
