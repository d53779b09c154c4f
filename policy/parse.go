package policy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/turnstile-go/turnstile/throttle"
)

// MaxSize is the most bytes that a policy file may have.
const MaxSize = 256 << 10

// maxDepth is how deep brackets, or dashes in one line, may nest: twice what a policy needs, and too little for the YAML parser's stack to matter.
const maxDepth = 8

// Parse reads a policy file, YAML or JSON, whose name is for errors. It returns the policies in the file's order, each of which a limiter
// takes, or an *Error that says where the first fault is. Fields that it does not know, keys that come twice, values of another type, anchors,
// aliases and a second document are faults.
func Parse(name string, text []byte) ([]Policy, error) {
	p := reader{name: name, text: text}
	policies, fault := p.read()
	if fault != nil {
		return nil, fault
	}
	if fault := p.check(policies); fault != nil {
		return nil, fault
	}
	return policies, nil
}

// A reader walks the tree that the YAML parser gives, which knows the place of each value.
type reader struct {
	name string
	text []byte
}

func (p *reader) read() (policies []Policy, fault *Error) {
	if len(p.text) > MaxSize {
		return nil, &Error{File: p.name, Message: fmt.Sprintf("it has %d bytes; want %d at most", len(p.text), MaxSize)}
	}
	if depth := nesting(p.text); depth > maxDepth {
		return nil, &Error{File: p.name, Message: fmt.Sprintf("its brackets or dashes nest %d deep; want %d at most", depth, maxDepth)}
	}
	defer func() { // the parser is not ours; a fault of its own must not end the process
		if r := recover(); r != nil {
			policies, fault = nil, &Error{File: p.name, Message: fmt.Sprintf("it is no YAML that can be read: %v", r)}
		}
	}()
	file, err := parser.ParseBytes(p.text, 0)
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) {
			return nil, p.at(at.GetToken(), "%s", at.GetMessage())
		}
		return nil, &Error{File: p.name, Message: err.Error()}
	}
	var docs []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil {
			docs = append(docs, d.Body)
		}
	}
	if len(docs) == 0 {
		return nil, &Error{File: p.name, Message: "it is empty; want policies: and names below it"}
	}
	if len(docs) > 1 {
		return nil, p.at(docs[1].GetToken(), "a second document; want one")
	}
	found := false
	fault = p.mapping(docs[0], "the file", func(key *token.Token, name string, value ast.Node) *Error {
		if name != "policies" {
			return p.at(key, "unknown field %q; want policies", name)
		}
		found = true
		return p.mapping(value, "policies", func(key *token.Token, name string, value ast.Node) *Error {
			policy := Policy{Name: name, Line: key.Position.Line}
			if name == "" {
				return p.at(key, "a policy's name is empty")
			}
			fault := p.mapping(value, fmt.Sprintf("policy %q", name), func(key *token.Token, field string, value ast.Node) *Error {
				return p.field(&policy, key, field, value)
			})
			policies = append(policies, policy)
			return fault
		})
	})
	if fault == nil && !found {
		fault = p.at(docs[0].GetToken(), "there is no field policies")
	}
	if fault != nil {
		return nil, fault
	}
	return policies, nil
}

// nesting returns how deep brackets nest, and dashes at the front of a line, at most: brackets in quotes and comments count too. The YAML
// parser takes a time that grows with the square of it.
func nesting(text []byte) (most int) {
	depth, dashes, front := 0, 0, true
	for _, c := range text {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		case '\n':
			dashes, front = 0, true
			continue
		case '-':
			dashes++
		}
		front = front && (c == ' ' || c == '-')
		most = max(most, depth)
		if front && c == ' ' {
			most = max(most, dashes)
		}
	}
	return most
}

// mapping calls each for the fields of a mapping, whose keys are text; that they differ the YAML parser has seen to.
func (p *reader) mapping(n ast.Node, what string, each func(key *token.Token, name string, value ast.Node) *Error) *Error {
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		return p.at(n.GetToken(), "%s is %s; want fields and values", what, kindOf(n))
	}
	for _, pair := range pairs {
		key := pair.Key.GetToken()
		name, ok := pair.Key.(*ast.StringNode)
		if !ok {
			return p.at(key, "a key of %s is not plain text", what)
		}
		if fault := each(key, name.Value, pair.Value); fault != nil {
			return fault
		}
	}
	return nil
}

