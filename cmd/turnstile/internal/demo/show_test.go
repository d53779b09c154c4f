package demo

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/measure"
)

// report shows the made-up record for all three ways, the third of which kept the promise.
func report(t *testing.T) *Report {
	t.Helper()
	p := record()
	a := act{scenario: p.scenario}
	for i, w := range ways {
		p.way = w
		if i == len(ways)-1 {
			for j := range p.flows[0].starts {
				p.flows[0].starts[j] = int64(j) * 100 * ms
			}
		}
		r, err := analyse(p)
		if err != nil {
			t.Fatal(err)
		}
		a.results = append(a.results, r)
	}
	// The same as an act that is drawn with bars.
	b := act{scenario: a.scenario, results: a.results}
	b.scenario.key, b.scenario.title = "giveup", "Callers give up"
	return &Report{At: time.Unix(0, 0), Took: time.Second, acts: []act{a, b}}
}

func TestTerminal_SaysWhatWasBrokenAndByHowMuch(t *testing.T) {
	text := report(t).Terminal(Look{Width: 80, ASCII: true})
	text = strings.Join(strings.Fields(text), " ")
	for _, want := range []string{
		"THE SERVER STALLS", "rate, then sem sem, then rate Turnstile",
		"most starts in 100 ms 3 5 (1.7 x) 5 (1.7 x) 1",
		"BROKEN BROKEN kept",
		"5 in 40 ms",
		"starts in the last second, of 12 promised",
		"--- stall ---",
		"starts, of the 7 possible",
		"71.4 %",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
}

func TestTerminal_SaysThatTheMachineWasBusy(t *testing.T) {
	r := report(t)
	r.Pause = worthATell - 1
	if text := r.Terminal(Look{}); strings.Contains(text, "busy") {
		t.Error("busy, though it stood still for less than is worth telling")
	}
	r.Pause = 512 * time.Millisecond
	if text := strings.Join(strings.Fields(r.Terminal(Look{})), " "); !strings.Contains(text, "busy: the process stood still for up to 512 ms") {
		t.Errorf("the text does not say so:\n%s", text)
	}
}

func TestWatchPauses_TellsTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done, pause := make(chan struct{}), make(chan time.Duration, 1)
		go func() { pause <- watchPauses(done) }()
		time.Sleep(time.Second)
		close(done)
		if p := <-pause; p != 0 {
			t.Errorf("%v on a clock without lateness, want 0", p)
		}
	})
}

func TestTerminal_FitsItsWidthAndItsCharacters(t *testing.T) {
	r := report(t)
	for _, look := range []Look{{}, {Width: 80}, {Width: 100}, {Width: 300}, {Width: 80, ASCII: true}, {Width: 80, Colours: true}} {
		text := r.Terminal(look)
		width := look.Width
		if width == 0 {
			width = 80
		}
		escape := regexp.MustCompile("\x1b\\[[0-9;]*m")
		if escape.MatchString(text) != look.Colours {
			t.Errorf("%+v: colours", look)
		}
		for line := range strings.Lines(escape.ReplaceAllString(text, "")) {
			line = strings.TrimRight(line, "\n")
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%+v: %d columns: %s", look, n, line)
			}
			if look.ASCII && strings.ContainsFunc(line, func(c rune) bool { return c > 126 || c < 32 }) {
				t.Errorf("not ASCII: %q", line)
			}
		}
	}
}

func TestPlot_MarksWhatIsAboveTheBound(t *testing.T) {
	var b strings.Builder
	Look{ASCII: true}.plot(&b, []int{0, 1, 10, 20, 60}, 20, 60)
	want := `   60     !
          !
          !
   20 ----!
         ##
    0  .###
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	Look{}.plot(&b, []int{0, 60}, 20, 60)
	if !strings.Contains(b.String(), "▓") || !strings.Contains(b.String(), "┄") {
		t.Errorf("got\n%s", b.String())
	}
}

func TestHTML_IsWholeAndNeedsNothingElse(t *testing.T) {
	var b strings.Builder
	if err := report(t).WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, banned := range []string{"<script", "<link", "<img", "src=", "url(", "@import", "http://", "https://", "ZgotmplZ", "NaN", "Inf"} {
		if strings.Contains(page, banned) {
			t.Errorf("the page contains %q", banned)
		}
	}
	for _, want := range []string{
		"<title>", `name="viewport"`, "prefers-color-scheme: dark", "<td class=\"bad\">BROKEN</td>", "promised: at most 12",
		"seconds since the beginning", `aria-label="Starts in the last second, Turnstile: at most 5 starts"`, `class="over"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	charts := regexp.MustCompile(`(?s)<figcaption>[^<]*</figcaption>(<svg.*?</svg>)</figure>`).FindAllStringSubmatch(page, -1)
	if want := 3 * (4 + 3); len(charts) != want {
		t.Errorf("%d charts, want %d", len(charts), want)
	}
	for _, c := range charts {
		d := xml.NewDecoder(strings.NewReader(c[1]))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("a chart is no XML: %v\n%.300s", err, c[1])
			}
		}
	}
}

func TestChart_ShowsTheBoundAndOnlyThenWhatIsAboveIt(t *testing.T) {
	c := chart{title: "a & b", values: []float64{0, 5, 10}, bound: 10, top: 10, unit: "starts", span: 10 * time.Second}
	svg := string(c.svg())
	if !strings.Contains(svg, `class="bound"`) || strings.Contains(svg, `class="over"`) || strings.Contains(svg, `class="stall"`) {
		t.Errorf("at the bound: %s", svg)
	}
	if !strings.Contains(svg, "a &amp; b") {
		t.Error("the title is not escaped")
	}
	c.values[1], c.top, c.stall = 11, 11, measure.Span{From: 1, To: 2}
	if svg := string(c.svg()); !strings.Contains(svg, `class="over"`) || !strings.Contains(svg, `class="stall"`) {
		t.Errorf("above the bound: %s", svg)
	}
	c.bound = 0
	if strings.Contains(string(c.svg()), `class="bound"`) {
		t.Error("a bound where there is none")
	}
}

func TestNiceTop_EndsAboveTheValuesInFewSteps(t *testing.T) {
	for top := 0.001; top < 1e6; top *= 1.07 {
		end, step := niceTop(top)
		if n := end / step; end < top || n < 2 || n > 6 || end > 2*top {
			t.Errorf("top %v: end %v, step %v", top, end, step)
		}
	}
}
