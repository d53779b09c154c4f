package throttle

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// quotaForm is what an error of ParseQuota shows as right.
const quotaForm = `want a form such as 10/s burst 20, at most 100 in 1m, or 1000 each 1d, perhaps with a name before it, as in requests: 10/s`

// ParseQuota reads a quota:
//
//	quota  = [ name ":" ] ( bucket | window | fixed )
//	bucket = rate [ "burst" count ]   10/s burst 20   a rate, as ParseRate reads it; without a burst it is 1
//	window = "at most" count ( "in" | "per" | "/" ) time   at most 100 in 1m   AtMost
//	fixed  = count "each" time [ "from" instant ]   1000 each 1d   FixedWindow, AlignedTo an instant in RFC 3339
//	name   = letters, digits, ".", "_" or "-", or a quoted Go string
//
// A count is a number with perhaps a suffix k, M or G, and whole; a time is one of ParseRate, of a fixed length: a minute is
// 60 s and a day 24 hours. The cost is linear in the length of the text. All errors are ErrInvalid.
func ParseQuota(s string) (Quota, error) {
	name, body, ok := cutName(strings.TrimSpace(s))
	if !ok {
		return Quota{}, fmt.Errorf("throttle: quota %s: its name is not a quoted string and a colon; %s: %w", shown(s), quotaForm, ErrInvalid)
	}
	q, what := parseBody(body)
	if what == "" {
		what = q.wrong()
	}
	if what != "" {
		return Quota{}, fmt.Errorf("throttle: quota %s: %s: %w", shown(s), what, ErrInvalid)
	}
	q.Name = name
	return q, nil
}

// cutName takes the name, and the colon, from the front of a quota's text.
func cutName(s string) (name, body string, ok bool) {
	if strings.HasPrefix(s, `"`) {
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", "", false
		}
		if name, err = strconv.Unquote(quoted); err != nil || name == "" {
			return "", "", false
		}
		body, ok = strings.CutPrefix(strings.TrimSpace(s[len(quoted):]), ":")
		return name, strings.TrimSpace(body), ok
	}
	name, body, found := strings.Cut(s, ":")
	if name = strings.TrimSpace(name); !found || !isWord(name) {
		return "", s, true // a colon further on is that of an instant
	}
	return name, strings.TrimSpace(body), true
}

// isWord reports whether a name needs no quotes.
func isWord(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return s != ""
}

// parseBody reads a quota without its name, or says what is wrong.
func parseBody(s string) (q Quota, what string) {
	if rest, ok := strings.CutPrefix(s, "at most "); ok {
		number, per, found := strings.Cut(rest, "/")
		if !found {
			number, per, found = strings.Cut(rest, " in ")
		}
		if !found {
			number, per, found = strings.Cut(rest, " per ")
		}
		n, period, what := parseCount(number, per, found)
		return AtMost(n, period), what
	}
	if number, rest, ok := strings.Cut(s, " each "); ok {
		per, from, aligned := strings.Cut(rest, " from ")
		n, period, what := parseCount(number, per, true)
		q = FixedWindow(n, period)
		if aligned && what == "" {
			at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(from))
			if err != nil {
				return q, fmt.Sprintf("%s is not an instant; want one such as 2026-01-01T00:00:00Z", shown(from))
			}
			q = q.AlignedTo(at)
		}
		return q, what
	}
	rate, burst, given := strings.Cut(s, " burst ")
	q.Burst = 1
	if given {
		var scale int64
		var ok bool
		if q.Burst, scale, ok = parseDecimal(strings.TrimSpace(burst)); !ok || scale != 1 {
			return q, fmt.Sprintf("its burst is %s; want a whole number, 1 to %d (2^62)", shown(burst), int64(MaxBurst))
		}
	}
	q.Rate, what = parseRate(rate)
	return q, what
}

// parseCount reads "n" and "time" as a window has them.
func parseCount(number, per string, found bool) (n int64, period time.Duration, what string) {
	if !found {
		return 0, 0, "has no time; " + quotaForm
	}
	n, scale, ok := parseDecimal(strings.TrimSpace(number))
	if !ok || scale != 1 {
		return 0, 0, fmt.Sprintf("%s is not a whole number above zero; %s", shown(strings.TrimSpace(number)), quotaForm)
	}
	if period, ok = parsePeriod(strings.TrimSpace(per)); !ok {
		return 0, 0, fmt.Sprintf("%s is not a time above zero; %s", shown(strings.TrimSpace(per)), quotaForm)
	}
	return n, period, ""
}

// text returns q as ParseQuota reads it, or says what is wrong with it.
func (q Quota) text() (text, what string) {
	if what := q.wrong(); what != "" {
		return "", what
	}
	if q.kind != bucketKind && q.Rate.N != q.Burst {
		return "", fmt.Sprintf("Rate is %v and Burst %d; want the same number in both", q.Rate, q.Burst)
	}
	switch q.kind {
	case windowKind:
		text = fmt.Sprintf("at most %d in %s", q.Burst, shortPeriod(q.Rate.Period))
	case intervalKind:
		text = fmt.Sprintf("%d each %s", q.Burst, shortPeriod(q.Rate.Period))
		if q.aligned {
			if y := q.align.Year(); y < 0 || y > 9999 {
				return "", fmt.Sprintf("it is aligned to the year %d; want 0 to 9999", y)
			}
			text += " from " + q.align.Format(time.RFC3339Nano)
		}
	default:
		text = q.Rate.String()
		if q.Burst != 1 {
			text += " burst " + strconv.FormatInt(q.Burst, 10)
		}
	}
	switch {
	case q.Name == "":
	case isWord(q.Name):
		text = q.Name + ": " + text
	default:
		text = strconv.Quote(q.Name) + ": " + text
	}
	return text, ""
}

// shortPeriod returns the shortest text of d that parsePeriod reads.
func shortPeriod(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
