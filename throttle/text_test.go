package throttle_test

import (
	"encoding"
	"encoding/json"
	"flag"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

var (
	_ flag.Value               = (*throttle.Rate)(nil)
	_ flag.Value               = (*throttle.Quota)(nil)
	_ encoding.TextMarshaler   = throttle.Rate{}
	_ encoding.TextMarshaler   = throttle.Quota{}
	_ encoding.TextUnmarshaler = (*throttle.Rate)(nil)
	_ encoding.TextUnmarshaler = (*throttle.Quota)(nil)
)

func TestParseQuota_ReadsEachKindExactlyAndShortensIt(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 5, time.FixedZone("", 3600))
	named := func(name string, q throttle.Quota) throttle.Quota { q.Name = name; return q }
	bucket := func(r throttle.Rate, burst int64) throttle.Quota { return throttle.Quota{Rate: r, Burst: burst} }
	for _, c := range []struct {
		text string
		want throttle.Quota
		back string
	}{
		{"10/s", bucket(throttle.PerSecond(10), 1), "10/s"},
		{"0.1/s burst 5", bucket(throttle.Per(1, 10*time.Second), 5), "1/10s burst 5"},
		{"0.0167/s burst 3", bucket(throttle.Per(167, 10_000*time.Second), 3), "167/2h46m40s burst 3"},
		{"1k/h burst 200", bucket(throttle.PerHour(1000), 200), "1000/h burst 200"},
		{"100 per minute", bucket(throttle.PerMinute(100), 1), "100/min"},
		{"1/s burst 4611686018427387904", bucket(throttle.PerSecond(1), throttle.MaxBurst), "1/s burst 4611686018427387904"},
		{"at most 100/60s", throttle.AtMost(100, time.Minute), "at most 100 in 1m"},
		{"at most 1.5k in 7 days", throttle.AtMost(1500, 7*day), "at most 1500 in 7d"},
		{"1000 each day", throttle.FixedWindow(1000, day), "1000 each 1d"},
		{"5 each 1h from 2026-01-01T12:00:00.000000005+01:00", throttle.FixedWindow(5, time.Hour).AlignedTo(noon),
			"5 each 1h from 2026-01-01T11:00:00.000000005Z"},
		{"requests: 10/s", named("requests", bucket(throttle.PerSecond(10), 1)), "requests: 10/s"},
		{`"a: b": at most 1 in 1s`, named("a: b", throttle.AtMost(1, time.Second)), `"a: b": at most 1 in 1s`},
	} {
		got, err := throttle.ParseQuota(c.text)
		if err != nil || got != c.want {
			t.Errorf("%q is read as %+v, %v; want %+v", c.text, got, err, c.want)
			continue
		}
		back, err := got.MarshalText()
		if err != nil || string(back) != c.back {
			t.Errorf("%q is written as %q, %v; want %q", c.text, back, err, c.back)
		}
	}
}

func TestParseQuota_RefusesWrongTextsWithTheRightForm(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "10/s",
		"10":                              "10/s",
		"10 burst 5":                      "has no unit",
		"10/s burst 0":                    "whole number",
		"10/s burst 1.5":                  "whole number",
		"10/s burst":                      "not a time",
		"10/s burst 4611686018427387905":  "2^62",
		"at most 10":                      "has no time",
		"at most 0.5 in 1s":               "whole number",
		"10 each fortnight":               "not a time",
		"10 each 1d from noon":            "2026-01-01T00:00:00Z",
		`"a" 10/s`:                        "colon",
		`"a: 10/s`:                        "colon",
		`"": 10/s`:                        "colon",
		"1e999999/s":                      "positive number",
		"१०/s":                            "positive number",
		"2/ns":                            "above 1000000000/s",
		strings.Repeat("9", 1<<20) + "/s": "positive number",
	} {
		_, err := throttle.ParseQuota(text)
		mustSay(t, err, throttle.ErrInvalid)
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: the error %q lacks %q", text, err, want)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%.40q: the error has %d bytes", text, len(err.Error()))
		}
	}
}

