package readapi

import "sync"

// maxRecent bounds how many brands a recent remembers. The index trails by milliseconds, so this is far
// more than are answered ahead of it.
const maxRecent = 4096

// recent remembers the ids of brands that were answered from their streams, ahead of the index: the id of
// a brand that a client was just given finds the brand.
type recent struct {
	mu      sync.Mutex
	domains map[string]string // by brand id
	order   []string          // ids, a ring
	next    int
}

func (r *recent) note(id, domain string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.domains[id]; known {
		return
	}
	if r.domains == nil {
		r.domains = map[string]string{}
	}
	if len(r.order) < maxRecent {
		r.order = append(r.order, id)
	} else {
		delete(r.domains, r.order[r.next])
		r.order[r.next] = id
		r.next = (r.next + 1) % maxRecent
	}
	r.domains[id] = domain
}

func (r *recent) domain(id string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	domain, ok := r.domains[id]
	return domain, ok
}
