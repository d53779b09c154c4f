package throttle_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

const rightText = `{"turnstile":"limiter","version":1,"saved":"2030-01-01T12:00:00.000000001Z","name":"api","paused_ns":5,"quotas":[` +
	`{"kind":"rate","tokens":7,"period_ns":3000000000,"burst":4,"missing":3,"missing_part":1},` +
	`{"kind":"bucket","name":"b","tokens":10,"period_ns":1000000000,"burst":20,"missing":30},` +
	`{"kind":"at-most","name":"w","tokens":100,"period_ns":60000000000,"starts":[[59999999999,1],[7,2]]},` +
	`{"kind":"fixed-window","name":"f","tokens":1000,"period_ns":86400000000000,"opened_ns_ago":7,"used":3}]}`

const rightKeys = `{"turnstile":"keyed","version":1,"saved":"2030-01-01T12:00:00Z","name":"k",` +
	`"limits":[[{"kind":"rate","tokens":1,"period_ns":1000000000,"burst":2}]],` +
	`"keys":[{"key":"a","limits":0,"spent":[{"missing":1}]},{"key":"b","limits":0,"spent":[{"missing":2}],"paused_ns":1}]}`

// The form of version 1 does not change: who has a file of it can go on reading it.
func TestSnapshot_TheTextOfVersion1(t *testing.T) {
	var s throttle.Snapshot
	mustDo(t, json.Unmarshal([]byte(rightText), &s))
	text, err := json.Marshal(s)
	mustDo(t, err)
	if string(text) != rightText {
		t.Errorf("got\n%s\nwant\n%s", text, rightText)
	}
	var k throttle.KeyedSnapshot[string]
	mustDo(t, json.Unmarshal([]byte(rightKeys), &k))
	text, err = json.Marshal(k)
	mustDo(t, err)
	if string(text) != rightKeys {
		t.Errorf("got\n%s\nwant\n%s", text, rightKeys)
	}
	if k.Len() != 2 || !k.Saved().Equal(fake.Epoch) || s.Saved().Sub(fake.Epoch) != 1 {
		t.Errorf("%d keys, saved %v and %v", k.Len(), k.Saved(), s.Saved())
	}
}

