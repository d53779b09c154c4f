package throttle

import (
	"encoding/binary"
	"testing"
	"time"
)

// bucketOps are the operations of FuzzBucket: a byte for the kind, a byte for the size of the number, and
// eight for the number.
const (
	bucketPass = iota
	bucketTake
	bucketCharge
	bucketDue
	bucketWait
	bucketWaitMore
	bucketChange
	bucketBack
	bucketOps
)

const bucketOpLen = 10

// within brings x into the range from 1 to top.
func within(x uint64, top int64) int64 { return 1 + int64(x%uint64(top)) }

// rateOf brings n and period into the range of rates: N from 1 to Period.
func rateOf(n, period uint64) Rate {
	p := within(period, never)
	return Rate{within(n, p), time.Duration(p)}
}

// FuzzBucket compares a bucket with exact rational numbers: level, what is there, due, wait, charge, debt and
// change, for the whole range of rates, bursts and instants.
func FuzzBucket(f *testing.F) {
	f.Fuzz(func(t *testing.T, n, period, burst uint64, steps []byte) {
		b := newRated(rateOf(n, period), within(burst, MaxBurst))
		for len(steps) >= bucketOpLen {
			kind, size, number := steps[0]%bucketOps, steps[1]%64, binary.LittleEndian.Uint64(steps[2:])
			x := number >> size
			steps = steps[bucketOpLen:]
			k := within(x, b.burst)
			switch kind {
			case bucketPass:
				b.now += min(int64(x>>1), never-b.now)
			case bucketTake:
				must(t, b.take(k))
			case bucketCharge:
				if b.bucket.level(b.now) > -MaxBurst+k { // debt goes down to that
					b.charge(k)
				}
			case bucketDue:
				b.charge(1)
				if is, want := b.due(k), b.exact.tokensDue(k); is != want {
					t.Fatalf("at %d, %d tokens are due at %d; want %d", b.now, k, is, want)
				}
			case bucketWait:
				must(t, b.checkWait(u128{lo: uint64(k)}))
			case bucketWaitMore: // the costs of many in line
				must(t, b.checkWait(u128{hi: uint64(size & 1), lo: x}))
			case bucketChange:
				b.change(rateOf(x, number), within(number>>(size/2), MaxBurst))
			case bucketBack:
				if at := b.last - int64(x>>1); b.missingAt(at) != b.missing {
					t.Fatalf("at %d, before %d, %v is missing; want %v", at, b.last, b.missingAt(at), b.missing)
				}
			}
			must(t, b.check())
		}
	})
}
