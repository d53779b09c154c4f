package throttle

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// seedsOf returns the committed seeds of a fuzz target, each as its arguments.
func seedsOf(t *testing.T, target string) (seeds [][]string) {
	files, err := filepath.Glob(filepath.Join("testdata", "fuzz", target, "*"))
	must(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		must(t, err)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		seeds = append(seeds, lines[1:])
	}
	return seeds
}

// bytesOf reads an argument of a seed that is a slice of bytes.
func bytesOf(t *testing.T, arg string) []byte {
	text, err := strconv.Unquote(strings.TrimSuffix(strings.TrimPrefix(arg, "[]byte("), ")"))
	must(t, err)
	return []byte(text)
}

func TestFuzzSeedsUseEveryOperation(t *testing.T) {
	var bucketSeen [bucketOps]int
	for _, seed := range seedsOf(t, "FuzzBucket") {
		for steps := bytesOf(t, seed[3]); len(steps) >= bucketOpLen; steps = steps[bucketOpLen:] {
			bucketSeen[steps[0]%bucketOps]++
		}
	}
	for kind, n := range bucketSeen {
		if n == 0 {
			t.Errorf("no seed of FuzzBucket has operation %d", kind)
		}
	}

	var joins, leaves int
	for _, seed := range seedsOf(t, "FuzzLine") {
		for _, s := range bytesOf(t, seed[0]) {
			if s%2 == 0 {
				joins++
			} else {
				leaves++
			}
		}
	}
	if joins == 0 || leaves == 0 {
		t.Errorf("the seeds of FuzzLine join %d times and leave %d times", joins, leaves)
	}

	var gateSeen [opKinds]int
	var whys [byNewcomer + 1]int
	var late, trees, quotas int
	for _, seed := range seedsOf(t, "FuzzGate") {
		s := bytesSource(bytesOf(t, seed[0]))
		w := newTwin(drawSetup(&s))
		must(t, w.run(&s))
		if w.gates[0].tree.inner {
			trees++
		}
		for _, l := range w.lines {
			quotas += len(l.quotas)
		}
		for _, o := range w.ops {
			gateSeen[o.kind]++
		}
		for _, e := range w.log {
			if e.what == starts && e.nominal < e.at {
				late++
			}
			whys[e.why]++
		}
	}
	for kind, n := range gateSeen {
		if n == 0 {
			t.Errorf("no seed of FuzzGate has operation %d", kind)
		}
	}
	for why, n := range whys {
		if n == 0 {
			t.Errorf("no seed of FuzzGate refuses somebody for reason %d", why)
		}
	}
	if trees == 0 || quotas == 0 {
		t.Errorf("the seeds of FuzzGate have %d trees and %d quotas besides", trees, quotas)
	}
	if late == 0 {
		t.Error("no seed of FuzzGate has a start as of an instant in the past")
	}
}
