package throttlehttp

import (
	"fmt"
	"time"

	"github.com/dunglas/httpsfv"
)

// The fields by which a server tells its limits, as draft-ietf-httpapi-ratelimit-headers-10 has them: lists of structured-field Items (RFC 9651)
// whose values are Strings.
//
//	RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400
//	RateLimit: "burst";r=50;t=30
const (
	// PolicyField is the name of the field that lists what is allowed, for ParsePolicies and FormatPolicies.
	PolicyField = "RateLimit-Policy"
	// LimitField is the name of the field that lists what is left, for ParseLimits and FormatLimits.
	LimitField = "RateLimit"
)

// The units of a quota that the draft registers.
const (
	Requests           = "requests"
	ContentBytes       = "content-bytes"
	ConcurrentRequests = "concurrent-requests"
)

// maxField is the largest Integer of a structured field.
const maxField = 999_999_999_999_999

// A Policy is a member of RateLimit-Policy: what is allowed.
type Policy struct {
	Name      string        // printable ASCII; a Limit of the same name tells what is left of it
	Quota     int64         // q: how much is allowed, in Unit: 0 to 999,999,999,999,999
	Unit      string        // qu: one of Requests, ContentBytes, ConcurrentRequests, or another; "" is Requests
	Window    time.Duration // w: in what time it is allowed, in whole seconds; 0 is not told
	Partition []byte        // pk: for whom; nil is not told
}

// A Limit is a member of RateLimit: what is left of a policy.
type Limit struct {
	Name      string        // the Name of its Policy
	Remaining int64         // r: how much may still be spent: 0 to 999,999,999,999,999
	Reset     time.Duration // t: in how long the remaining grows again, if HasReset; written in whole seconds, rounded up
	HasReset  bool          // whether t is told
	Partition []byte        // pk: for whom; nil is not told
}

