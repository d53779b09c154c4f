package throttle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// SnapshotVersion is the version of the JSON that snapshots are written in, and the only one that is read.
const SnapshotVersion = 1

// What a snapshot is of.
const (
	ofLimiter = "limiter"
	ofKeyed   = "keyed"
)

// The JSON of a Snapshot; docs/restarts.md has each field's meaning. Numbers are whole, and may need 64 bits.
type snapshotText struct {
	Of       string      `json:"turnstile"`
	Version  int         `json:"version"`
	Saved    time.Time   `json:"saved"`
	Name     string      `json:"name"`
	PausedNS int64       `json:"paused_ns,omitempty"`
	Quotas   []quotaText `json:"quotas"`
}

type quotaText struct {
	limitText
	spendingText
}

type limitText struct {
	Kind     string `json:"kind"`
	Name     string `json:"name,omitempty"`
	Tokens   int64  `json:"tokens"`
	PeriodNS int64  `json:"period_ns"`
	Burst    int64  `json:"burst,omitempty"`
}

type spendingText struct {
	Missing  uint64    `json:"missing,omitempty"`
	Part     uint64    `json:"missing_part,omitempty"`
	OpenedNS *int64    `json:"opened_ns_ago,omitempty"`
	Used     int64     `json:"used,omitempty"`
	Starts   [][]int64 `json:"starts,omitempty"`
}

// kinds are the words for the kinds of quota; that of Config.Rate is "rate".
var kinds = [...]string{bucketKind: "bucket", windowKind: "at-most", intervalKind: "fixed-window"}

