package fake

import (
	"errors"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// at is an instant ms milliseconds after Epoch.
func at(ms int) time.Time { return Epoch.Add(time.Duration(ms) * time.Millisecond) }

// clauses returns the clauses violated, in order.
func clauses(r Report) string {
	var c []string
	for _, v := range r.Violations {
		c = append(c, v.Clause)
	}
	return strings.Join(c, " ")
}

func TestC1_ARandomHistoryThatWasPaidForIsAccepted(t *testing.T) {
	// Nominal starts are paid for by a bucket of rational numbers, written apart from the one that Audit uses; real ones follow within
	// slack, in the same order. Audit must accept both, whatever the changes: this holds the derivation at worstWindow to account.
	replayed := 0
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		slack := time.Duration(r.Int64N(20))
		l := newRandomLimits(r)
		cfg := AuditConfig{Limits: Limits{N: l.n, Period: l.period, Burst: l.burst}, Slack: slack}
		led := &Ledger{}
		level := new(big.Rat).SetInt64(l.burst)
		nominal, real := Epoch, Epoch
		refill := func(to time.Time) {
			level.Add(level, new(big.Rat).Mul(big.NewRat(l.n, int64(l.period)), new(big.Rat).SetInt64(int64(to.Sub(nominal)))))
			if full := new(big.Rat).SetInt64(l.burst); level.Cmp(full) > 0 {
				level = full
			}
			nominal = to
		}
		var appends []func()
		seq := uint64(0)
		for range 40 {
			seq++
			s := seq
			if r.IntN(5) == 0 {
				if r.IntN(2) == 0 {
					real = real.Add(time.Duration(r.Int64N(15)))
				}
				refill(real)
				l = newRandomLimits(r)
				whole := new(big.Int).Quo(level.Num(), level.Denom())
				part := new(big.Rat).Sub(level, new(big.Rat).SetInt(whole))
				p := big.NewRat(l.n, int64(l.period)).Denom()
				part.Mul(part, new(big.Rat).SetInt(p))
				part.SetFrac(new(big.Int).Quo(part.Num(), part.Denom()), p)
				level = part.Add(part, new(big.Rat).SetInt(whole))
				if full := new(big.Rat).SetInt64(l.burst); level.Cmp(full) > 0 {
					level = full
				}
				x, when := l, real
				appends = append(appends, func() { led.Limit(s, when, x.n, x.period, x.burst, NoCap) })
				continue
			}
			cost := 1 + r.Int64N(l.burst)
			when := nominal.Add(time.Duration(r.Int64N(8) * r.Int64N(4)))
			refill(when)
			for level.Cmp(new(big.Rat).SetInt64(cost)) < 0 {
				refill(nominal.Add(1))
			}
			level.Sub(level, new(big.Rat).SetInt64(cost))
			late := nominal.Add(time.Duration(r.Int64N(int64(slack) + 1)))
			if late.After(real) {
				real = late
			}
			n, w := nominal, real
			appends = append(appends, func() { led.Start(s, s, w, n, cost, 1) })
		}
		r.Shuffle(len(appends), func(i, j int) { appends[i], appends[j] = appends[j], appends[i] })
		for _, f := range appends {
			f()
		}
		rep := Audit(led, cfg)
		if err := rep.Err(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		replayed += rep.Replayed
	}
	if replayed < 20_000 {
		t.Errorf("only %d starts were replayed", replayed)
	}
}

func newRandomLimits(r *rand.Rand) limits {
	return limits{n: 1 + r.Int64N(6), period: time.Duration(1 + r.Int64N(12)), burst: 1 + r.Int64N(6)}
}

func TestC1_TheReplayRefusesExactlyWhatSomeWindowRefuses(t *testing.T) {
	refused := 0
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 3))
		l := newRandomLimits(r)
		led := &Ledger{}
		var starts []spending
		now := Epoch
		for i := range uint64(1 + r.Uint64N(12)) {
			now = now.Add(time.Duration(r.Int64N(10)))
			starts = append(starts, spending{now, 1 + r.Int64N(3)})
			led.Start(i, i, now, now, starts[i].cost, 1)
		}
		rep := Audit(led, AuditConfig{Limits: Limits{N: l.n, Period: l.period, Burst: l.burst}})
		broken := slowWorst(starts, []limits{l}, 0).Sign() > 0
		byReplay := slices.ContainsFunc(rep.Violations, func(v Violation) bool { return v.ID != 0 || strings.HasPrefix(v.Text, "call 0") })
		byWindow := slices.ContainsFunc(rep.Violations, func(v Violation) bool { return strings.HasPrefix(v.Text, "real") })
		if byReplay != broken || byWindow != broken || rep.OK() == broken {
			t.Fatalf("seed %d: broken %v, by replay %v, by window %v\n%v", seed, broken, byReplay, byWindow, rep)
		}
		if broken {
			refused++
		}
	}
	if refused < 100 || refused > 900 {
		t.Errorf("%d of 1000 histories broken: the test hardly tells", refused)
	}
}

