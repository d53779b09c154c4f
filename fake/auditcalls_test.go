package fake

import (
	"strings"
	"testing"
)

func TestC2_TheCapInForceAtTheStartCounts(t *testing.T) {
	l := &Ledger{}
	l.Start(1, 1, at(0), at(0), 1, 2)
	l.Start(2, 2, at(0), at(0), 1, 1)
	l.Limit(3, at(1), 0, 0, 0, 1) // a shrink alone is none
	l.End(1, 4, at(2))
	l.End(2, 5, at(2))
	l.Start(3, 6, at(2), at(2), 1, 1)
	l.End(3, 7, at(3))
	if r := Audit(l, AuditConfig{Limits: Limits{MaxInFlight: 3}}); !r.OK() || r.PeakWeight != 3 || r.Started != 3 || r.Ended != 3 {
		t.Errorf("%v", r)
	}
	l.Start(4, 8, at(3), at(3), 1, 2) // above 1
	l.End(4, 9, at(3))
	l.Limit(10, at(4), 0, 0, 0, 0)
	l.Start(5, 11, at(4), at(4), 1, 0) // nothing starts at 0, weightless or not
	l.Limit(12, at(5), 0, 0, 0, NoCap)
	l.Start(6, 13, at(5), at(5), 1, 1<<62)
	r := Audit(l, AuditConfig{Limits: Limits{MaxInFlight: 3}})
	if clauses(r) != "C2 C2" || r.Violations[0].ID != 4 || r.Violations[1].ID != 5 {
		t.Errorf("%v", r)
	}
	if want := "call 4, weight 2, started at 2030-01-01T12:00:00.003Z, seq 8, with 0 in flight: the cap is 1"; r.Violations[0].Text != want {
		t.Errorf("got %q, want %q", r.Violations[0].Text, want)
	}
	if r := Audit(l, AuditConfig{}); clauses(r) != "C2 C2" {
		t.Errorf("caps by changes alone: %v", r)
	}
}

func TestC2_ACapOfALineAndACapOverAllLinesBothHold(t *testing.T) {
	l := &Ledger{}
	a, b := l.Line("a"), l.Line("b")
	a.Start(1, 1, at(0), at(0), 1, 1)
	b.Start(1, 2, at(0), at(0), 1, 1) // the same id on another line
	a.Start(2, 3, at(0), at(0), 1, 1)
	one := map[string]Limits{"a": {MaxInFlight: 1}}
	if r := Audit(l, AuditConfig{Limits: Limits{MaxInFlight: 3}, Lines: one}); clauses(r) != "C2" || r.Violations[0].Line != "a" {
		t.Errorf("%v", r)
	}
	if r := Audit(l, AuditConfig{Limits: Limits{MaxInFlight: 2}, Lines: one}); clauses(r) != "C2 C2" {
		t.Errorf("%v", r)
	}
	a.End(1, 4, at(1))
	b.End(1, 5, at(1))
	a.Limit(6, at(1), 0, 0, 0, 2)
	a.Start(3, 7, at(1), at(1), 1, 1)
	if r := Audit(l, AuditConfig{Limits: Limits{MaxInFlight: 3}, Lines: one}); clauses(r) != "C2" {
		t.Errorf("after the change: %v", r)
	}
	a.Limit(8, at(2), 0, 0, 0, 9) // of the line alone
	for id := range uint64(3) {
		a.Start(10+id, 9+id, at(2), at(2), 1, 1)
	}
	if r := Audit(l, AuditConfig{Limits: Limits{MaxInFlight: 3}, Lines: one}); clauses(r) != "C2 C2 C2" || r.Violations[2].Line != "" {
		t.Errorf("a cap of a line changed that of the whole: %v", r)
	}
}