// MarshalJSON returns s as JSON: the same for the same state. It fails if s is empty.
func (s Snapshot) MarshalJSON() ([]byte, error) {
	if s.saved.IsZero() {
		return nil, fmt.Errorf("throttle: the Snapshot is empty; want one that Limiter.Snapshot gave: %w", ErrInvalid)
	}
	text := snapshotText{Of: ofLimiter, Version: SnapshotVersion, Saved: s.saved.UTC(), Name: s.name, PausedNS: s.pause, Quotas: []quotaText{}}
	for i, l := range s.limits {
		text.Quotas = append(text.Quotas, quotaText{l.text(), s.spent[i].text(l)})
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads what MarshalJSON wrote. It is strict: it fails with ErrInvalid, and leaves s as it is, if the version is not
// SnapshotVersion, if a field is unknown, out of its range or not whole, or if a quota is there twice.
func (s *Snapshot) UnmarshalJSON(data []byte) error {
	var text snapshotText
	if err := decode(data, ofLimiter, &text); err != nil {
		return err
	}
	read := Snapshot{saved: text.Saved, name: text.Name, pause: text.PausedNS}
	what := wrongHead(text.Saved, text.PausedNS)
	for i := range text.Quotas {
		q := &text.Quotas[i]
		l, wrong := q.limit()
		spent := spending{}
		if wrong == "" {
			spent, wrong = q.spending(l)
		}
		if wrong != "" && what == "" {
			what = fmt.Sprintf("quotas[%d]: %s", i, wrong)
		}
		read.limits, read.spent = append(read.limits, l), append(read.spent, spent)
	}
	if what == "" {
		what = twice(read.limits)
	}
	if what != "" {
		return wrongText("%s", what)
	}
	*s = read
	return nil
}

func wrongText(format string, args ...any) error {
	return fmt.Errorf("throttle: snapshot: %s: %w", fmt.Sprintf(format, args...), ErrInvalid)
}

// decode reads data, a snapshot of what is named, into text.
func decode(data []byte, of string, text any) error {
	var head struct {
		Of      string `json:"turnstile"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return wrongText("%v", err)
	}
	switch {
	case head.Of != of:
		return wrongText("turnstile is %q; want %q", head.Of, of)
	case head.Version != SnapshotVersion:
		return wrongText("version is %d; want %d, the one that this code writes and reads", head.Version, SnapshotVersion)
	}
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if err := strict.Decode(text); err != nil {
		return wrongText("%v", err)
	}
	return nil
}

func wrongHead(saved time.Time, paused int64) string {
	switch {
	case saved.IsZero():
		return "saved is not set; want the instant of the snapshot, as in 2026-12-07T09:00:00Z"
	case paused < 0:
		return fmt.Sprintf("paused_ns is %d; want 0 or more", paused)
	}
	return ""
}

// twice says which limit is there twice, or nothing.
func twice(all []limit) string {
	rated, names := false, map[string]bool{}
	for i, l := range all {
		if l.rate && rated {
			return fmt.Sprintf("quotas[%d]: kind is \"rate\" a second time; want one", i)
		}
		if l.name != "" && names[l.name] {
			return fmt.Sprintf("quotas[%d]: name is %q a second time; want one of its own", i, l.name)
		}
		rated, names[l.name] = rated || l.rate, true
	}
	return ""
}

func (l limit) text() limitText {
	text := limitText{Kind: kinds[l.kind], Name: l.name, Tokens: l.n, PeriodNS: l.period, Burst: l.burst}
	if l.rate {
		text.Kind = "rate"
	}
	return text
}

// limit returns the limit that the text tells, or says what is wrong with it.
func (t *limitText) limit() (l limit, what string) {
	l = limit{name: t.Name, n: t.Tokens, period: t.PeriodNS, burst: t.Burst}
	known := t.Kind == "rate"
	l.rate = known
	for kind, word := range kinds {
		if t.Kind == word {
			l.kind, known = quotaKind(kind), true
		}
	}
	switch {
	case !known:
		return l, fmt.Sprintf(`kind is %q; want "rate", "bucket", "at-most" or "fixed-window"`, t.Kind)
	case l.rate && l.name != "":
		return l, fmt.Sprintf(`name is %q, and kind is "rate"; want none`, l.name)
	case l.kind != bucketKind && l.burst != 0:
		return l, fmt.Sprintf("burst is %d, and kind is %q; want none", l.burst, t.Kind)
	}
	return l, l.quota().wrong()
}

func (s *spending) text(l limit) spendingText {
	var t spendingText
	if l.kind == bucketKind {
		t.Missing, t.Part = s.missing.div(l.parts())
	}
	if s.open {
		age := s.age
		t.OpenedNS, t.Used = &age, s.used
	}
	for _, x := range s.starts {
		t.Starts = append(t.Starts, []int64{x.at, x.k})
	}
	return t
}

// parts is how many parts a token of the bucket has: its period in nanoseconds, once tokens and period are reduced.
func (l limit) parts() uint64 { return uint64(l.period) / gcd(uint64(l.n), uint64(l.period)) }

// spending returns what the text says was spent of l, or what is wrong with it.
func (t *spendingText) spending(l limit) (s spending, what string) {
	switch {
	case l.kind != bucketKind && (t.Missing != 0 || t.Part != 0):
		return s, fmt.Sprintf("missing is set, and kind is %q; want none", kinds[l.kind])
	case l.kind != intervalKind && (t.OpenedNS != nil || t.Used != 0):
		return s, "opened_ns_ago or used is set; want them with the kind \"fixed-window\" alone"
	case l.kind != windowKind && len(t.Starts) != 0:
		return s, "starts are set; want them with the kind \"at-most\" alone"
	}
	switch l.kind {
	case windowKind:
		return t.startsOf(l)
	case intervalKind:
		switch {
		case t.OpenedNS == nil && t.Used != 0:
			return s, fmt.Sprintf("used is %d, and opened_ns_ago is not set; want both or neither", t.Used)
		case t.OpenedNS == nil:
			return s, ""
		case *t.OpenedNS < 0 || *t.OpenedNS >= l.period || *t.OpenedNS > longest:
			return s, fmt.Sprintf("opened_ns_ago is %d; want 0 to %d, within the period", *t.OpenedNS, min(l.period-1, longest))
		case t.Used < 0:
			return s, fmt.Sprintf("used is %d; want 0 or more", t.Used)
		}
		return spending{open: true, age: *t.OpenedNS, used: t.Used}, ""
	}
	most, parts := uint64(l.burst)+MaxBurst, l.parts()
	switch {
	case t.Missing > most:
		return s, fmt.Sprintf("missing is %d; want at most %d, the burst and the largest debt", t.Missing, most)
	case t.Part >= parts:
		return s, fmt.Sprintf("missing_part is %d; want 0 to %d, since a token has %d parts", t.Part, parts-1, parts)
	}
	return spending{missing: mul(t.Missing, parts).add(u128{lo: t.Part})}, ""
}

func (t *spendingText) startsOf(l limit) (s spending, what string) {
	last, sum := min(l.period-1, longest)+1, int64(0)
	for i, pair := range t.Starts {
		switch {
		case len(pair) != 2:
			return s, fmt.Sprintf("starts[%d] has %d numbers; want 2, how long ago in ns and the cost", i, len(pair))
		case pair[0] < 0 || pair[0] >= last:
			return s, fmt.Sprintf("starts[%d] was %d ns ago; want 0 to %d, within the period, and the oldest first", i, pair[0], last-1)
		case pair[1] < 1 || pair[1] > math.MaxInt64-sum:
			return s, fmt.Sprintf("starts[%d] has the cost %d; want 1 or more, and at most 2^63-1 in all", i, pair[1])
		}
		last, sum = pair[0], sum+pair[1]
		s.starts = append(s.starts, spent{pair[0], pair[1]})
	}
	return s, ""
}
