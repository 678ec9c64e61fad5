package sqlite

// recent is a map that drops entries not used recently. It has two generations, and drops the older when
// the younger is full. It holds between limit/2 and limit entries and belongs to one goroutine.
type recent[K comparable, V any] struct {
	half       int
	young, old map[K]V
}

func newRecent[K comparable, V any](limit int) *recent[K, V] {
	return &recent[K, V]{half: max(limit/2, 1), young: make(map[K]V)}
}

func (r *recent[K, V]) get(key K) (V, bool) {
	if v, ok := r.young[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	if ok {
		r.put(key, v)
	}
	return v, ok
}

func (r *recent[K, V]) put(key K, value V) {
	if len(r.young) >= r.half {
		if _, there := r.young[key]; !there {
			r.old, r.young = r.young, make(map[K]V, r.half)
		}
	}
	r.young[key] = value
}
