package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"
)

// header says on what, when and how the figures below it were measured.
func (p program) header(out io.Writer) error {
	cpu := cpuid.CPU.BrandName
	if cpu == "" {
		cpu = "of unknown model"
	}
	_, err := fmt.Fprintf(out, `- Command: %s
- CPU: %s, %d cores (GOMAXPROCS %d), %s/%s
- Go: %s
- Date: %s
- Count: %d rounds of %v a subject, in turn (one goroutine: four times as many, a quarter as long; 8 and 1,000 goroutines:
  three times as long; waves: %d; rates reached: %d of %v). Figures are medians; a ratio is the median of those within each round.

`, "`"+strings.Join(append([]string{"go run ./bench"}, p.args...), " ")+"`",
		cpu, runtime.NumCPU(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH,
		runtime.Version(), time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		p.rounds, p.lap, (p.rounds+1)/2, (p.rounds+2)/3, p.long)
	return err
}
