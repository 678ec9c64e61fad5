package keys

import (
	"context"
	"maps"
	"sync"
)

const (
	// maxUnknown limits the hashes of unknown keys in memory, so that random keys cannot displace others.
	maxUnknown = 8192
	// maxReading limits the keys that are read at a time. Requests with the same key wait for the first of them.
	maxReading = 64
)

// alone is what a process that does not share its database remembers. The zero value is empty.
type alone struct {
	mu      sync.RWMutex
	keys    map[hash]Key      // at most maxRemembered
	unknown map[hash]struct{} // at most maxUnknown
	changes uint64            // a key that was read before the last change is not remembered

	// reading makes two reads of a key follow each other, so that the answer of the earlier one is not given later.
	reading [maxReading]sync.Mutex
}

// recallAlone implements Lookup in a database of this process alone.
func (d *Directory) recallAlone(ctx context.Context, sum hash) (k Key, found bool, err error) {
	a := &d.alone
	k, found, known, _ := a.find(sum)
	if !known {
		reading := &a.reading[sum[0]%maxReading]
		reading.Lock()
		defer reading.Unlock()
		var changes uint64
		if k, found, known, changes = a.find(sum); !known {
			d.lookups.WithLabelValues("rows").Inc()
			if err := d.Ready(); err != nil {
				return Key{}, false, err
			}
			k, found, _, err = d.read(ctx, sum)
			if err == nil {
				a.keep(sum, k, found, changes)
			}
			return k, found, err
		}
	}
	d.lookups.WithLabelValues("memory").Inc()
	return k, found, nil
}

// find returns what is known of a key, and the number of changes so far.
func (a *alone) find(sum hash) (k Key, found, known bool, changes uint64) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if k, found = a.keys[sum]; !found {
		_, known = a.unknown[sum]
	}
	return k, found, found || known, a.changes
}

// keep stores what was read after a number of changes.
func (a *alone) keep(sum hash, k Key, found bool, changes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case changes != a.changes, found && k.AccountStatus == "":
	case found:
		put(&a.keys, sum, k, maxRemembered)
	default:
		put(&a.unknown, sum, struct{}{}, maxUnknown)
	}
}

// forget drops the keys that a batch changed. hashes are those of the changed rows.
func (a *alone) forget(n *news, hashes []hash) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes++
	for _, sum := range hashes {
		delete(a.unknown, sum)
	}
	if !n.known { // no row that may be remembered has changed
		return
	}
	maps.DeleteFunc(a.keys, func(_ hash, k Key) bool {
		_, key := n.keys[k.ID]
		_, account := n.accounts[k.AccountID]
		return key || account
	})
}

func (a *alone) empty() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes++
	clear(a.keys)
	clear(a.unknown)
}

// put stores a value in a map of limited size, if need be in place of an arbitrary other.
func put[V any](in *map[hash]V, sum hash, v V, limit int) {
	if *in == nil {
		*in = make(map[hash]V)
	}
	if _, ok := (*in)[sum]; !ok && len(*in) >= limit {
		for other := range *in {
			delete(*in, other)
			break
		}
	}
	(*in)[sum] = v
}
