package throttle

import "fmt"

// noLimit is the text of the zero Rate and the zero Quota: a limit is off only where somebody said so.
const noLimit = "none"

// maxShown is how much of a wrong text an error shows.
const maxShown = 64

// shown returns s as an error shows it.
func shown(s string) string {
	if len(s) > maxShown {
		return fmt.Sprintf("%q...", s[:maxShown])
	}
	return fmt.Sprintf("%q", s)
}

// MarshalText returns r as UnmarshalText reads it: the text of String, or "none" for the zero Rate. It fails with
// ErrInvalid if r is no rate.
func (r Rate) MarshalText() ([]byte, error) {
	if r.IsZero() {
		return []byte(noLimit), nil
	}
	if what := r.wrong(); what != "" {
		return nil, fmt.Errorf("throttle: %s: %w", what, ErrInvalid)
	}
	return []byte(r.String()), nil
}

// UnmarshalText reads what ParseRate reads, and "none" as the zero Rate: no limit. An empty text is an error. If it fails, r stays as it is.
func (r *Rate) UnmarshalText(text []byte) error {
	if string(text) == noLimit {
		*r = Rate{}
		return nil
	}
	read, err := ParseRate(string(text))
	if err == nil {
		*r = read
	}
	return err
}

// Set is UnmarshalText, which makes *Rate a flag.Value.
func (r *Rate) Set(text string) error { return r.UnmarshalText([]byte(text)) }

// MarshalText returns q in the shortest text that ParseQuota reads as q, or "none" for the zero Quota. It fails with ErrInvalid if q is no
// quota, and for an AtMost or FixedWindow whose Rate and Burst were changed to disagree.
func (q Quota) MarshalText() ([]byte, error) {
	if q == (Quota{}) {
		return []byte(noLimit), nil
	}
	text, what := q.text()
	if what != "" {
		return nil, fmt.Errorf("throttle: quota: %s: %w", what, ErrInvalid)
	}
	return []byte(text), nil
}

// UnmarshalText reads what ParseQuota reads, and "none" as the zero Quota. An empty text is an error. If it fails, q stays as it is.
func (q *Quota) UnmarshalText(text []byte) error {
	if string(text) == noLimit {
		*q = Quota{}
		return nil
	}
	read, err := ParseQuota(string(text))
	if err == nil {
		*q = read
	}
	return err
}

// Set is UnmarshalText, which makes *Quota a flag.Value.
func (q *Quota) Set(text string) error { return q.UnmarshalText([]byte(text)) }
