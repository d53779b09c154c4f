package throttle_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

const day = 24 * time.Hour

func TestParseRate_ReadsRightTextsExactly(t *testing.T) {
	for _, c := range []struct {
		text string
		want throttle.Rate
	}{
		{"10/s", throttle.PerSecond(10)},
		{"1/ns", throttle.Per(1, 1)},
		{"3/us", throttle.Per(3, time.Microsecond)},
		{"3/µs", throttle.Per(3, time.Microsecond)},
		{"3/ms", throttle.Per(3, time.Millisecond)},
		{"7/min", throttle.PerMinute(7)},
		{"7/m", throttle.PerMinute(7)},
		{"7/h", throttle.PerHour(7)},
		{"7/d", throttle.PerDay(7)},
		{"5/15s", throttle.Per(5, 15*time.Second)},
		{"5/1m30s", throttle.Per(5, 90*time.Second)},
		{"5/1.5h", throttle.Per(5, 90*time.Minute)},
		{"5/500ms", throttle.Per(5, 500*time.Millisecond)},
		{"1/7d", throttle.Per(1, 7*day)},
		{" 10 / s ", throttle.PerSecond(10)},
		// words
		{"100 per minute", throttle.PerMinute(100)},
		{"100 per hour", throttle.PerHour(100)},
		{"100 per day", throttle.PerDay(100)},
		{"100/second", throttle.PerSecond(100)},
		{"2 per 7 days", throttle.Per(2, 7*day)},
		{"2 per 3 weeks", throttle.Per(2, 21*day)},
		{"2 per 15 seconds", throttle.Per(2, 15*time.Second)},
		{"2/10 mins", throttle.Per(2, 10*time.Minute)},
		{"1k per hour", throttle.PerHour(1000)},
		// decimals, kept exactly
		{"0.0167/s", throttle.Per(167, 10_000*time.Second)},
		{"0.5/min", throttle.Per(1, 2*time.Minute)},
		{"1.50/s", throttle.Per(3, 2*time.Second)},
		{"2.000/s", throttle.PerSecond(2)},
		{"0.1/s", throttle.Per(1, 10*time.Second)},
		{"0.333/s", throttle.Per(333, 1000*time.Second)},
		{"0.25/15s", throttle.Per(1, time.Minute)},
		{"0.000000001/s", throttle.Per(1, 1e9*time.Second)},
		{"0.000000000000000001/ns", throttle.Per(1, 1e18)},
		// suffixes
		{"1k/s", throttle.PerSecond(1000)},
		{"1K/h", throttle.PerHour(1000)},
		{"2.5k/s", throttle.PerSecond(2500)},
		{"1.0005k/s", throttle.Per(2001, 2*time.Second)},
		{"3M/d", throttle.PerDay(3e6)},
		{"1G/s", throttle.PerSecond(1e9)},
		// the ends of the range
		{"1000000000/s", throttle.PerSecond(1e9)},
		{"1/106751d", throttle.Per(1, 106751*day)},
		{"1/9223372036854775807ns", throttle.Per(1, math.MaxInt64)},
		{"9223372036854775807/9223372036854775807ns", throttle.Per(math.MaxInt64, math.MaxInt64)},
	} {
		if got, err := throttle.ParseRate(c.text); err != nil || got != c.want {
			t.Errorf("%q is read as %v (%+v), %v; want %v", c.text, got, got, err, c.want)
		}
	}
}

func TestParseRate_RefusesWrongTextsWithTheRightForm(t *testing.T) {
	const form = "want a number, \"/\" or \" per \", and a unit or duration, as in 10/s, 5/15s, 0.5/min or 100 per hour"
	for says, texts := range map[string][]string{
		"has no unit; " + form: {"10", "", " ", "0", "s", "NaN", "10s", "10 s", "10 per", "10 every s", "10pers", "10 PER s"},
		"is not a positive number of tokens; " + form: {
			"NaN/s", "nan/s", "Inf/s", "+Inf/s", "-inf/s", "infinity per s", "1e3/s", "1E3/s", "0x10/s", "1_000/s", "1,000/s",
			"-1/s", "+1/s", "0/s", "0.0/s", "0.000/s", "-0/s", "0k/s", ".5/s", "5./s", "1.2.3/s", "1..2/s", "./s", "1 0/s",
			"/s", " /s", "k/s", "ten/s", "1kk/s", "1T/s", "1m/s", "½/s", "１０/s", "1 k/s",
			"9223372036854775808/s", "99999999999999999999999/s", "9223372036854775807k/s", "9300000000G/s",
			"0.0000000000000000001/ns",
		},
		"is not a time above zero; " + form: {
			"10/0s", "10/0", "10/", "10/ ", "10/-1s", "10/-s", "10/5", "10/ss", "10/s/s", "10//s", "10/fortnight", "10/1e3s",
			"10/NaN", "10/inf", "10/infs", "10/0.0s", "10/00h", "10 per per s", "10/S", "10/1 2 s", "10/9223372037s", "10/106752d",
			"10/99999999999999999999s", "10/9223372036854775808ns", "10/300000000h",
		},
		"beyond 292 years":   {"0.000000001/11s", "0.000000000000000001/s", "0.01/100000d"},
		"above 1000000000/s": {"1000000001/s", "2/ns", "1.1G/s", "9223372036854775807/s", "1001/us", "1.000000001/ns"},
	} {
		for _, text := range texts {
			got, err := throttle.ParseRate(text)
			if err == nil || got != (throttle.Rate{}) {
				t.Errorf("%q is read as %v, %v; want an error", text, got, err)
				continue
			}
			mustSay(t, err, throttle.ErrInvalid, says)
			if !strings.HasPrefix(err.Error(), `throttle: rate "`+text+`": `) {
				t.Errorf("the error %q does not begin with the text that is wrong", err)
			}
		}
	}
}

