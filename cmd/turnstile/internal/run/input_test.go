package run

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// scanned returns the lines of the input as "number:text", and what ended it.
func scanned(r io.Reader) (lines []string, err error) {
	err = scan(r, func(l line) bool {
		if l.err != nil {
			lines = append(lines, fmt.Sprintf("%d:%s", l.number, l.err))
		} else {
			lines = append(lines, fmt.Sprintf("%d:%s", l.number, l.text))
		}
		return true
	})
	return lines, err
}

func TestScan_TakesLinesAsPeopleWriteThem(t *testing.T) {
	for input, want := range map[string][]string{
		"":                        nil,
		"\n\n":                    nil,
		"a":                       {"1:a"},
		"a\n":                     {"1:a"},
		"a\nb":                    {"1:a", "2:b"},
		"a\r\nb\r\n":              {"1:a", "2:b"},
		"\n \t\r\na\n\n":          {"3:a"},
		" a b \n":                 {"1: a b "},
		"a\rb\n":                  {"1:a\rb"},
		"a\r\r\n":                 {"1:a\r"},
		"\ufeffa\n\ufeffb":        {"1:a", "2:\ufeffb"},
		"\xff\xfe\n":              {"1:\xff\xfe"},
		"last line\nwithout end ": {"1:last line", "2:without end "},
	} {
		for _, r := range []io.Reader{strings.NewReader(input), iotest.OneByteReader(strings.NewReader(input))} {
			if got, err := scanned(r); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q: %q, %v, want %q", input, got, err, want)
			}
		}
	}
}

func TestScan_ALineAboveTheBoundIsToldAndSkipped(t *testing.T) {
	full := strings.Repeat("x", MaxLine)
	for _, end := range []string{"\n", "\r\n", ""} {
		got, err := scanned(strings.NewReader("a\n" + full + end))
		if err != nil || len(got) != 2 || got[1] != "2:"+full {
			t.Errorf("a line of the bound's length before %q: %d lines, %v", end, len(got), err)
		}
	}
	for _, extra := range []string{"y", strings.Repeat("y", 3*MaxLine)} {
		got, err := scanned(strings.NewReader("a\n" + full + extra + "\nb\n"))
		want := []string{"1:a", "2:the line is longer than 1048576 bytes; it was not run", "3:b"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d bytes more: %.200q, %v", len(extra), got, err)
		}
	}
}

func TestScan_GivesWhatCameBeforeAnError(t *testing.T) {
	gone := errors.New("gone")
	got, err := scanned(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(gone)))
	if err != gone || !slices.Equal(got, []string{"1:a", "2:b"}) {
		t.Errorf("got %q, %v", got, err)
	}
}
