package throttle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// The JSON of a KeyedSnapshot: limits that keys share are told once, and each key's spending beside its own.
type keyedText struct {
	Of      string        `json:"turnstile"`
	Version int           `json:"version"`
	Saved   time.Time     `json:"saved"`
	Name    string        `json:"name"`
	Limits  [][]limitText `json:"limits"`
	Keys    []keyText     `json:"keys"`
}

type keyText struct {
	Key      json.RawMessage `json:"key,omitempty"`
	Bytes    []byte          `json:"key_base64,omitempty"` // of a string that is not UTF-8
	Limits   int             `json:"limits"`
	Spent    []spendingText  `json:"spent"`
	PausedNS int64           `json:"paused_ns,omitempty"`
}

// MarshalJSON returns s as JSON: the same for the same state, whatever the order in which keys came. It fails if s is empty, and for a
// key that would not be read as the same.
func (s KeyedSnapshot[K]) MarshalJSON() ([]byte, error) {
	if s.saved.IsZero() {
		return nil, fmt.Errorf("throttle: the KeyedSnapshot is empty; want one that Keyed.Snapshot gave: %w", ErrInvalid)
	}
	text := keyedText{Of: ofKeyed, Version: SnapshotVersion, Saved: s.saved.UTC(), Name: s.name, Limits: [][]limitText{}, Keys: []keyText{}}
	for i := range s.keys {
		x := &s.keys[i]
		k := keyText{Limits: x.limits, PausedNS: x.pause, Spent: []spendingText{}}
		if err := setKey(&k, x.key); err != nil {
			return nil, err
		}
		for j := range x.spent {
			k.Spent = append(k.Spent, x.spent[j].text(s.limits[x.limits][j]))
		}
		text.Keys = append(text.Keys, k)
	}
	slices.SortFunc(text.Keys, func(a, b keyText) int {
		if c := bytes.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return bytes.Compare(a.Bytes, b.Bytes)
	})
	// Limits in the order of the first key that has them.
	at := map[int]int{}
	for i := range text.Keys {
		k := &text.Keys[i]
		j, there := at[k.Limits]
		if !there {
			j = len(text.Limits)
			at[k.Limits] = j
			limits := []limitText{}
			for _, l := range s.limits[k.Limits] {
				limits = append(limits, l.text())
			}
			text.Limits = append(text.Limits, limits)
		}
		k.Limits = j
	}
	return json.Marshal(text)
}

// setKey writes a key so that it is read as the same.
func setKey[K comparable](t *keyText, key K) error {
	raw, err := json.Marshal(key)
	if err == nil {
		var again K
		if json.Unmarshal(raw, &again) == nil && again == key {
			t.Key = raw
			return nil
		}
		if v := reflect.ValueOf(&key).Elem(); v.Kind() == reflect.String {
			t.Bytes = []byte(v.String())
			return nil
		}
		err = fmt.Errorf("it is read as another; want exported fields, or an encoding.TextMarshaler and TextUnmarshaler: %w", ErrInvalid)
	}
	return fmt.Errorf("throttle: snapshot: the key %v of type %T cannot be written: %w", key, key, err)
}

// UnmarshalJSON reads what MarshalJSON wrote. It is as strict as that of a Snapshot, and fails if a key is there twice.
func (s *KeyedSnapshot[K]) UnmarshalJSON(data []byte) error {
	var text keyedText
	if err := decode(data, ofKeyed, &text); err != nil {
		return err
	}
	if what := wrongHead(text.Saved, 0); what != "" {
		return wrongText("%s", what)
	}
	read := KeyedSnapshot[K]{saved: text.Saved, name: text.Name}
	for i := range text.Limits {
		var limits []limit
		for j := range text.Limits[i] {
			l, what := text.Limits[i][j].limit()
			if what != "" {
				return wrongText("limits[%d][%d]: %s", i, j, what)
			}
			limits = append(limits, l)
		}
		if what := twice(limits); what != "" {
			return wrongText("limits[%d]: %s", i, what)
		}
		read.limits = append(read.limits, limits)
	}
	seen := make(map[K]bool, len(text.Keys))
	for i := range text.Keys {
		x, what := readKey[K](&text.Keys[i], read.limits)
		if what == "" && seen[x.key] {
			what = fmt.Sprintf("key is %v a second time; want each once", x.key)
		}
		if what != "" {
			return wrongText("keys[%d]: %s", i, what)
		}
		seen[x.key] = true
		read.keys = append(read.keys, x)
	}
	*s = read
	return nil
}

// readKey returns what the text tells of one key, or says what is wrong with it.
func readKey[K comparable](t *keyText, limits [][]limit) (x keySpent[K], what string) {
	key := reflect.ValueOf(&x.key).Elem()
	switch {
	case (t.Key == nil) == (t.Bytes == nil):
		return x, "want either key or key_base64"
	case t.Bytes != nil && key.Kind() != reflect.String:
		return x, fmt.Sprintf("key_base64 is set, and keys are of type %T; want key", x.key)
	case t.Bytes != nil:
		key.SetString(string(t.Bytes))
	default:
		if err := json.Unmarshal(t.Key, &x.key); err != nil {
			return x, fmt.Sprintf("key: %v", err)
		}
		if !key.Comparable() || x.key != x.key {
			return x, fmt.Sprintf("key is %s; want one that can be compared and equals itself", t.Key)
		}
	}
	switch {
	case t.Limits < 0 || t.Limits >= len(limits):
		return x, fmt.Sprintf("limits is %d; want 0 to %d, a position in limits", t.Limits, len(limits)-1)
	case len(t.Spent) != len(limits[t.Limits]):
		return x, fmt.Sprintf("spent has %d quotas; want %d, one for each of its limits", len(t.Spent), len(limits[t.Limits]))
	case t.PausedNS < 0:
		return x, fmt.Sprintf("paused_ns is %d; want 0 or more", t.PausedNS)
	}
	x.limits, x.pause = t.Limits, t.PausedNS
	for i := range t.Spent {
		s, wrong := t.Spent[i].spending(limits[t.Limits][i])
		if wrong != "" {
			return x, fmt.Sprintf("spent[%d]: %s", i, wrong)
		}
		x.spent = append(x.spent, s)
	}
	return x, ""
}
