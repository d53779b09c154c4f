package throttle

import "testing"

// maxGateInput bounds the history of one fuzz input, since the model's cost grows with it.
const maxGateInput = 400

// FuzzGate has bytes become limits and then operations, on several lines and caps, each of which is checked and
// compared with the model, and the whole audited.
func FuzzGate(f *testing.F) {
	f.Fuzz(func(t *testing.T, history []byte) {
		s := bytesSource(history[:min(len(history), maxGateInput)])
		must(t, newTwin(drawSetup(&s)).run(&s))
	})
}
