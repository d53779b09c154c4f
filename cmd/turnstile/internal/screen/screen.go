// Package screen says what the thing written to can show.
package screen

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Width returns the number of columns of the terminal behind w. It is 0 where w is not a
// terminal, or is one that cannot move its cursor (TERM=dumb).
func Width(w io.Writer) int {
	if !IsTerminal(w) || os.Getenv("TERM") == "dumb" {
		return 0
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil || width < 1 {
		return 80
	}
	return width
}

// IsTerminal reports whether v, something read from or written to, is a terminal.
func IsTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Colours reports whether w is a terminal that should be sent colours: NO_COLOR (https://no-color.org) is unset or empty.
func Colours(w io.Writer) bool {
	return Width(w) > 0 && os.Getenv("NO_COLOR") == ""
}
