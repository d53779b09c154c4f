package policy

import (
	"fmt"
	"strings"
)

// An Error says what is wrong in a policy file, and where.
type Error struct {
	File         string // as it was given to Parse or Load
	Line, Column int    // counted from 1; 0 where no place can be told
	Message      string
	Source       string // the line's text
	Err          error  // what a limiter said, or nil
}

// Error returns "policy: FILE:LINE:COLUMN: MESSAGE", and below it the line with a caret.
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("policy: %s: %s", e.File, e.Message)
	}
	text := fmt.Sprintf("policy: %s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	if e.Source == "" || len(e.Source) > 160 {
		return text
	}
	margin := fmt.Sprintf("%5d | ", e.Line)
	pad := []rune(e.Source)
	for i := range pad { // tabs stay, so that the caret stands where it should
		if pad[i] != '\t' {
			pad[i] = ' '
		}
	}
	before := string(pad[:min(max(e.Column-1, 0), len(pad))])
	return text + "\n" + margin + e.Source + "\n" + strings.Repeat(" ", len(margin)-2) + "| " + before + "^"
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
