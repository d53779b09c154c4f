package demo

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/measure"
)

// Charts are drawn in a box of this size, which a phone shows at about its own scale and a desk as
// three beside each other.
const (
	chartWide, chartHigh = 360, 240
	plotLeft, plotRight  = 46, 350
	plotTop, plotBottom  = 26, 196
	chartColumns         = 304 // one for each unit of width
)

// A chart is values over time, as an area, below or above a bound.
type chart struct {
	title  string // for those who hear it
	values []float64
	bound  float64 // 0: none
	top    float64 // of the axis
	unit   string  // of the values
	span   time.Duration
	stall  measure.Span
}

// svg draws the chart.
func (c chart) svg() template.HTML {
	var b strings.Builder
	top, step := niceTop(c.top)
	x := func(column int) float64 {
		return plotLeft + float64(column)*(plotRight-plotLeft)/float64(len(c.values))
	}
	at := func(ns int64) float64 {
		return plotLeft + float64(ns)/float64(c.span)*(plotRight-plotLeft)
	}
	y := func(value float64) float64 {
		return plotBottom - min(value, top)/top*(plotBottom-plotTop)
	}
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, chartWide, chartHigh, html.EscapeString(c.title))
	fmt.Fprintf(&b, `<text class="note" x="6" y="12">%s</text>`, html.EscapeString(c.unit))
	if c.stall.To > c.stall.From {
		from, to := at(c.stall.From), at(c.stall.To)
		fmt.Fprintf(&b, `<rect class="stall" x="%.1f" y="%d" width="%.1f" height="%d"/>`, from, plotTop, to-from, plotBottom-plotTop)
		fmt.Fprintf(&b, `<text class="note" x="%.1f" y="%d" text-anchor="middle">stall</text>`, (from+to)/2, plotTop+12)
	}
	for v := 0.0; v <= top*1.0001; v += step {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, plotLeft, plotRight, y(v), y(v))
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`, plotLeft-6, y(v)+4, number(v))
	}
	every := time.Second
	for _, n := range []time.Duration{2, 5, 10, 20, 50, 100} {
		if c.span > 7*every {
			every = n * time.Second
		}
	}
	for t := time.Duration(0); t <= c.span; t += every {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%.0f</text>`, at(int64(t)), plotBottom+17, t.Seconds())
	}
	fmt.Fprintf(&b, `<text class="note" x="%d" y="%d" text-anchor="middle">seconds since the beginning</text>`, (plotLeft+plotRight)/2, plotBottom+36)
	// The part of the area above the bound is drawn a second time, in a box that begins there.
	area := c.area(x, y)
	fmt.Fprintf(&b, `<path class="area" d="%s"/>`, area)
	if c.bound > 0 {
		if peak := c.peak(); peak > c.bound {
			fmt.Fprintf(&b, `<svg x="0" y="0" width="%d" height="%.1f" viewBox="0 0 %d %.1f"><path class="over" d="%s"/></svg>`,
				chartWide, y(c.bound), chartWide, y(c.bound), area)
		}
		fmt.Fprintf(&b, `<line class="bound" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, plotLeft, plotRight, y(c.bound), y(c.bound))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// area returns the path around the values, as steps. Equal neighbours make one step.
func (c chart) area(x func(int) float64, y func(float64) float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M%.1f %.1f", x(0), y(0))
	for i, v := range c.values {
		if i == 0 || v != c.values[i-1] {
			fmt.Fprintf(&b, "H%.1fV%.1f", x(i), y(v))
		}
	}
	fmt.Fprintf(&b, "H%.1fV%.1fZ", x(len(c.values)), y(0))
	return b.String()
}

func (c chart) peak() (most float64) {
	for _, v := range c.values {
		most = max(most, v)
	}
	return most
}

// niceTop returns a round number not below top for the end of an axis, and the step of its marks.
func niceTop(top float64) (end, step float64) {
	if top <= 0 {
		return 1, 1
	}
	step = math.Pow(10, math.Floor(math.Log10(top)))
	for _, divisor := range []float64{5, 4, 2} {
		if top/(step/divisor) <= 5 {
			step /= divisor
			break
		}
	}
	if top/step > 5 {
		step *= 2
	}
	return math.Ceil(top/step) * step, step
}

// number shows a mark of an axis.
func number(v float64) string { return fmt.Sprintf("%.4g", v) }

// A bar is a part of a whole.
type bar struct {
	Name  string
	Text  string
	Share float64 // in percent
	Mark  string  // "good" or "bad"
}
