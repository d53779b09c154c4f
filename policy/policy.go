package policy

import (
	_ "embed"
	"time"

	"github.com/turnstile-go/turnstile/throttle"
)

// Schema is the JSON Schema (draft 2020-12) of a policy file. It knows the fields and their types; Parse knows more, such as
// which parents there are.
//
//go:embed schema.json
var Schema string

// A Policy is the limits of one name. The tag of each field is its name in the file; what a file does not have is zero: no such limit.
type Policy struct {
	Name string `file:"-"` // its name in the file
	Line int    `file:"-"` // where it begins, counted from 1

	// Rate and Burst are throttle.Config's: a text such as 10/s, and 1 to 2^62. A bare number is no rate.
	Rate  throttle.Rate `file:"rate"`
	Burst int64         `file:"burst"`
	// Quotas are texts as throttle.ParseQuota reads them. Only those with a name can be changed by Limiter.SetQuota.
	Quotas []throttle.Quota `file:"quotas"`
	// InFlight is throttle.Config.MaxInFlight: 1 to 2^62.
	InFlight int64 `file:"in_flight"`
	// MaxWait is a Go duration, such as 1m30s, above 0.
	MaxWait time.Duration `file:"max_wait"`
	// MaxQueue is how many may wait: 1 to 2^31-1.
	MaxQueue int64 `file:"max_queue"`
	// Parent is the name of the policy above, which is not keyed; Share is throttle.Config.Share.
	Parent string `file:"parent"`
	Share  int64  `file:"share"`
	// Keyed says that it is meant for a throttle.Keyed, a limiter for each key. MaxKeys is how many keys may be there: 1 to 2^31-1.
	Keyed   bool  `file:"keyed"`
	MaxKeys int64 `file:"max_keys"`
}

// Config returns p's limits for throttle.New, without its Parent: the limiter of that name goes there.
func (p *Policy) Config() throttle.Config {
	return throttle.Config{
		Name: p.Name, Rate: p.Rate, Burst: p.Burst, Quotas: p.Quotas, MaxInFlight: p.InFlight,
		MaxWait: p.MaxWait, MaxQueue: int(p.MaxQueue), Share: p.Share,
	}
}