func TestC3_AnOvertakerIsFoundPerLine(t *testing.T) {
	l := &Ledger{}
	a, b := l.Line("a"), l.Line("b")
	a.Join(1, 1, at(0))
	b.Join(1, 2, at(0))
	a.Join(2, 3, at(0))
	a.Join(3, 4, at(0))
	a.Join(4, 4, at(0))
	b.Start(1, 5, at(1), at(1), 1, 1) // another line: free
	a.Leave(1, 6, at(1))              // left: overtakes nobody
	a.Start(2, 7, at(1), at(1), 1, 1)
	if r := Audit(l, AuditConfig{}); !r.OK() || r.Left != 1 || r.Calls != 5 {
		t.Errorf("%v", r)
	}
	a.Start(9, 8, at(2), at(2), 1, 1) // a newcomer passes call 3
	a.Start(3, 9, at(3), at(3), 1, 1)
	a.Start(4, 10, at(3), at(3), 1, 1) // in order behind 3, yet passed by 9 as well
	r := Audit(l, AuditConfig{})
	if clauses(r) != "C3 C3" || r.Violations[1].ID != 4 || r.Violations[0].Text != "call 3, which joined at seq 4, started at seq 9, after call 9, which joined at seq 8" {
		t.Errorf("%v", r)
	}
}

func TestC8_EveryDoubleIsReported(t *testing.T) {
	for want, fill := range map[string]func(l *Ledger){
		"call 1 started a second time": func(l *Ledger) { l.Start(1, 1, at(0), at(0), 1, 1); l.Start(1, 2, at(0), at(0), 1, 1) },
		"call 1 ended a second time": func(l *Ledger) {
			l.Start(1, 1, at(0), at(0), 1, 1)
			l.End(1, 2, at(0))
			l.End(1, 3, at(0))
		},
		"call 1 ended without a start":  func(l *Ledger) { l.End(1, 1, at(0)) },
		"call 1 joined a second time":   func(l *Ledger) { l.Join(1, 1, at(0)); l.Join(1, 2, at(0)) },
		"call 1 joined after its start": func(l *Ledger) { l.Start(1, 1, at(0), at(0), 1, 1); l.Join(1, 2, at(0)) },
		"call 1 joined after it left":   func(l *Ledger) { l.Leave(1, 1, at(0)); l.Join(1, 2, at(0)) },
		"call 1 left after its start":   func(l *Ledger) { l.Start(1, 1, at(0), at(0), 1, 1); l.Leave(1, 2, at(0)) },
		"call 1 left a second time":     func(l *Ledger) { l.Leave(1, 1, at(0)); l.Leave(1, 2, at(0)) },
		"call 1 started after it left":  func(l *Ledger) { l.Leave(1, 1, at(0)); l.Start(1, 2, at(0), at(0), 1, 1) },
	} {
		l := &Ledger{}
		fill(l)
		r := Audit(l, AuditConfig{})
		if clauses(r) != "C8" || !strings.HasPrefix(r.Violations[0].Text, want) {
			t.Errorf("got %v, want %q", r, want)
		}
	}
}

func TestC8_ADoubleCountsOnce(t *testing.T) {
	l := &Ledger{}
	l.Start(1, 1, at(0), at(0), 1, 1)
	l.Start(1, 2, at(1), at(1), 1, 1)
	l.End(1, 3, at(2))
	l.End(1, 4, at(3))
	l.Start(2, 5, at(3), at(3), 1, 1)
	l.Start(3, 6, at(3), at(3), 1, 1)
	r := Audit(l, AuditConfig{Limits: Limits{MaxInFlight: 1}})
	if clauses(r) != "C8 C8 C2" || r.Started != 3 || r.Ended != 1 || r.PeakWeight != 2 {
		t.Errorf("%v", r)
	}
	if e := l.Entries(); len(e) != 3 || !e[0].Started.Equal(at(0)) || !e[0].Ended.Equal(at(2)) || e[0].EndSeq != 3 {
		t.Errorf("%+v", e)
	}
}
