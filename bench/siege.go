package main

// A siege is a wave that each of several halls meets in turn.
type siege struct {
	what  string // the row of the table
	name  string // Benchmark<method>/<name>
	halls []hall // the first is Turnstile
	n     int
	how   leaving
	again bool               // a wave at the same house before the one that is measured: its free list is filled
	goals map[string]float64 // by hall: the largest ratio, Turnstile's time over the hall's

	objects, bytes float64 // the most that a waiter at Turnstile may allocate
}

// freeList is a number of waiters that Turnstile's limiters keep the records of for reuse: they keep 256.
const freeList = 250

// sieges are waves of n waiters.
func sieges(n int) []siege {
	crowd, few := thousands(n), thousands(freeList)
	passing, atOnce := fullHalls(1), append(fullHalls(int64(n)), hall{plain, control})
	drained, cancelled := map[string]float64{weighted: 1}, map[string]float64{rateAlone: 0.7}
	return []siege{
		{what: crowd + " waiting, drained, one permit passed on", name: "1 permit passed on", halls: passing, n: n,
			goals: drained, objects: 2, bytes: 192},
		{what: crowd + " waiting, drained, all permits at once", name: "all permits at once", halls: atOnce, n: n,
			goals: drained, objects: 2, bytes: 192},
		{what: crowd + " waiting a second time", name: "the second time", halls: passing[:1], n: n,
			again: true, objects: 2, bytes: 192},
		{what: few + " waiting a second time", name: "few, the second time", halls: passing[:1], n: freeList,
			again: true},
		{what: crowd + " cancelled, one context for all", name: "one context", halls: spentHalls(), n: n,
			how: together, goals: cancelled, objects: 2, bytes: 192},
		{what: crowd + " cancelled, a context each, in order", name: "a context each, in order", halls: spentHalls(), n: n,
			how: oneByOne, goals: cancelled, objects: 2, bytes: 192},
		{what: crowd + " cancelled, a context each, the last first", name: "a context each, the last first", halls: spentHalls(), n: n,
			how: fromBehind, goals: cancelled, objects: 2, bytes: 192},
	}
}

// lay performs s with each hall in turn, round after round, and returns results per waiter.
func (s siege) lay(rounds int) []result {
	results := make([]result, len(s.halls))
	flood(control(), s.n, s.how) // the runtime's own free lists
	for round := range rounds {
		idle := flood(control(), s.n, s.how)
		for i := range s.halls {
			i := (i + round) % len(s.halls)
			w := s.wave(s.halls[i])
			r := &results[i]
			r.name = s.halls[i].name
			r.ns = append(r.ns, float64(w.took.Nanoseconds())/float64(s.n))
			r.bytes = append(r.bytes, w.bytes-idle.bytes)
			r.objects = append(r.objects, w.objects-idle.objects)
		}
	}
	return results
}

// wave performs s once at a new house of the hall.
func (s siege) wave(of hall) wave {
	h := of.make()
	if s.again {
		h.shut()
		flood(h, s.n, s.how)
	}
	h.shut()
	return flood(h, s.n, s.how)
}