func TestText_OfWhatIsNoQuotaIsAnErrorAndNoneIsZero(t *testing.T) {
	odd := throttle.AtMost(5, time.Second)
	odd.Burst = 6
	for _, q := range []throttle.Quota{{Burst: 1}, odd, throttle.FixedWindow(1, 1).AlignedTo(time.Unix(math.MaxInt64/2, 0))} {
		if text, err := q.MarshalText(); err == nil {
			t.Errorf("%+v is written as %q; want an error", q, text)
		}
	}
	if text, err := (throttle.Rate{N: 5}).MarshalText(); err == nil {
		t.Errorf("a rate without a period is written as %q", text)
	}
	r, q := throttle.PerSecond(1), throttle.AtMost(1, 1)
	if r.Set("") == nil || q.Set("") == nil || r != throttle.PerSecond(1) || q != throttle.AtMost(1, 1) {
		t.Error("an empty text was taken, or an error changed the value")
	}
	for _, v := range []flag.Value{&r, &q} {
		if err := v.Set("none"); err != nil {
			t.Error(err)
		}
	}
	if !r.IsZero() || q != (throttle.Quota{}) {
		t.Errorf("none is read as %+v and %+v", r, q)
	}
}

func TestText_WorksInJSONAndFlags(t *testing.T) {
	type limits struct {
		Rate  throttle.Rate
		Quota throttle.Quota
	}
	var got limits
	text := `{"Rate":"5/15s","Quota":"at most 100 in 1m"}`
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if back, err := json.Marshal(got); err != nil || string(back) != text {
		t.Errorf("%s, %v; want %s", back, err, text)
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	var r throttle.Rate
	var q throttle.Quota
	flags.Var(&r, "rate", "")
	flags.TextVar(&q, "quota", throttle.Quota{}, "")
	if err := flags.Parse([]string{"-rate", "1/3s", "-quota", "2 each 1h"}); err != nil {
		t.Fatal(err)
	}
	if r != throttle.Every(3*time.Second) || q != throttle.FixedWindow(2, time.Hour) {
		t.Errorf("the flags are %v and %v", r, q)
	}
}

// FuzzQuotaText: whatever is read is a quota that a limiter takes, and is written as what is read as the same.
func FuzzQuotaText(f *testing.F) {
	for _, seed := range []string{
		"10/s", "5/15s", "100 per minute", "1k/h burst 200", "0.0167/s burst 3", "at most 100/60s", "1000 each 1d",
		"5 each 1h from 2026-01-01T00:00:00Z", `"a\xff: b": 1/s`, "a.b-c_d: 1/ns", "1e999999/s", "१/s", "", "10", "each", "1/1h0m0.5s",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := throttle.ParseQuota(text)
		if err != nil {
			mustSay(t, err, throttle.ErrInvalid)
			return
		}
		if _, err := throttle.New(throttle.Config{Quotas: []throttle.Quota{q}}); err != nil {
			t.Fatalf("%q is read as %+v, which a limiter refuses: %v", text, q, err)
		}
		back, err := q.MarshalText()
		if err != nil {
			if strings.Contains(err.Error(), "year") {
				return // an instant next to year 0 or 9999 whose zone moves it out of them
			}
			t.Fatalf("%q is read as %+v, which has no text: %v", text, q, err)
		}
		if again, err := throttle.ParseQuota(string(back)); err != nil || again != q {
			t.Fatalf("%q is written as %q, which is read as %+v, %v; want %+v", text, back, again, err, q)
		}
	})
}

// FuzzRateDecimal: a decimal number of tokens a second is that number, as math/big has it.
func FuzzRateDecimal(f *testing.F) {
	f.Add("0.0167", uint8(0))
	f.Add("1.5", uint8(1))
	f.Add("000.10", uint8(2))
	f.Add("0.000000001", uint8(3))
	f.Fuzz(func(t *testing.T, number string, suffix uint8) {
		letter := []string{"", "k", "M", "G"}[suffix%4]
		r, err := throttle.ParseRate(number + letter + "/s")
		if err != nil {
			return
		}
		want, ok := new(big.Rat).SetString(strings.TrimSuffix(strings.TrimSpace(number), "/"))
		if !ok {
			return // a suffix of the text's own
		}
		want.Mul(want, new(big.Rat).SetInt64(int64(math.Pow10(3*int(suffix%4)))))
		got := new(big.Rat).SetFrac64(r.N, int64(r.Period))
		if got.Mul(got, big.NewRat(int64(time.Second), 1)); got.Cmp(want) != 0 {
			t.Fatalf("%q%s a second is read as %v, which is %v a second", number, letter, r, got)
		}
	})
}
