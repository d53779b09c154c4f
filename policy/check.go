package policy

import (
	"fmt"
	"strings"

	"github.com/turnstile-go/turnstile/throttle"
)

// check makes each policy's limiter, to be thrown away, so that whatever a limiter refuses is a fault of the file.
func (p *reader) check(policies []Policy) *Error {
	byName := map[string]*Policy{}
	for i := range policies {
		byName[policies[i].Name] = &policies[i]
	}
	for i := range policies {
		a := &policies[i]
		wrong := func(format string, args ...any) *Error {
			source := p.line(a.Line)
			return &Error{File: p.name, Line: a.Line, Column: 1 + len([]rune(source)) - len([]rune(strings.TrimLeft(source, " \t"))),
				Message: fmt.Sprintf("policy %q: ", a.Name) + fmt.Sprintf(format, args...), Source: source}
		}
		if above := byName[a.Parent]; a.Parent != "" {
			switch {
			case above == nil:
				return wrong("parent is %q, and there is no such policy", a.Parent)
			case above.Keyed:
				return wrong("parent is %q, which is keyed; want one that is not", a.Parent)
			}
			steps := 0
			for x := above; x != nil; x = byName[x.Parent] {
				if steps++; x == a || steps > len(policies) {
					return wrong("it is above itself by its parents")
				}
			}
		}
		if a.MaxKeys != 0 && !a.Keyed {
			return wrong("max_keys is %d, but keyed is not true; want both or neither", a.MaxKeys)
		}
		c := a.Config()
		if a.Parent != "" {
			root, err := throttle.New(throttle.Config{MaxInFlight: throttle.MaxCap})
			if err != nil {
				return wrong("%v", err)
			}
			c.Parent = root
		}
		if _, err := throttle.New(c); err != nil {
			fault := wrong("%s", strings.TrimPrefix(err.Error(), fmt.Sprintf("throttle: %q: Config: ", a.Name)))
			fault.Err = err
			return fault
		}
	}
	return nil
}
