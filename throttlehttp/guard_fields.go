package throttlehttp

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// maxName is the longest Rule.Name.
const maxName = 64

// A budgeter is an Admitter that can tell what is left.
type budgeter interface {
	Budgets() []throttle.Budget
}

// tellBudgets adds the fields RateLimit-Policy and RateLimit, a member for each budget:
//
//	RateLimit-Policy: "api";q=10;w=60
//	RateLimit: "api";r=6;t=24
//
// q is the burst, w the seconds in which it is earned, r what is left, and t the seconds until all is there again. w and t are rounded up, and r is rounded
// down, so that a client that holds to them is let through. Fields that are there already, from a Guard around this one, are kept: they are lists.
//
// The numbers are those of one instant, right after the decision: what other requests of the same key took in between is in them.
func tellBudgets(h http.Header, rule string, budgets []throttle.Budget) {
	if len(budgets) == 0 {
		return
	}
	policies, limits := make([]Policy, len(budgets)), make([]Limit, len(budgets))
	for i, b := range budgets {
		name := budgetName(rule, i, b)
		window := seconds(max(wholeSeconds(b.Window()), 1))
		policies[i] = Policy{Name: name, Quota: min(b.Quota.Burst, maxField), Window: window.Truncate(time.Second)}
		limits[i] = Limit{Name: name, Remaining: min(max(b.Tokens, 0), maxField), Reset: b.FullIn, HasReset: true}
	}
	allowed, err := FormatPolicies(policies)
	left, err2 := FormatLimits(limits)
	if err != nil || err2 != nil {
		return // names and numbers are in their ranges: it cannot be; and no answer fails for want of a field that may be left out
	}
	h.Add(PolicyField, allowed)
	h.Add(LimitField, left)
}

// budgetName is what a budget of a rule is called in fields: the rule's name, with the quota's own name, or its place, behind a slash. A character
// that may not stand in a field is replaced.
func budgetName(rule string, i int, b throttle.Budget) string {
	switch {
	case b.Quota.Name != "":
		return rule + "/" + strings.Map(func(c rune) rune {
			if mayStand(c) {
				return c
			}
			return '_'
		}, b.Quota.Name)
	case i > 0:
		return rule + "/" + strconv.Itoa(i)
	}
	return rule
}

// mayStand reports whether c may stand in a String without an escape.
func mayStand(c rune) bool { return c >= ' ' && c <= '~' && c != '"' && c != '\\' }

func isFieldName(name string) bool {
	return len(name) >= 1 && len(name) <= maxName && !strings.ContainsFunc(name, func(c rune) bool { return !mayStand(c) })
}

// violated names the budgets that do not cover the cost, or the rule where all do: then it is a limit above, a pause or the line.
func violated(rule string, a throttle.Admitter, c throttle.Cost) []string {
	var names []string
	if b, ok := a.(budgeter); ok {
		for i, b := range b.Budgets() {
			cost, named := c.Quotas[b.Quota.Name]
			if !named || b.Quota.Name == "" {
				cost = c.Tokens
			}
			if b.Tokens < cost {
				names = append(names, budgetName(rule, i, b))
			}
		}
	}
	if names == nil {
		names = []string{rule}
	}
	return names
}
