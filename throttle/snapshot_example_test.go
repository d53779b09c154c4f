package throttle_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/turnstile-go/turnstile/fake"
	"github.com/turnstile-go/turnstile/throttle"
)

// A process spends its tokens, saves what it has spent, and is gone for two seconds. The next one goes on from there: with the two tokens that
// have come meanwhile, not with a fresh burst.
func ExampleLimiter_Restore() {
	clock := fake.NewClock(time.Time{})
	config := throttle.Config{Name: "api", Rate: throttle.PerSecond(1), Burst: 5, Clock: clock}

	before := must(throttle.New(config))
	fmt.Println(passing(before, 5), "of 5 started")
	file := value(json.Marshal(before.Snapshot()))

	clock.Advance(2 * time.Second) // the deploy

	after := must(throttle.New(config))
	var snapshot throttle.Snapshot
	if err := json.Unmarshal(file, &snapshot); err != nil {
		fmt.Println(err) // and start with full buckets
	}
	if err := after.Restore(snapshot); err != nil {
		fmt.Println(err)
	}
	fmt.Println(passing(after, 5), "of 5 started")
	// Output:
	// 5 of 5 started
	// 2 of 5 started
}

func ExampleSnapshot() {
	clock := fake.NewClock(time.Time{})
	daily := throttle.FixedWindow(1000, 24*time.Hour)
	daily.Name = "daily"
	api := must(throttle.New(throttle.Config{Name: "api", Rate: throttle.Per(10, time.Second), Burst: 5,
		Quotas: []throttle.Quota{daily}, Clock: clock}))
	passing(api, 3)
	clock.Advance(150 * time.Millisecond)
	text, err := json.MarshalIndent(api.Snapshot(), "", "  ")
	fmt.Println(string(text), err)
	// Output:
	// {
	//   "turnstile": "limiter",
	//   "version": 1,
	//   "saved": "2030-01-01T12:00:00.15Z",
	//   "name": "api",
	//   "quotas": [
	//     {
	//       "kind": "rate",
	//       "tokens": 10,
	//       "period_ns": 1000000000,
	//       "burst": 5,
	//       "missing": 1,
	//       "missing_part": 50000000
	//     },
	//     {
	//       "kind": "fixed-window",
	//       "name": "daily",
	//       "tokens": 1000,
	//       "period_ns": 86400000000000,
	//       "opened_ns_ago": 150000000,
	//       "used": 3
	//     }
	//   ]
	// } <nil>
}

func ExampleKeyedSnapshot() {
	clock := fake.NewClock(time.Time{})
	config := throttle.Config{Name: "address", Rate: throttle.PerSecond(1), Burst: 2, Clock: clock}
	addresses := value(throttle.NewKeyed[string](config))
	for _, address := range []string{"10.0.0.1", "10.0.0.1", "10.0.0.2"} {
		_, _ = addresses.TryAcquire(address)
	}
	clock.Advance(time.Second) // 10.0.0.2 is full again
	snapshot := addresses.Snapshot()
	fmt.Println(snapshot.Len(), "key")
	fmt.Println(string(value(json.Marshal(snapshot))))

	again := value(throttle.NewKeyed[string](config))
	fmt.Println(again.Restore(snapshot), again.Len())
	// Output:
	// 1 key
	// {"turnstile":"keyed","version":1,"saved":"2030-01-01T12:00:01Z","name":"address","limits":[[{"kind":"rate","tokens":1,"period_ns":1000000000,"burst":2}]],"keys":[{"key":"10.0.0.1","limits":0,"spent":[{"missing":1}]}]}
	// <nil> 1
}

// writeFile puts text in the place of the file at path, at once: whoever reads it sees the old text or the new one, also after a crash.
func writeFile(path string, text []byte) (err error) {
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(text); err != nil {
		return err
	}
	if err = f.Sync(); err != nil { // the text is on the disk before its name is
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

// Several limiters in one file, which is replaced whole.
func ExampleSnapshot_file() {
	folder := value(os.MkdirTemp("", "turnstile"))
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "limits.json")

	api := must(throttle.New(throttle.Config{Name: "api", Rate: throttle.PerHour(10), Burst: 10}))
	tenant := must(throttle.New(throttle.Config{Name: "tenant", Rate: throttle.PerHour(5), Burst: 5, Parent: api}))
	passing(tenant, 4)
	text := value(json.MarshalIndent(map[string]throttle.Snapshot{
		"api": api.Snapshot(), "tenant": tenant.Snapshot(),
	}, "", "\t"))
	fmt.Println(writeFile(path, text))

	var all map[string]throttle.Snapshot
	fmt.Println(json.Unmarshal(value(os.ReadFile(path)), &all))
	next := must(throttle.New(throttle.Config{Name: "api", Rate: throttle.PerHour(10), Burst: 10}))
	fmt.Println(next.Restore(all["api"]))
	fmt.Println(next.Stats().Tokens, "tokens are left at the api")
	fmt.Println(next.Restore(all["tenant"]))
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// 6 tokens are left at the api
	// throttle: "api": Restore: the snapshot's Name is "tenant"; want "api", that of what it is restored to: invalid
}

// value returns v, which an example cannot go on without.
func value[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
