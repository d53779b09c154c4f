package demo

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/cmd/turnstile/internal/measure"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// WriteHTML writes the report as one page that needs nothing else.
func (r *Report) WriteHTML(w io.Writer) error {
	page := struct {
		Sections              []section
		Ways                  []string
		Footnote, Setup, Date string
	}{
		Footnote: r.footnote(),
		Date:     r.At.Format("2 January 2006, 15:04 MST"),
		Setup:    fmt.Sprintf("%s, %s/%s, %d CPUs%s", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), modules()),
	}
	for _, w := range ways {
		page.Ways = append(page.Ways, w.short)
	}
	for _, a := range r.acts {
		page.Sections = append(page.Sections, a.section())
	}
	return pageTemplate.Execute(w, page)
}

// modules names the versions of the libraries compared.
func modules() (list string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == "golang.org/x/time" || m.Path == "golang.org/x/sync" {
			list += ", " + m.Path + " " + m.Version
		}
	}
	return list
}

// unbroken keeps a number and its unit on one line.
var unbroken = strings.NewReplacer(" %", "\u00a0%", " x)", "\u00a0x)", " s", "\u00a0s", " ms", "\u00a0ms")

// A section is one act on the page.
type section struct {
	ID, Title, Story, Why string
	Table                 []pageRow
	Figures               []figure
}

// A pageRow is a row of the table, with the classes of its cells.
type pageRow struct {
	Label, Bound string
	Indent       bool
	Cells        []pageCell
}

type pageCell struct{ Text, Class string }

// A figure is the same chart for each way, at the same scale, or bars.
type figure struct {
	Title, Note string
	Bound       string // what the dashed line is; "": there is none
	Area        string // what the area is
	Charts      []namedChart
	Bars        []bar
}

type namedChart struct {
	Name string
	SVG  template.HTML
}

func (a act) section() section {
	s := section{ID: a.scenario.key, Title: a.scenario.title, Story: a.scenario.story, Why: a.scenario.why}
	for _, r := range a.table() {
		line := pageRow{Label: strings.TrimSpace(r.label), Bound: r.bound, Indent: strings.HasPrefix(r.label, " ")}
		for _, c := range r.cells {
			line.Cells = append(line.Cells, pageCell{unbroken.Replace(c.text), []string{"", "good", "bad"}[c.mark]})
		}
		s.Table = append(s.Table, line)
	}
	last := len(a.scenario.flows) - 1 // of two, the fast one: a slow one's starts are few
	if a.scenario.key != "stall" {
		for i := range a.scenario.flows {
			s.Figures = append(s.Figures, a.barFigure(i))
		}
	}
	s.Figures = append(s.Figures, a.startsFigure(last, longWindow, "second"))
	if a.scenario.key == "stall" {
		s.Figures = append(s.Figures, a.startsFigure(last, shortWindow, "100 ms"))
	}
	s.Figures = append(s.Figures, a.flightFigure())
	if a.scenario.flows[last].loopers == 0 {
		s.Figures = append(s.Figures, a.waitFigure(last))
	}
	return s
}

// each draws one figure's chart for each way, at the same scale.
func (a act) each(f figure, bound float64, unit string, values func(result) []float64) figure {
	var charts []chart
	top := bound
	for _, r := range a.results {
		c := chart{
			title: fmt.Sprintf("%s, %s", f.Title, r.way.name), values: values(r),
			bound: bound, unit: unit, span: a.span(), stall: a.scenario.stall,
		}
		c.title += fmt.Sprintf(": at most %s %s", number(c.peak()), unit)
		top = max(top, c.peak())
		charts = append(charts, c)
	}
	for i, c := range charts {
		c.top = top
		f.Charts = append(f.Charts, namedChart{a.results[i].way.name, c.svg()})
	}
	return f
}

func (a act) startsFigure(i int, window time.Duration, name string) figure {
	first := a.results[0].flows[i]
	who := ""
	if len(a.scenario.flows) > 1 {
		who = " of the " + first.quota.Name + " limiter"
	}
	bound := first.promised(window)
	f := figure{
		Title: fmt.Sprintf("Starts%s in the last %s", who, name),
		Area:  "starts",
		Bound: fmt.Sprintf("promised: at most %d", bound),
	}
	return a.each(f, float64(bound), "starts", func(r result) []float64 {
		return floats(measure.Trailing(r.flows[i].starts, int64(window), int64(a.span()), chartColumns))
	})
}

func (a act) flightFigure() figure {
	f := figure{
		Title: "In flight at the server",
		Area:  "requests",
		Bound: fmt.Sprintf("allowed: %d", a.scenario.inFlight),
	}
	return a.each(f, float64(a.scenario.inFlight), "requests", func(r result) []float64 {
		_, columns := measure.Overlap(r.serverSpans, int64(a.span()), chartColumns)
		return floats(columns)
	})
}

func (a act) waitFigure(i int) figure {
	f := figure{
		Title: "Longest wait, by arrival",
		Area:  "wait until the start",
		Note:  "Of those who started; the longest of each moment.",
	}
	return a.each(f, 0, "seconds", func(r result) []float64 {
		values := make([]float64, chartColumns/4) // wide enough for an arrival in each
		for _, p := range r.flows[i].waited {
			if c := int(p.at * int64(len(values)) / int64(a.span())); c >= 0 && c < len(values) {
				values[c] = max(values[c], p.value)
			}
		}
		return values
	})
}

func (a act) barFigure(i int) figure {
	first := a.results[0].flows[i]
	f := figure{Title: fmt.Sprintf("Starts, of the %d possible", first.possible)}
	if len(a.scenario.flows) > 1 {
		f.Title = fmt.Sprintf("Starts of the %s limiter (%v), of the %d possible", first.quota.Name, first.quota.Rate, first.possible)
	}
	for _, r := range a.results {
		part := r.flows[i].reached()
		f.Bars = append(f.Bars, bar{
			Name: r.way.name, Share: min(100, part*100), Mark: pick(part < 0.9, "bad", "good"),
			Text: fmt.Sprintf("%d (%s)", r.flows[i].inTime, percent(part)),
		})
	}
	return f
}

func floats(list []int) []float64 {
	out := make([]float64, len(list))
	for i, v := range list {
		out[i] = float64(v)
	}
	return out
}
