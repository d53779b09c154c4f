package throttle

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Rate is N tokens per Period, exactly: it is never turned into a float.
// Whole numbers keep rates such as 167 per 10,000 s from drifting.
//
// The zero Rate means "no rate limit" in a Config. Otherwise N is 1 or more,
// Period is 1 ns or more, and the rate is at most one token per nanosecond
// (1e9/s). There is no slowest rate: 1 per 100 years is exact too.
type Rate struct {
	N      int64
	Period time.Duration
}

// Per returns the rate of n tokens per period.
func Per(n int64, period time.Duration) Rate { return Rate{n, period} }

// PerSecond returns the rate of n tokens a second.
func PerSecond(n int64) Rate { return Rate{n, time.Second} }

// PerMinute returns the rate of n tokens a minute.
func PerMinute(n int64) Rate { return Rate{n, time.Minute} }

// PerHour returns the rate of n tokens an hour.
func PerHour(n int64) Rate { return Rate{n, time.Hour} }

// PerDay returns the rate of n tokens per 24 hours.
func PerDay(n int64) Rate { return Rate{n, 24 * time.Hour} }

// Every returns the rate of one token per d.
func Every(d time.Duration) Rate { return Rate{1, d} }

// IsZero reports whether r is the zero Rate, which stands for "no rate limit".
func (r Rate) IsZero() bool { return r == Rate{} }

// wrong says what is wrong with r as the rate of a quota, or nothing.
func (r Rate) wrong() string {
	switch {
	case r.N < 1:
		return fmt.Sprintf("Rate is %v: its N is %d; want 1 or more", r, r.N)
	case r.Period < 1:
		return fmt.Sprintf("Rate is %v: its Period is %v; want 1ns or more", r, r.Period)
	case r.N > int64(r.Period):
		return fmt.Sprintf("Rate is %v, which is above 1000000000/s; count in larger units", r)
	}
	return ""
}

// String returns r as ParseRate reads it: "10/s", "5/15s", "167/2h46m40s".
func (r Rate) String() string {
	var per string
	switch r.Period {
	case time.Second:
		per = "s"
	case time.Minute:
		per = "min"
	case time.Hour:
		per = "h"
	case 24 * time.Hour:
		per = "d"
	default:
		per = r.Period.String()
		if r.Period > 0 {
			per = shortPeriod(r.Period)
		}
	}
	return strconv.FormatInt(r.N, 10) + "/" + per
}

// rateForm is what an error of ParseRate shows as right.
const rateForm = `want a number, "/" or " per ", and a unit or duration, as in 10/s, 5/15s, 0.5/min or 100 per hour`

// ParseRate reads a rate: a number of tokens, "/" or " per ", and a time.
//
// The number may have decimals, which are kept exactly (0.0167/s is 167 per
// 10,000 s), and a suffix k, M or G for thousands, millions or milliards. The time
// is a unit (ns, us, ms, s, min, h, d, or its English name), a count and a unit
// ("15s", "7 days"), or what time.ParseDuration reads ("1m30s"); "m" is a minute.
// A bare number is an error: a rate without a unit is a guess.
func ParseRate(s string) (Rate, error) {
	r, what := parseRate(s)
	if what != "" {
		return Rate{}, fmt.Errorf("throttle: rate %s: %s: %w", shown(s), what, ErrInvalid)
	}
	return r, nil
}

// parseRate reads a rate, or says what is wrong.
func parseRate(s string) (Rate, string) {
	number, per, found := strings.Cut(s, "/")
	if !found {
		number, per, found = strings.Cut(s, " per ")
	}
	if !found {
		return Rate{}, "has no unit; " + rateForm
	}
	n, scale, ok := parseDecimal(strings.TrimSpace(number))
	if !ok {
		return Rate{}, fmt.Sprintf("%s is not a positive number of tokens; %s", shown(strings.TrimSpace(number)), rateForm)
	}
	period, ok := parsePeriod(strings.TrimSpace(per))
	if !ok {
		return Rate{}, fmt.Sprintf("%s is not a time above zero; %s", shown(strings.TrimSpace(per)), rateForm)
	}
	if int64(period) > math.MaxInt64/scale {
		return Rate{}, "its period, once the decimals are gone, is beyond 292 years"
	}
	r := Rate{n, period * time.Duration(scale)}
	return r, r.wrong()
}

// parseDecimal reads digits, an optional fraction and an optional suffix as
// n/scale, in lowest terms where there was a fraction.
func parseDecimal(s string) (n, scale int64, ok bool) {
	unit := int64(1)
	if s != "" {
		switch s[len(s)-1] {
		case 'k', 'K':
			unit = 1e3
		case 'M':
			unit = 1e6
		case 'G':
			unit = 1e9
		}
		if unit > 1 {
			s = s[:len(s)-1]
		}
	}
	whole, fraction, dotted := strings.Cut(s, ".")
	if dotted && (whole == "" || fraction == "") {
		return 0, 0, false
	}
	fraction = strings.TrimRight(fraction, "0")
	digits := whole + fraction
	if strings.Trim(digits, "0123456789") != "" || len(fraction) > 18 {
		return 0, 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n == 0 {
		return 0, 0, false
	}
	scale = 1
	for range fraction {
		scale *= 10
	}
	g := int64(gcd(uint64(unit), uint64(scale)))
	unit, scale = unit/g, scale/g
	if g = int64(gcd(uint64(n), uint64(scale))); g > 1 {
		n, scale = n/g, scale/g
	}
	if n > math.MaxInt64/unit {
		return 0, 0, false
	}
	return n * unit, scale, true
}

// units are the words that parsePeriod takes beside those of time.ParseDuration.
var units = map[string]time.Duration{
	"ns": time.Nanosecond, "nanosecond": time.Nanosecond,
	"us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "microsecond": time.Microsecond,
	"ms": time.Millisecond, "millisecond": time.Millisecond,
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour,
	"week": 7 * 24 * time.Hour,
}

// parsePeriod reads a unit, a count and a unit, or a Go duration; above zero.
func parsePeriod(s string) (time.Duration, bool) {
	count := int64(1)
	word := strings.TrimLeft(s, "0123456789")
	if digits := s[:len(s)-len(word)]; digits != "" {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n == 0 {
			return 0, false
		}
		count = n
	}
	word = strings.TrimSpace(word)
	unit, known := units[word]
	if !known && len(word) > 3 { // "seconds", but not "ss"
		unit, known = units[strings.TrimSuffix(word, "s")]
	}
	if known {
		return time.Duration(count) * unit, count <= math.MaxInt64/int64(unit)
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d > 0
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
