package policy_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnstile-go/turnstile/policy"
	"github.com/turnstile-go/turnstile/throttle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const worked = `policies:
  sign_in: {rate: 0.1/s, burst: 5}
  password_reset: {rate: 0.0167/s, burst: 3}
`

func TestParse_WorkedCaseIsExact(t *testing.T) {
	got, err := policy.Parse("p.yaml", []byte(worked))
	if err != nil {
		t.Fatal(err)
	}
	want := []policy.Policy{
		{Name: "sign_in", Line: 2, Rate: throttle.Per(1, 10*time.Second), Burst: 5},
		{Name: "password_reset", Line: 3, Rate: throttle.Per(167, 10_000*time.Second), Burst: 3},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
}

const every = `policies:
  all: {in_flight: 9}
  api:
    rate: 10/s # ten
    burst: 20
    quotas: ["daily: 1000 each 1d", at most 100 in 1m]
    in_flight: 4
    max_wait: 1m30s
    max_queue: 100
    parent: all
    share: 3
    keyed: true
    max_keys: 1000
`

const everyJSON = "{\"policies\": {\n\t\"all\": {\"in_flight\": 9},\n\t\"api\": {\n\t\t\"rate\": \"10/s\", \"burst\": 20, \"quotas\": [\"daily: 1000 each 1d\", \"at most 100 in 1m\"],\n\t\t\"in_flight\": 4, \"max_wait\": \"1m30s\", \"max_queue\": 100, \"parent\": \"all\", \"share\": 3,\n\t\t\"keyed\": true, \"max_keys\": 1000}}}\n"

func TestParse_ReadsEveryFieldFromYAMLAndJSON(t *testing.T) {
	daily := throttle.FixedWindow(1000, 24*time.Hour)
	daily.Name = "daily"
	want := policy.Policy{
		Name: "api", Rate: throttle.PerSecond(10), Burst: 20, Quotas: []throttle.Quota{daily, throttle.AtMost(100, time.Minute)},
		InFlight: 4, MaxWait: 90 * time.Second, MaxQueue: 100, Parent: "all", Share: 3, Keyed: true, MaxKeys: 1000,
	}
	for _, text := range []string{every, everyJSON, strings.ReplaceAll(every, "\n", "\r\n")} {
		got, err := policy.Parse("p", []byte(text))
		if err != nil || len(got) != 2 {
			t.Errorf("%v, %v", got, err)
			continue
		}
		got[1].Line = 0
		if !reflect.DeepEqual(got[1], want) {
			t.Errorf("%+v; want %+v", got[1], want)
		}
	}
}

func TestParse_SaysWhereAndWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "p: it is empty"},
		{"policies:\n", "policies is empty"},
		{"polices: {}\n", `p:1:1: unknown field "polices"`},
		{"policies: [a]\n", "policies is a list"},
		{"policies:\n  a: {rate: 10, burst: 1}\n", `p:2:13: rate "10": has no unit`},
		{"policies:\n  a: {rate: 1/s, bust: 1}\n", `p:2:18: unknown field "bust" of policy "a"`},
		{"policies:\n  a: {rate: 1/s, burst: 1.5}\n", "p:2:25: burst is a number; want a whole number, 1 to 4611686018427387904"},
		{"policies:\n  a: {rate: 1/s, burst: \"1\"}\n", "burst is a text"},
		{"policies:\n  a: {rate: 1/s, burst: 0}\n", "burst is 0;"},
		{"policies:\n  a: {rate: 1/s, burst: 99999999999999999999}\n", "p:2:25: burst is a text"},
		{"policies:\n  a: {rate: 1/s}\n", `p:2:3: policy "a": Burst is 0`},
		{"policies:\n  a: {}\n", `p:2:3: policy "a": no limit is set`},
		{"policies:\n  a: {rate: 1/s, burst: 1}\n  a: {in_flight: 1}\n", "p:3:3: "},
		{"policies:\n  a: {in_flight: 1, in_flight: 2}\n", "p:2:21: "},
		{"policies:\n  a: {in_flight: 1, max_wait: 3}\n", "p:2:31: max_wait is"},
		{"policies:\n  a: {in_flight: 1, parent: b}\n", `p:2:3: policy "a": parent is "b", and there is no such policy`},
		{"policies:\n  a: {in_flight: 1, parent: a}\n", "above itself"},
		{"policies:\n  a: {in_flight: 1, parent: b}\n  b: {in_flight: 1, parent: a}\n", "above itself"},
		{"policies:\n  a: {in_flight: 1, keyed: true}\n  b: {parent: a}\n", "which is keyed"},
		{"policies:\n  a: {in_flight: 1, max_keys: 2}\n", "keyed is not true"},
		{"policies:\n  a: {in_flight: 1, keyed: yes}\n", "keyed is a text; want true or false"},
		{"policies:\n  a: {in_flight: 1, share: 2}\n", "Parent is not set"},
		{"policies:\n  a: {quotas: [10]}\n", `p:2:16: quota "10": has no unit`},
		{"policies:\n  a: &x {in_flight: 1}\n  b: *x\n", "p:2:"},
		{"policies: {a: {in_flight: 1}}\n---\npolicies: {}\n", "a second document"},
		{"policies:\n  a: {in_flight: 1\n", "p:"},
		{strings.Repeat("[", 100_000), "nest"},
		{"# - - - - - - - - - -\na: 1\n", `unknown field "a"`},
		{strings.Repeat("- ", 100_000), "nest"}, // the YAML parser took 8 s for half of it
		{strings.Repeat(" ", policy.MaxSize+1), "bytes"},
	} {
		got, err := policy.Parse("p", []byte(c.text))
		var at *policy.Error
		if !errors.As(err, &at) || !strings.Contains(err.Error(), c.want) || got != nil {
			t.Errorf("%.80q gives %v, %v; want %q", c.text, got, err, c.want)
		}
	}
	_, err := policy.Parse("p.yaml", []byte("policies:\n  a: {rate: 10, burst: 1}\n"))
	if want := "\n    2 |   a: {rate: 10, burst: 1}\n      |             ^"; !strings.HasSuffix(err.Error(), want) {
		t.Errorf("the error ends otherwise than in %q:\n%v", want, err)
	}
}

func TestError_CaretStandsBelowTheFaultBehindTabs(t *testing.T) {
	_, err := policy.Parse("p", []byte("{\"policies\": {\n\t\"a\": {\"burst\": 0}}}"))
	if want := "p:2:17: burst is 0; want a whole number, 1 to 4611686018427387904\n    2 | \t\"a\": {\"burst\": 0}}}\n      | \t               ^"; !strings.HasSuffix(err.Error(), want) {
		t.Errorf("the error ends otherwise than in %q:\n%v", want, err)
	}
}

// The schema has exactly the fields of Policy, with types that fit.
func TestSchema_HasEveryField(t *testing.T) {
	var schema struct {
		Defs map[string]struct {
			Properties map[string]struct{ Type string }
		} `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(policy.Schema), &schema); err != nil {
		t.Fatal(err)
	}
	has := schema.Defs["policy"].Properties
	fields := 0
	for f := range reflect.TypeFor[policy.Policy]().Fields() {
		name := f.Tag.Get("file")
		if name == "-" {
			continue
		}
		fields++
		want := map[reflect.Kind]string{reflect.Bool: "boolean", reflect.Slice: "array", reflect.Int64: "integer"}[f.Type.Kind()]
		if f.Type == reflect.TypeFor[time.Duration]() || want == "" {
			want = "string"
		}
		if has[name].Type != want {
			t.Errorf("%s is %q in the schema; want %q", name, has[name].Type, want)
		}
		if !strings.Contains(every, name+":") {
			t.Errorf("the example of every field lacks %s", name)
		}
	}
	if fields != len(has) {
		t.Errorf("the schema has %d fields; want %d", len(has), fields)
	}
}

// FuzzParse: whatever the text, Parse says no with an *Error or gives policies, and never panics.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{worked, every, everyJSON, "", "a: &x *x", "policies: {a: {rate: 10}}", "policies:\n\ta: 1", "? [a]: b", "<<: *a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := policy.Parse("p", []byte(text))
		var at *policy.Error
		if err != nil && (!errors.As(err, &at) || got != nil) {
			t.Fatalf("%v, %v", got, err)
		}
	})
}