func TestC1_ChangesOfLimitsAreJudgedByWhatHeldThen(t *testing.T) {
	promise := AuditConfig{Limits: Limits{N: 1, Period: time.Second, Burst: 2}}
	for name, c := range map[string]struct {
		promise AuditConfig
		fill    func(l *Ledger)
		want    string
	}{
		"a higher burst adds no tokens": {promise, func(l *Ledger) {
			l.Start(1, 1, at(0), at(0), 2, 1)
			l.Limit(2, at(0), 1, time.Second, 10, NoCap)
			l.Start(2, 3, at(0), at(0), 1, 1) // only the replay can tell: the window's bound is the larger burst
		}, "C1"},
		"a lower burst cuts the level": {promise, func(l *Ledger) {
			l.Limit(1, at(0), 1, time.Second, 1, NoCap)
			l.Start(1, 2, at(0), at(0), 1, 1)
			l.Start(2, 3, at(0), at(0), 1, 1)
		}, "C1"},
		"a higher rate counts from its change on": {promise, func(l *Ledger) {
			l.Start(1, 1, at(0), at(0), 2, 1)
			l.Limit(2, at(1000), 10, time.Second, 2, NoCap)
			l.Start(2, 3, at(1000), at(1000), 1, 1)
			l.Start(3, 4, at(1100), at(1100), 1, 1)
		}, ""},
		"a higher rate does not count from before": {promise, func(l *Ledger) {
			l.Start(1, 1, at(0), at(0), 2, 1)
			l.Limit(2, at(900), 10, time.Second, 2, NoCap)
			l.Start(2, 3, at(905), at(905), 1, 1) // 0.9 and 0.05
		}, "C1 C1"},
		"what came before a rate is free": {AuditConfig{}, func(l *Ledger) {
			l.Start(1, 1, at(0), at(0), 100, 1)
			l.Limit(2, at(0), 1, time.Second, 1, NoCap)
			l.Start(2, 3, at(0), at(0), 1, 1)
		}, ""},
		"a rate that begins with a change begins full": {AuditConfig{}, func(l *Ledger) {
			l.Line("x").Start(1, 1, at(0), at(0), 100, 1)
			l.Line("x").Limit(2, at(10), 1, time.Second, 1, NoCap)
			l.Line("x").Start(2, 3, at(5000), at(5000), 1, 1)
			l.Line("x").Start(3, 4, at(5000), at(5000), 1, 1)
		}, "C1 C1"}, // the third start, by replay and by window
	} {
		l := &Ledger{}
		c.fill(l)
		r := Audit(l, c.promise)
		if clauses(r) != c.want {
			t.Errorf("%s: got %q, want %q\n%v", name, clauses(r), c.want, r)
		}
	}
}

func TestC1_RealStartsMayLagBySlackAndNoMore(t *testing.T) {
	l := &Ledger{}
	// 100/s, burst 1: due every 10 ms, let through two at once by a late timer.
	for i := range uint64(10) {
		l.Start(i, i, at(int(i/2)*20+10), at(int(i)*10), 1, 1)
	}
	promise := AuditConfig{Limits: Limits{N: 100, Period: time.Second, Burst: 1}, Slack: 10 * time.Millisecond}
	if r := Audit(l, promise); !r.OK() || r.Replayed != 10 || r.Worst.Excess.Sign() != 0 {
		t.Errorf("within slack: %v", r)
	}
	promise.Slack = 10*time.Millisecond - 1
	if r := Audit(l, promise); clauses(r) != "C1" || r.Worst.Starts != 2 {
		t.Errorf("slack 1 ns short: %v", r)
	}
}

func TestC1_WithoutNominalInstantsOnlyRealStartsAreJudged(t *testing.T) {
	l := &Ledger{}
	l.Start(1, 1, at(0), time.Time{}, 1, 1)
	l.Start(2, 2, at(0), at(0), 1, 1)
	r := Audit(l, AuditConfig{Limits: Limits{N: 1, Period: time.Second, Burst: 1}, Slack: time.Second})
	if !r.OK() || r.Replayed != 0 {
		t.Errorf("%v", r)
	}
}

