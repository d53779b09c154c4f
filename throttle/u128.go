package throttle

import "math/bits"

// A u128 is a whole number from 0 to 2^128 - 1. The buckets' numbers stay below 2^127, so
// that no operation here overflows.
type u128 struct{ hi, lo uint64 }

func mul(a, b uint64) u128 {
	hi, lo := bits.Mul64(a, b)
	return u128{hi, lo}
}

func (a u128) add(b u128) u128 {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return u128{hi, lo}
}

// sub returns a - b; b is at most a.
func (a u128) sub(b u128) u128 {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, borrow)
	return u128{hi, lo}
}

func (a u128) less(b u128) bool {
	return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo
}

// div returns the whole quotient and the rest of a / d; the quotient is below 2^64.
func (a u128) div(d uint64) (quotient, rest uint64) {
	return bits.Div64(a.hi, a.lo, d)
}
