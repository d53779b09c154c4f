package measure

import "slices"

// MostIn returns the largest number of sorted instants in any half-open window [a, a+length), and
// the first instant of the first such window. O(n).
func MostIn(sorted []int64, length int64) (most int, from int64) {
	first := 0
	for last, at := range sorted {
		for at-sorted[first] >= length {
			first++
		}
		if n := last - first + 1; n > most {
			most, from = n, sorted[first]
		}
	}
	return most, from
}

// Trailing returns, for each of n equal columns of [0, span), the largest number of sorted
// instants in any window (a-length, a] that ends inside the column. The largest of all columns is thus
// exactly MostIn of the instants within the span. O(instants + n).
func Trailing(sorted []int64, length, span int64, n int) []int {
	columns := make([]int, n)
	first, next := 0, 0
	for c := range columns {
		begin, end := span*int64(c)/int64(n), span*int64(c+1)/int64(n)
		for first < next && begin-sorted[first] >= length {
			first++
		}
		columns[c] = next - first // what the window still holds as the column begins
		for next < len(sorted) && sorted[next] < end {
			for sorted[next]-sorted[first] >= length {
				first++
			}
			next++
			columns[c] = max(columns[c], next-first)
		}
	}
	return columns
}

// A Span is something that lasts from one instant to another.
type Span struct{ From, To int64 }

// Overlap returns how many spans are open at most at the same instant, over all and in each of n
// equal columns of [0, length). A span is open in [From, To): one that ends where another begins does not overlap it.
func Overlap(spans []Span, length int64, n int) (peak int, columns []int) {
	type change struct {
		at int64
		by int
	}
	changes := make([]change, 0, 2*len(spans))
	for _, s := range spans {
		if s.To > s.From {
			changes = append(changes, change{s.From, 1}, change{s.To, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		if a.at != b.at {
			if a.at < b.at {
				return -1
			}
			return 1
		}
		return a.by - b.by
	})
	columns = make([]int, n)
	open, next := 0, 0
	for c := range columns {
		end := length * int64(c+1) / int64(n)
		columns[c] = open
		for next < len(changes) && changes[next].at < end {
			open += changes[next].by
			columns[c] = max(columns[c], open)
			next++
			peak = max(peak, open)
		}
	}
	for ; next < len(changes); next++ {
		open += changes[next].by
		peak = max(peak, open)
	}
	return peak, columns
}

// Total returns the sum of the spans' lengths.
func Total(spans []Span) (sum int64) {
	for _, s := range spans {
		sum += s.To - s.From
	}
	return sum
}