func TestC11_AnInstantThatGoesBackMintsNothing(t *testing.T) {
	l := &Ledger{}
	l.Start(1, 1, at(1000), at(1000), 1, 1)
	l.Start(2, 2, at(-9000), at(-9000), 1, 1) // by a clock set back
	r := Audit(l, AuditConfig{Limits: Limits{N: 1, Period: time.Second, Burst: 1}})
	if clauses(r) != "C1 C1" || r.Worst.Excess.Cmp(big.NewRat(1, 1)) != 0 {
		t.Errorf("%v", r)
	}
}

func TestC1_EachRateHasItsWindowAndTheWorstIsNamed(t *testing.T) {
	l := &Ledger{}
	a, b := l.Line("a"), l.Line("b")
	for id := range uint64(3) {
		a.Start(id, id, at(0), at(0), 2, 1)
		b.Start(id, id, at(0), at(0), 1, 1)
	}
	one := Limits{N: 1, Period: time.Second, Burst: 4}
	r := Audit(l, AuditConfig{Limits: Limits{N: 1, Period: time.Second, Burst: 9}, Lines: map[string]Limits{"b": one, "a": one}})
	if len(r.Windows) != 3 || r.Windows[1].Line != "a" || r.Windows[2].Line != "b" {
		t.Fatalf("%v", r)
	}
	if r.Worst.Line != "a" || r.Worst.Cost != 6 || clauses(r) != "C1 C1" || r.Violations[0].Line != "a" || r.Violations[1].Line != "a" {
		t.Errorf("%v", r)
	}
	if got := []string{r.Windows[0].Excess.RatString(), r.Windows[2].Excess.RatString()}; got[0] != "0" || got[1] != "-1" {
		t.Errorf("excesses %v", got)
	}
}

func TestWhatCannotBeJudgedIsSaid(t *testing.T) {
	neg := &Ledger{}
	neg.Start(1, 1, at(0), at(0), -1, 1)
	bad := &Ledger{}
	bad.Limit(1, at(0), -1, 0, 0, NoCap)
	for want, r := range map[string]Report{
		"the ledger is nil":                    Audit(nil, AuditConfig{}),
		"Slack is -1ns: must be 0 or more":     Audit(&Ledger{}, AuditConfig{Slack: -1}),
		"Burst is 0: must be 1 or more":        Audit(&Ledger{}, AuditConfig{Limits: Limits{N: 1, Period: 1}}),
		"MaxInFlight is -1: must be 0 or more": Audit(&Ledger{}, AuditConfig{Lines: map[string]Limits{"a": {MaxInFlight: -1}}}),
		"N is 0 while Period is 1ns":           Audit(&Ledger{}, AuditConfig{Limits: Limits{Period: 1}}),
		"call 1 costs -1 tokens":               Audit(neg, AuditConfig{}),
		"seq 1: N is -1: must be 1 or more":    Audit(bad, AuditConfig{}),
	} {
		if r.OK() || clauses(r) != strings.TrimSpace(strings.Repeat("input ", len(r.Violations))) || !strings.Contains(r.Err().Error(), want) {
			t.Errorf("got %v, want %q", r.Err(), want)
		}
	}
}

func TestAReportListsEveryViolationAsAnError(t *testing.T) {
	l := &Ledger{}
	for i := range uint64(30) {
		l.Start(i, i, at(0), at(0), 1, 1)
	}
	r := Audit(l, AuditConfig{Limits: Limits{N: 1, Period: time.Second, Burst: 1, MaxInFlight: 30}})
	var v Violation
	if err := r.Err(); !errors.As(err, &v) || v.Clause != "C1" || strings.Count(err.Error(), "C1:") != 30 {
		t.Errorf("%v", err)
	}
	if s := r.String(); strings.Count(s, "C1:") != listed || !strings.Contains(s, "... and 10 more") {
		t.Errorf("%s", s)
	}
	if r.Worst.Starts != 30 || r.Worst.Excess.Cmp(big.NewRat(29, 1)) != 0 || r.PeakWeight != 30 {
		t.Errorf("%+v", r)
	}
	if err := (Report{}).Err(); err != nil {
		t.Error(err)
	}
}

func BenchmarkAudit(b *testing.B) {
	const n = 100_000
	l := &Ledger{}
	for i := range uint64(n) {
		when := Epoch.Add(time.Duration(i) * time.Millisecond)
		l.Join(i, 3*i, when)
		l.Start(i, 3*i+1, when, when, 1, 1)
		l.End(i, 3*i+2, when)
	}
	for b.Loop() {
		if r := Audit(l, AuditConfig{Limits: Limits{N: 1000, Period: time.Second, Burst: 1, MaxInFlight: 1}}); !r.OK() {
			b.Fatal(r)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/call")
}