func TestRate_StringSaysWhatParseRateReads(t *testing.T) {
	for _, c := range []struct {
		rate throttle.Rate
		want string
	}{
		{throttle.PerSecond(10), "10/s"},
		{throttle.PerMinute(10), "10/min"},
		{throttle.PerHour(10), "10/h"},
		{throttle.PerDay(10), "10/d"},
		{throttle.Per(5, 15*time.Second), "5/15s"},
		{throttle.Per(167, 10_000*time.Second), "167/2h46m40s"},
		{throttle.Every(1500 * time.Microsecond), "1/1.5ms"},
		{throttle.Every(2 * day), "1/2d"},
		{throttle.Per(1, 1), "1/1ns"},
		{throttle.Per(2, 2*time.Second), "2/2s"}, // as given, not reduced
	} {
		if got := c.rate.String(); got != c.want {
			t.Errorf("%+v says %q; want %q", c.rate, got, c.want)
		}
	}
	// What is no rate has a text too, for errors.
	for _, r := range []throttle.Rate{{}, {N: -1, Period: -1}, {N: math.MinInt64, Period: math.MinInt64}} {
		if _, err := throttle.ParseRate(r.String()); err == nil {
			t.Errorf("%q, of %+v, is read as a rate", r, r)
		}
	}
	if !(throttle.Rate{}).IsZero() || throttle.PerSecond(0).IsZero() || throttle.Per(1, 0).IsZero() {
		t.Error("IsZero holds for the zero Rate alone")
	}
}

func TestRate_StringAndParseRateAreInverse(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	spread := func(most int64) int64 { // 1 to most, evenly over the orders of magnitude
		return 1 + random.Int64N(max(1, most>>random.IntN(63)))
	}
	for range 20_000 {
		period := time.Duration(spread(math.MaxInt64))
		if random.IntN(2) == 0 {
			units := []time.Duration{time.Microsecond, time.Millisecond, time.Second, time.Minute, time.Hour, day}
			unit := units[random.IntN(len(units))]
			period = time.Duration(spread(min(int64(math.MaxInt64/unit), 10_000))) * unit
		}
		r := throttle.Per(spread(int64(period)), period)
		if got, err := throttle.ParseRate(r.String()); err != nil || got != r {
			t.Fatalf("%q, of %+v, is read as %+v, %v", r, r, got, err)
		}
	}
}

// Whatever the text, ParseRate says no or gives a rate that a limiter takes and whose text reads the same.
func TestParseRate_GivesUsableRatesOnly(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	parts := strings.Split("0 1 9 10 167 . / / / per s ms min h d days week k M G - + e E 1e3 NaN inf 0s 15s ns µ", " ")
	parts = append(parts, "10/", "0.5/", "1k/", "2.25M per ", "7d", "1h30m", " ", " per ", "\x00", "\xff", "9223372036854775807")
	read := 0
	for range 50_000 {
		var text strings.Builder
		for range 1 + random.IntN(5) {
			text.WriteString(parts[random.IntN(len(parts))])
		}
		r, err := throttle.ParseRate(text.String())
		if err != nil {
			mustSay(t, err, throttle.ErrInvalid)
			continue
		}
		read++
		if _, err := throttle.New(throttle.Config{Rate: r, Burst: 1}); err != nil {
			t.Fatalf("%q is read as %+v, which a limiter refuses: %v", text.String(), r, err)
		}
		if again, err := throttle.ParseRate(r.String()); err != nil || again != r {
			t.Fatalf("%q is read as %v, which is read as %v, %v", text.String(), r, again, err)
		}
	}
	if read < 100 {
		t.Fatalf("%d of the texts were rates; want enough of them to say something", read)
	}
}
