package throttlehttp_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/throttlehttp"
)

func TestFields_PoliciesAreReadAsTheDraftHasThem(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   []throttlehttp.Policy
	}{
		{nil, nil},
		{[]string{`"burst";q=100;w=60,"daily";q=1000;w=86400`}, []throttlehttp.Policy{
			{Name: "burst", Quota: 100, Window: time.Minute}, {Name: "daily", Quota: 1000, Window: 24 * time.Hour}}},
		{[]string{`"burst";q=100;w=60`, `"daily";q=1000`}, []throttlehttp.Policy{ // two lines are one list
			{Name: "burst", Quota: 100, Window: time.Minute}, {Name: "daily", Quota: 1000}}},
		{[]string{`"peruser";q=100;w=60;pk=:cHVyZQ==:`}, []throttlehttp.Policy{{Name: "peruser", Quota: 100, Window: time.Minute, Partition: []byte("pure")}}},
		{[]string{`"c";q=5;qu="concurrent-requests"`}, []throttlehttp.Policy{{Name: "c", Quota: 5, Unit: throttlehttp.ConcurrentRequests}}},
		{[]string{`default;q=10;w=1;comment="x"`}, []throttlehttp.Policy{{Name: "default", Quota: 10, Window: time.Second}}}, // a bare token; an unknown parameter
		{[]string{`"x";q=1;w=999999999999999`}, []throttlehttp.Policy{{Name: "x", Quota: 1, Window: math.MaxInt64}}},         // saturates
	} {
		got, err := throttlehttp.ParsePolicies(c.values)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %+v, %v; want %+v", c.values, got, err, c.want)
		}
	}
}