// A file that is wrong says where and what would be right, and what was there before stays.
func TestSnapshot_WrongTextIsRefused(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"version":1`, `"version":2`, "version is 2; want 1"},
		{`"version":1,`, ``, "version is 0; want 1"},
		{`"limiter"`, `"keyed"`, `turnstile is "keyed"; want "limiter"`},
		{`"saved":"2030-01-01T12:00:00.000000001Z",`, ``, "saved is not set"},
		{`"2030-01-01T12`, `"2030-13-01T12`, "parsing time"},
		{`"paused_ns":5`, `"paused_ns":-5`, "paused_ns is -5"},
		{`"name":"api"`, `"nome":"api"`, "unknown field"},
		{`"kind":"rate"`, `"kind":"leaky"`, `quotas[0]: kind is "leaky"`},
		{`"kind":"rate"`, `"kind":"rate","name":"x"`, "want none"},
		{`"kind":"bucket","name":"b"`, `"kind":"rate"`, "a second time"},
		{`"name":"w"`, `"name":"b"`, `quotas[2]: name is "b" a second time`},
		{`"tokens":7`, `"tokens":0`, "its N is 0"},
		{`"tokens":7`, `"tokens":-7`, "its N is -7"},
		{`"tokens":7`, `"tokens":7.5`, "cannot unmarshal number 7.5"},
		{`"tokens":7`, `"tokens":NaN`, "invalid character"},
		{`"tokens":7`, `"tokens":1e3`, "cannot unmarshal number 1e3"},
		{`"tokens":7`, `"tokens":9223372036854775808`, "cannot unmarshal number"},
		{`"burst":4`, `"burst":4611686018427387905`, "Burst is 4611686018427387905"},
		{`"period_ns":60000000000`, `"period_ns":0`, "its Period is 0s"},
		{`"tokens":100`, `"tokens":100,"burst":100`, "want none"},
		{`"missing":3`, `"missing":-3`, "cannot unmarshal number -3"},
		{`"missing":3`, `"missing":4611686018427387909`, "the burst and the largest debt"},
		{`"missing_part":1`, `"missing_part":3000000000`, "a token has 3000000000 parts"},
		{`"missing":30`, `"missing":30,"used":1`, "fixed-window"},
		{`"missing":30`, `"missing":30,"starts":[[1,1]]`, "at-most"},
		{`"used":3`, `"used":3,"missing":1`, "missing is set"},
		{`"used":3`, `"used":-3`, "used is -3"},
		{`"opened_ns_ago":7,`, ``, "opened_ns_ago is not set"},
		{`"opened_ns_ago":7`, `"opened_ns_ago":86400000000000`, "within the period"},
		{`"opened_ns_ago":7`, `"opened_ns_ago":-1`, "within the period"},
		{`[7,2]`, `[7]`, "has 1 numbers; want 2"},
		{`[7,2]`, `[7,0]`, "has the cost 0"},
		{`[7,2]`, `[7,9223372036854775807]`, "has the cost 9223372036854775807"},
		{`[59999999999,1]`, `[60000000000,1]`, "within the period"},
		{`[7,2]`, `[59999999999,2]`, "the oldest first"},
		{`[7,2]`, `[-7,2]`, "was -7 ns ago"},
		{`}]}`, `}]`, "unexpected end"},
	} {
		text := strings.Replace(rightText, c.from, c.to, 1)
		if text == rightText {
			t.Fatalf("%s is not in the text", c.from)
		}
		var s, before throttle.Snapshot
		mustDo(t, json.Unmarshal([]byte(rightText), &s))
		mustDo(t, json.Unmarshal([]byte(rightText), &before))
		mustSay(t, s.UnmarshalJSON([]byte(text)), throttle.ErrInvalid, "snapshot", c.want)
		if !reflect.DeepEqual(s, before) {
			t.Errorf("%s: it was changed", c.to)
		}
	}
	for _, c := range []struct{ from, to, want string }{
		{`"version":1`, `"version":7`, "version is 7; want 1"},
		{`"key":"b"`, `"key":"a"`, "keys[1]: key is a a second time"},
		{`"key":"b"`, `"key":7`, "keys[1]: key"},
		{`"key":"b",`, ``, "want either key or key_base64"},
		{`"key":"b"`, `"key":"b","key_base64":"Yg=="`, "want either key or key_base64"},
		{`"limits":0`, `"limits":1`, "limits is 1; want 0 to 0"},
		{`"limits":0`, `"limits":-1`, "limits is -1"},
		{`[{"missing":1}]`, `[]`, "spent has 0 quotas; want 1"},
		{`[{"missing":1}]`, `[{"missing":1,"missing_part":1000000000}]`, "keys[0]: spent[0]: missing_part"},
		{`"paused_ns":1`, `"paused_ns":-1`, "paused_ns is -1"},
		{`"tokens":1`, `"tokens":0`, "limits[0][0]"},
		{`}]],`, `},{"kind":"rate","tokens":1,"period_ns":1000000000,"burst":2}]],`, "a second time"},
		{`"saved":"2030-01-01T12:00:00Z",`, ``, "saved is not set"},
	} {
		var s throttle.KeyedSnapshot[string]
		mustDo(t, json.Unmarshal([]byte(rightKeys), &s))
		mustSay(t, s.UnmarshalJSON([]byte(strings.Replace(rightKeys, c.from, c.to, 1))), throttle.ErrInvalid, "snapshot", c.want)
		if s.Len() != 2 {
			t.Errorf("%s: it was changed", c.to)
		}
	}
	var numbers throttle.KeyedSnapshot[int]
	mustSay(t, numbers.UnmarshalJSON([]byte(strings.Replace(rightKeys, `"key":"a"`, `"key_base64":"YQ=="`, 1))), throttle.ErrInvalid, "want key")
	var any throttle.KeyedSnapshot[any]
	mustSay(t, any.UnmarshalJSON([]byte(strings.Replace(rightKeys, `"key":"a"`, `"key":["a"]`, 1))), throttle.ErrInvalid, "compared")
}

// FuzzSnapshot reads whatever it is given: what is read is written and read as the same, and restored it neither panics nor adds a token, and lets
// the limiter go on.
func FuzzSnapshot(f *testing.F) {
	f.Add([]byte(rightText))
	f.Add([]byte(rightKeys))
	f.Add([]byte(strings.ReplaceAll(rightText, `"missing":30`, `"missing":4611686018427387924`)))
	f.Add([]byte(strings.ReplaceAll(rightText, `"used":3`, `"used":9223372036854775807`)))
	f.Add([]byte(strings.ReplaceAll(rightText, `"period_ns":86400000000000`, `"period_ns":9223372036854775807`)))
	f.Add([]byte(strings.ReplaceAll(rightText, `[7,2]`, `[7,9223372036854775806]`)))
	f.Add([]byte(strings.ReplaceAll(rightText, `"saved":"2030`, `"saved":"0001`)))
	f.Add([]byte(strings.ReplaceAll(rightText, `"saved":"2030`, `"saved":"9999`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		clock := fake.NewClock(time.Time{})
		c := throttle.Config{Name: "api", Rate: throttle.PerSecond(10), Burst: 5, Clock: clock, Quotas: []throttle.Quota{
			{Name: "b", Rate: throttle.Every(time.Hour), Burst: throttle.MaxBurst},
			{Name: "w", Rate: throttle.Per(9, time.Minute), Burst: 9},
			{Name: "f", Rate: throttle.Per(9, time.Minute), Burst: 9},
		}}
		c.Quotas[1], c.Quotas[2] = throttle.AtMost(9, time.Minute), throttle.FixedWindow(9, 24*time.Hour).AlignedTo(fake.Epoch)
		c.Quotas[1].Name, c.Quotas[2].Name = "w", "f"
		var s throttle.Snapshot
		if json.Unmarshal(text, &s) == nil {
			s = saved(t, s)
			l := newLimiter(t, c)
			if l.Restore(s) == nil {
				for range 5 {
					for i, q := range l.Quotas() {
						if q.Tokens > c.Quotas[i].Burst {
							t.Fatalf("%d tokens of %v", q.Tokens, q.Quota)
						}
					}
					_, _ = l.TryAcquire()
					clock.Advance(13 * time.Hour)
				}
				_ = saved(t, l.Snapshot())
			}
		}
		var k throttle.KeyedSnapshot[string]
		if json.Unmarshal(text, &k) == nil {
			_, err := json.Marshal(k)
			mustDo(t, err)
			keyed := newKeyed[string](t, throttle.Config{Name: "k", Rate: throttle.PerSecond(1), Burst: 2, Clock: clock})
			if keyed.Restore(k) == nil {
				_, _ = keyed.TryAcquire("a")
				_ = keyed.Snapshot()
			}
		}
	})
}
