package lookup

import (
	"sync"

	"letterhead/domain/brand"
	"letterhead/projections/brands"
)

// maxRecent limits how many answers a recent holds. The index lags by milliseconds, so this is far
// more than are answered ahead of it.
const maxRecent = 4096

// recent holds the answers from brands' streams, ahead of the index: the id of a brand that a client was just given
// finds the brand, and an older record that the index still has is not answered after a newer one.
type recent struct {
	mu       sync.Mutex
	byID     map[string]*answered
	byDomain map[string]*answered
	order    []*answered // a ring
	next     int
}

type answered struct {
	id, domain string
	revision   uint64 // of the brand's stream
}

// foundIn takes the record from the brand's own stream, which the index may not have processed yet.
func (s *Service) foundIn(state *brand.Brand, cache Cache) found {
	view := state.View()
	s.recent.note(view)
	return found{
		cache: cache, id: view.ID, domain: view.Domain, revision: view.Revision,
		logo: view.Record.HasLogo(), looks: brands.LooksOf(view), body: brands.Render(view), stream: true,
	}
}

// note records a brand as it is answered now. A view that is not newer than the recorded one is ignored.
func (r *recent) note(v brand.View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, known := r.byDomain[v.Domain]; known && before.revision >= v.Revision {
		return
	}
	if r.byID == nil {
		r.byID, r.byDomain = map[string]*answered{}, map[string]*answered{}
	}
	now := &answered{id: v.ID, domain: v.Domain, revision: v.Revision}
	if len(r.order) < maxRecent {
		r.order = append(r.order, now)
	} else {
		r.forget(r.order[r.next])
		r.order[r.next] = now
		r.next = (r.next + 1) % maxRecent
	}
	r.byID[v.ID], r.byDomain[v.Domain] = now, now
}

// forget drops the oldest answer, unless a newer one about the same brand has replaced it.
func (r *recent) forget(oldest *answered) {
	if r.byDomain[oldest.domain] == oldest {
		delete(r.byDomain, oldest.domain)
	}
	if r.byID[oldest.id] == oldest {
		delete(r.byID, oldest.id)
	}
}

// domain returns the domain of a brand that was answered recently.
func (r *recent) domain(id string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.byID[id]; ok {
		return a.domain, true
	}
	return "", false
}

// revision returns the revision at which a domain's brand was last answered; 0, the lowest, if it was not.
func (r *recent) revision(domain string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.byDomain[domain]; ok {
		return a.revision
	}
	return 0
}

// has reports whether a domain's brand was answered recently.
func (r *recent) has(domain string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.byDomain[domain]
	return ok
}
