package throttle

import "time"

// treeSmalls are the cases of two levels, and of several quotas at one.
var treeSmalls = []small{
	{
		name: "rate and a window",
		setup: setup{caps: []int64{2}, lines: []lineSetup{
			{rate: Rate{2, 5}, burst: 3, slack: 4, cap: 0, quotas: []Quota{AtMost(2, 7)}},
		}},
		callers: []op{arrival(0, 2, 1), arrival(0, 1, 1), arrival(0, 1, 2), trial(0, 1, 1)},
		changes: []op{refitting(0, 0, AtMost(3, 5)), quota(0, Rate{1, 1}, 2), pausing(0, 6)},
		passes:  4, quits: 1, events: 6, atLeast: 83_000,
	},
	{
		name: "rate and a fixed window",
		setup: setup{lines: []lineSetup{
			{rate: Rate{2, 5}, burst: 3, slack: 4, cap: -1, quotas: []Quota{FixedWindow(2, 7)}},
		}},
		callers: []op{arrival(0, 2, 1), arrival(0, 1, 1), arrival(0, 1, 1), trial(0, 1, 1)},
		changes: []op{refitting(0, 0, FixedWindow(3, 4)), pausing(0, 6)},
		passes:  4, quits: 1, events: 6, atLeast: 31_000,
	},
	{
		name: "two windows, one on a grid",
		setup: setup{caps: []int64{1}, lines: []lineSetup{
			{slack: 4, cap: 0, quotas: []Quota{AtMost(3, 11), FixedWindow(2, 7).AlignedTo(time.Time{}.Add(3))}},
		}},
		callers: []op{arrival(0, 2, 1), arrival(0, 1, 1), arrival(0, 1, 1), arrival(0, 2, 1)},
		changes: []op{pausing(0, 2)},
		passes:  4, quits: 1, events: 7, atLeast: 170_000, releases: true,
	},
	{
		name: "two levels, rates",
		setup: setup{lines: []lineSetup{
			{rate: Rate{2, 5}, burst: 2, slack: 4, cap: -1},
			{rate: Rate{1, 2}, burst: 2, slack: 9, cap: -1, above: 1, share: 1},
			{slack: 4, cap: -1, above: 1, share: 1}, // direct callers
		}},
		callers: []op{arrival(1, 2, 1), arrival(1, 1, 1), arrival(2, 2, 1), arrival(2, 1, 1)},
		changes: []op{quota(0, Rate{1, 1}, 2), quota(1, Rate{1, 3}, 1), closing(1)},
		passes:  3, quits: 1, events: 6, atLeast: 64_000,
	},
	{
		name: "two levels, permits of both",
		setup: setup{caps: []int64{2, 1}, lines: []lineSetup{
			{slack: 4, cap: 0},
			{slack: 4, cap: 1, above: 1, share: 1},
			{slack: 4, cap: -1, above: 1, share: 1},
		}},
		callers: []op{arrival(1, 1, 1), arrival(1, 1, 1), arrival(2, 1, 2), arrival(2, 1, 1), trial(1, 1, 1)},
		changes: []op{resizing(1), resizing(0), closing(0)},
		quits:   1, events: 6, atLeast: 107_000, releases: true,
	},
	{
		name: "two levels, the oldest goes",
		setup: setup{caps: []int64{1}, lines: []lineSetup{
			{rate: Rate{2, 5}, burst: 1, slack: 4, cap: 0},
			{slack: 4, cap: -1, above: 1, share: 1},
			{slack: 4, cap: -1, above: 1, share: 1},
		}},
		callers: []op{arrival(1, 1, 1), displacing(1, 1, 1), displacing(1, 1, 1), arrival(2, 1, 1), displacing(2, 1, 1)},
		passes:  2, quits: 1, events: 7, atLeast: 170_000, releases: true,
	},
	{
		name: "two levels, rate above and permits below",
		setup: setup{caps: []int64{1}, lines: []lineSetup{
			{rate: Rate{2, 5}, burst: 1, slack: 9, cap: -1},
			{slack: 2, cap: 0, above: 1, share: 1},
			{slack: 4, cap: 0, above: 1, share: 1}, // the cap is shared
		}},
		callers: []op{arrival(1, 1, 1), arrival(1, 1, 1), arrival(2, 1, 1), arrival(2, 1, 1)},
		changes: []op{pausing(1, 4), pausing(0, 4)},
		passes:  3, quits: 1, events: 6, atLeast: 82_000, releases: true,
	},
	{
		name: "two levels, three shares",
		setup: setup{caps: []int64{1}, lines: []lineSetup{
			{slack: 4, cap: 0},
			{slack: 4, cap: -1, above: 1, share: 2},
			{slack: 4, cap: -1, above: 1, share: 1},
			{slack: 4, cap: -1, above: 1, share: 1},
		}},
		callers: []op{
			arrival(1, 1, 1), arrival(1, 2, 1), arrival(1, 1, 1), arrival(2, 3, 1), arrival(3, 1, 1),
		},
		quits: 1, events: 8, atLeast: 53_000, releases: true,
	},
	{
		name: "two levels, quotas and caps at both",
		setup: setup{caps: []int64{2, 1}, lines: []lineSetup{
			{rate: Rate{2, 5}, burst: 2, slack: 4, cap: 0, quotas: []Quota{AtMost(2, 4)}},
			{rate: Rate{1, 2}, burst: 1, slack: 4, cap: 1, above: 1, share: 1},
			{slack: 4, cap: -1, above: 1, share: 1, quotas: []Quota{FixedWindow(1, 6)}},
		}},
		callers: []op{arrival(1, 1, 1), arrival(1, 1, 1), arrival(2, 1, 1), arrival(2, 1, 2)},
		changes: []op{pausing(0, 5), pausing(1, 3), resizing(1)},
		passes:  3, quits: 1, events: 6, atLeast: 136_000, releases: true,
	},
	{
		name: "three levels, a cap shared in the middle",
		setup: setup{caps: []int64{1, 1}, lines: []lineSetup{
			{rate: Rate{2, 5}, burst: 1, slack: 9, cap: -1},
			{slack: 4, cap: 0, above: 1, share: 1},
			{slack: 4, cap: 0, above: 1, share: 1},
			{slack: 4, cap: 1, above: 2, share: 1},
			{slack: 4, cap: -1, above: 1, share: 1},
		}},
		callers: []op{arrival(4, 1, 1), arrival(3, 1, 1), arrival(2, 1, 1), arrival(3, 1, 1)},
		changes: []op{pausing(1, 2), resizing(2)},
		passes:  3, quits: 1, events: 6, atLeast: 79_000, releases: true,
	},
}