// ParsePolicies reads the values of a message's RateLimit-Policy fields. It returns an error if any member is malformed: then all are to be
// ignored, says the draft. Names may be bare tokens too, as in its appendix; parameters that it does not know are passed over.
func ParsePolicies(values []string) ([]Policy, error) {
	var all []Policy
	err := members(PolicyField, values, func(name string, p params) (err error) {
		policy := Policy{Name: name}
		if policy.Quota, _, err = p.integer("q", true, 0); err != nil {
			return err
		}
		window, _, err := p.integer("w", false, 1)
		if err != nil {
			return err
		}
		policy.Window = seconds(window)
		if policy.Unit, err = p.text("qu"); err != nil {
			return err
		}
		if policy.Partition, err = p.bytes("pk"); err != nil {
			return err
		}
		all = append(all, policy)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// ParseLimits reads the values of a message's RateLimit fields, with the errors and the lenience of ParsePolicies.
func ParseLimits(values []string) ([]Limit, error) {
	var all []Limit
	err := members(LimitField, values, func(name string, p params) (err error) {
		limit := Limit{Name: name}
		if limit.Remaining, _, err = p.integer("r", true, 0); err != nil {
			return err
		}
		var reset int64
		if reset, limit.HasReset, err = p.integer("t", false, 0); err != nil {
			return err
		}
		limit.Reset = seconds(reset)
		if limit.Partition, err = p.bytes("pk"); err != nil {
			return err
		}
		all = append(all, limit)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// FormatPolicies returns the value of a RateLimit-Policy field, or an error that names what is outside its range.
func FormatPolicies(policies []Policy) (string, error) {
	list := make(httpsfv.List, 0, len(policies))
	for _, p := range policies {
		item := httpsfv.NewItem(p.Name)
		if err := add(item, "q", p.Quota, p.Name, "Quota"); err != nil {
			return "", err
		}
		switch {
		case p.Window < 0 || p.Window%time.Second != 0:
			return "", fmt.Errorf("throttlehttp: policy %q: Window is %v; want whole seconds, or 0 for none", p.Name, p.Window)
		case p.Window > 0:
			item.Params.Add("w", int64(p.Window/time.Second))
		}
		if p.Unit != "" {
			item.Params.Add("qu", p.Unit)
		}
		if p.Partition != nil {
			item.Params.Add("pk", p.Partition)
		}
		list = append(list, item)
	}
	return format(PolicyField, list)
}

// FormatLimits returns the value of a RateLimit field, or an error that names what is outside its range.
func FormatLimits(limits []Limit) (string, error) {
	list := make(httpsfv.List, 0, len(limits))
	for _, l := range limits {
		item := httpsfv.NewItem(l.Name)
		if err := add(item, "r", l.Remaining, l.Name, "Remaining"); err != nil {
			return "", err
		}
		if l.HasReset {
			if l.Reset < 0 {
				return "", fmt.Errorf("throttlehttp: limit %q: Reset is %v; want 0 or more", l.Name, l.Reset)
			}
			item.Params.Add("t", wholeSeconds(l.Reset))
		}
		if l.Partition != nil {
			item.Params.Add("pk", l.Partition)
		}
		list = append(list, item)
	}
	return format(LimitField, list)
}

// members calls f with each member of the field, and returns the first error.
func members(field string, values []string, f func(name string, p params) error) error {
	list, err := httpsfv.UnmarshalList(values)
	if err != nil {
		return fmt.Errorf("throttlehttp: %s is not a list: %w", field, err)
	}
	for _, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok {
			return fmt.Errorf("throttlehttp: %s has an inner list; want Items", field)
		}
		var name string
		switch v := item.Value.(type) {
		case string:
			name = v
		case httpsfv.Token:
			name = string(v)
		default:
			return fmt.Errorf("throttlehttp: %s has a member that is a %T; want a String", field, v)
		}
		if err := f(name, params{item.Params}); err != nil {
			return fmt.Errorf("throttlehttp: %s: %q: %w", field, name, err)
		}
	}
	return nil
}

// params are a member's parameters.
type params struct{ *httpsfv.Params }

// integer returns the parameter key, and whether it is there, or an error if it must be and is not, or is below least.
func (p params) integer(key string, must bool, least int64) (n int64, there bool, err error) {
	v, there := p.Get(key)
	if !there && !must {
		return 0, false, nil
	}
	if n, ok := v.(int64); ok && n >= least {
		return n, true, nil
	}
	if !there {
		return 0, false, fmt.Errorf("%s is missing", key)
	}
	return 0, false, fmt.Errorf("%s is %v; want an Integer of %d or more", key, v, least)
}

// text returns the parameter key, "" if it is not there, or an error if it is not a String.
func (p params) text(key string) (string, error) {
	switch v, _ := p.Get(key); v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case httpsfv.Token:
		return string(v), nil
	default:
		return "", fmt.Errorf("%s is %v; want a String", key, v)
	}
}

// bytes returns the parameter key, nil if it is not there, or an error if it is not a Byte Sequence.
func (p params) bytes(key string) ([]byte, error) {
	switch v, _ := p.Get(key); v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	default:
		return nil, fmt.Errorf("%s is %v; want a Byte Sequence", key, v)
	}
}

func add(item httpsfv.Item, key string, n int64, name, field string) error {
	if n < 0 || n > maxField {
		return fmt.Errorf("throttlehttp: %q: %s is %d; want 0 to %d", name, field, n, int64(maxField))
	}
	item.Params.Add(key, n)
	return nil
}

func format(field string, list httpsfv.List) (string, error) {
	value, err := httpsfv.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("throttlehttp: %s: %w; want names and units of printable ASCII", field, err)
	}
	return value, nil
}

// seconds returns n seconds, or the longest Duration if that is too short. n is not below 0.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	if n > most {
		return 1<<63 - 1
	}
	return time.Duration(n) * time.Second
}

// wholeSeconds returns d in seconds, rounded up: whoever comes back after that long does not come too early. d is not below 0.
func wholeSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}