// field puts the value of one field into a policy.
func (p *reader) field(policy *Policy, key *token.Token, name string, n ast.Node) *Error {
	switch name {
	case "rate":
		return p.text1(n, name, "a rate such as 10/s", func(s string) (err error) {
			policy.Rate, err = throttle.ParseRate(s)
			return err
		})
	case "burst":
		return p.number(n, name, throttle.MaxBurst, &policy.Burst)
	case "quotas":
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			return p.at(n.GetToken(), "quotas is %s; want a list of quotas, such as [10/s burst 20, at most 100 in 1m]", kindOf(n))
		}
		for _, item := range list.Values {
			if fault := p.text1(item, "a quota", "a quota such as 10/s burst 20", func(s string) error {
				q, err := throttle.ParseQuota(s)
				policy.Quotas = append(policy.Quotas, q)
				return err
			}); fault != nil {
				return fault
			}
		}
		return nil
	case "in_flight":
		return p.number(n, name, throttle.MaxCap, &policy.InFlight)
	case "max_wait":
		return p.text1(n, name, "a time such as 30s", func(s string) (err error) {
			policy.MaxWait, err = time.ParseDuration(s)
			if err != nil || policy.MaxWait <= 0 {
				return fmt.Errorf("max_wait is %q; want a time above zero, such as 1m30s", s)
			}
			return nil
		})
	case "max_queue":
		return p.number(n, name, math.MaxInt32, &policy.MaxQueue)
	case "parent":
		return p.text1(n, name, "the name of a policy", func(s string) error {
			policy.Parent = s
			if s == "" {
				return errors.New("parent is empty; want the name of a policy")
			}
			return nil
		})
	case "share":
		return p.number(n, name, throttle.MaxShare, &policy.Share)
	case "keyed":
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return p.at(n.GetToken(), "keyed is %s; want true or false", kindOf(n))
		}
		policy.Keyed = b.Value
		return nil
	case "max_keys":
		return p.number(n, name, math.MaxInt32, &policy.MaxKeys)
	}
	return p.at(key, "unknown field %q of policy %q; want rate, burst, quotas, in_flight, max_wait, max_queue, parent, share, keyed or max_keys",
		name, policy.Name)
}

// text1 reads a text, or a number as the text that it is, so that the reader of a rate can say what a bare number lacks.
func (p *reader) text1(n ast.Node, what, want string, read func(string) error) *Error {
	var s string
	switch n := n.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.IntegerNode, *ast.FloatNode:
		s = n.GetToken().Value
	default:
		return p.at(n.GetToken(), "%s is %s; want %s", what, kindOf(n), want)
	}
	if err := read(s); err != nil {
		fault := p.at(n.GetToken(), "%s", strings.TrimPrefix(err.Error(), "throttle: "))
		fault.Err = err
		return fault
	}
	return nil
}

// number reads a whole number, 1 to most, in plain digits.
func (p *reader) number(n ast.Node, name string, most int64, to *int64) *Error {
	_, ok := n.(*ast.IntegerNode)
	text := n.GetToken().Value
	v, err := strconv.ParseInt(text, 10, 64)
	switch {
	case !ok:
		return p.at(n.GetToken(), "%s is %s; want a whole number, 1 to %d", name, kindOf(n), most)
	case err != nil || v < 1 || v > most:
		return p.at(n.GetToken(), "%s is %.40s; want a whole number, 1 to %d", name, text, most)
	}
	*to = v
	return nil
}

// kindOf says what a value is, as its writer would.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	}
	return "a " + strings.ToLower(n.Type().String())
}

// at returns the Error at a token.
func (p *reader) at(t *token.Token, format string, args ...any) *Error {
	e := &Error{File: p.name, Message: fmt.Sprintf(format, args...)}
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
		e.Source = p.line(e.Line)
	}
	return e
}

// line returns the text of a line, counted from 1.
func (p *reader) line(n int) string {
	lines := strings.Split(string(p.text), "\n")
	if n < 1 || n > len(lines) {
		return ""
	}
	return strings.TrimSuffix(lines[n-1], "\r")
}