func TestFields_LimitsAreReadAsTheDraftHasThem(t *testing.T) {
	got, err := throttlehttp.ParseLimits([]string{`"default";r=50;t=30, "daily";r=0`, `hour;r=7;t=0;pk=:YQ==:`})
	want := []throttlehttp.Limit{{Name: "default", Remaining: 50, Reset: 30 * time.Second, HasReset: true}, {Name: "daily"},
		{Name: "hour", Remaining: 7, HasReset: true, Partition: []byte("a")}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestFields_MalformedOnesAreErrorsThatSayWhat(t *testing.T) {
	for value, what := range map[string]string{
		`"a"`: "q is missing", `"a";q`: "q is true", `"a";q=-1`: "q is -1", `"a";q=1.5`: "q is 1.5", `"a";q="5"`: "q is 5", `"a";q=1;w=0`: "w is 0",
		`"a";q=1;w=1.5`: "w is 1.5", `"a";q=1;pk="x"`: "pk is x", `"a";q=1;qu=5`: "qu is 5", `5;q=1`: "want a String", `("a");q=1`: "inner list",
		`"a";q=1,`: "not a list", `limit=10, remaining=5`: "not a list", `"a";q=1000000000000000`: "not a list", `"a;q=1`: "not a list",
		`"good";q=1, "bad"`: "q is missing", // one bad member spoils all
	} {
		got, err := throttlehttp.ParsePolicies([]string{value})
		if err == nil || !strings.Contains(err.Error(), what) || !strings.HasPrefix(err.Error(), "throttlehttp: RateLimit-Policy") || got != nil {
			t.Errorf("%q: %+v, %v; want an error that has %q", value, got, err, what)
		}
	}
	for value, what := range map[string]string{`"a"`: "r is missing", `"a";r=1;t=-1`: "t is -1", `"a";r=1.0`: "r is 1", `"a";r=1;t=soon`: "t is soon"} {
		if got, err := throttlehttp.ParseLimits([]string{value}); err == nil || !strings.Contains(err.Error(), what) || got != nil {
			t.Errorf("%q: %+v, %v; want an error that has %q", value, got, err, what)
		}
	}
}

func TestFields_WrittenStrictly(t *testing.T) {
	policies, err := throttlehttp.FormatPolicies([]throttlehttp.Policy{
		{Name: "burst", Quota: 100, Window: time.Minute}, {Name: `a "b"`, Quota: 0, Unit: throttlehttp.ConcurrentRequests, Partition: []byte("pure")}})
	if want := `"burst";q=100;w=60, "a \"b\"";q=0;qu="concurrent-requests";pk=:cHVyZQ==:`; err != nil || policies != want {
		t.Errorf("%s, %v; want %s", policies, err, want)
	}
	limits, err := throttlehttp.FormatLimits([]throttlehttp.Limit{
		{Name: "burst", Remaining: 3, Reset: 400 * time.Millisecond, HasReset: true}, {Name: "daily", Remaining: 7}, {Name: "x", HasReset: true}})
	if want := `"burst";r=3;t=1, "daily";r=7, "x";r=0;t=0`; err != nil || limits != want { // 0.4 s is 1: rounded up
		t.Errorf("%s, %v; want %s", limits, err, want)
	}
	for what, p := range map[string]throttlehttp.Policy{"Quota is -1": {Quota: -1}, "Quota is 1000000000000000": {Quota: 1e15}, "Window is 1.5s": {Window: 1500 * time.Millisecond},
		"Window is -1s": {Window: -time.Second}, "printable ASCII": {Name: "é"}} {
		if got, err := throttlehttp.FormatPolicies([]throttlehttp.Policy{p}); err == nil || !strings.Contains(err.Error(), what) || got != "" {
			t.Errorf("%+v: %q, %v; want an error that has %q", p, got, err, what)
		}
	}
	for what, l := range map[string]throttlehttp.Limit{"Remaining is -1": {Remaining: -1}, "Reset is -1ns": {Reset: -1, HasReset: true}} {
		if got, err := throttlehttp.FormatLimits([]throttlehttp.Limit{l}); err == nil || !strings.Contains(err.Error(), what) || got != "" {
			t.Errorf("%+v: %q, %v; want an error that has %q", l, got, err, what)
		}
	}
}

// What is read can be written, and reads the same again.
func FuzzFields(f *testing.F) {
	for _, s := range []string{"", `"burst";q=100;w=60,"daily";q=1000;w=86400`, `"default";r=50;t=30`, `a;q=1;r=1;pk=:YQ==:;qu="requests"`, `"a";q=-1`, `("x");q=1`, `"a";q=1;w=999999999999999`, `"\"";r=1`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if policies, err := throttlehttp.ParsePolicies([]string{s}); err == nil && !saturated(policies) {
			text, err := throttlehttp.FormatPolicies(policies)
			again, err2 := throttlehttp.ParsePolicies([]string{text})
			if err != nil || err2 != nil || !reflect.DeepEqual(policies, again) {
				t.Fatalf("%q: %+v, written %q (%v), is %+v (%v)", s, policies, text, err, again, err2)
			}
		}
		if limits, err := throttlehttp.ParseLimits([]string{s}); err == nil {
			text, err := throttlehttp.FormatLimits(limits)
			_, err2 := throttlehttp.ParseLimits([]string{text})
			if err != nil || err2 != nil {
				t.Fatalf("%q: %+v, written %q: %v, %v", s, limits, text, err, err2)
			}
		}
	})
}

func saturated(policies []throttlehttp.Policy) bool {
	for _, p := range policies {
		if p.Window == math.MaxInt64 {
			return true
		}
	}
	return false
}

func ExamplePolicy() {
	policies, err := throttlehttp.ParsePolicies([]string{`"burst";q=100;w=60, "parallel";q=5;qu="concurrent-requests"`})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range policies {
		fmt.Println(p.Name, p.Quota, p.Unit, p.Window)
	}
	// Output:
	// burst 100  1m0s
	// parallel 5 concurrent-requests 0s
}

func ExampleLimit() {
	value, err := throttlehttp.FormatLimits([]throttlehttp.Limit{{Name: "burst", Remaining: 50, Reset: 29500 * time.Millisecond, HasReset: true}})
	fmt.Println(throttlehttp.LimitField+":", value, err)
	// Output: RateLimit: "burst";r=50;t=30 <nil>
}
