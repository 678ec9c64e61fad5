package keys

import (
	"context"
	"maps"
	"sync"
)

// maxUnknown limits the hashes of unknown keys in memory, so that random keys cannot displace others.
const maxUnknown = 8192

// alone is what a process that does not share its database remembers. The zero value is empty.
type alone struct {
	mu      sync.RWMutex
	keys    map[hash]Key      // at most maxRemembered
	unknown map[hash]struct{} // at most maxUnknown
	changes uint64            // a key that was read before the last change is not remembered
}

// recallAlone implements Lookup in a database of this process alone.
func (d *Directory) recallAlone(ctx context.Context, sum hash) (k Key, found bool, err error) {
	a := &d.alone
	k, found, known, changes := a.find(sum)
	if known {
		d.lookups.WithLabelValues("memory").Inc()
		return k, found, nil
	}
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

// find returns what is known of a key, and the number of changes so far.
func (a *alone) find(sum hash) (k Key, found, known bool, changes uint64) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if k, found = a.keys[sum]; !found {
		_, known = a.unknown[sum]
	}
	return k, found, found || known, a.changes
}

// keep stores what was read after a number of changes. It replaces nothing, which may have been read later.
func (a *alone) keep(sum hash, k Key, found bool, changes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, kept := a.keys[sum]
	switch {
	case kept, changes != a.changes, found && k.AccountStatus == "":
	case found:
		put(&a.keys, sum, k, maxRemembered)
	default:
		put(&a.unknown, sum, struct{}{}, maxUnknown)
	}
}

// forget drops the keys that a batch changed, and all unknown ones if it has a key.
func (a *alone) forget(n *news) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes++
	if len(n.keys) > 0 {
		clear(a.unknown)
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
