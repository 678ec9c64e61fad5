package lookup

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"letterhead/domain/brand"
	"letterhead/projections/brands"
)

// find asks the index. It returns the entry if the index has one that is as new as the last answer and
// that was not withdrawn since, the domain in any case, and ErrNoSuchBrand for an unknown id. Without
// an entry the brand's own stream decides.
func (s *Service) find(ctx context.Context, id brand.Identifier) (*brands.Entry, string, error) {
	entry, domain, err := s.ask(ctx, id)
	if entry != nil && (entry.Revision < s.recent.last(domain).revision || s.parts.Changes.Withdrawn(domain)) {
		return nil, domain, nil // the index lags: no caller may pay for a record older than the last answer
	}
	return entry, domain, err
}

func (s *Service) ask(ctx context.Context, id brand.Identifier) (*brands.Entry, string, error) {
	if id.Kind == brand.BrandID {
		entry, domain, err := s.askID(ctx, id.BrandID)
		if errors.Is(err, ErrNoSuchBrand) && s.parts.CaughtUp != nil {
			if err = s.catchUp(ctx); err != nil {
				return nil, "", fmt.Errorf("find brand %s: %w", id.BrandID, err)
			}
			return s.askID(ctx, id.BrandID)
		}
		return entry, domain, err
	}
	entry, err := s.parts.Index.Get(ctx, id.Domain)
	if errors.Is(err, brands.ErrNotFound) {
		return nil, id.Domain, nil
	}
	if err != nil {
		return nil, id.Domain, fmt.Errorf("find %s: %w", id.Domain, err)
	}
	return entry, id.Domain, nil
}

// askID returns the brand with an id, or only its domain if it was just answered and the index lags.
func (s *Service) askID(ctx context.Context, id uuid.UUID) (*brands.Entry, string, error) {
	entry, err := s.parts.Index.ByID(ctx, id)
	if errors.Is(err, brands.ErrNotFound) {
		if domain, ok := s.recent.domain(id.String()); ok {
			return nil, domain, nil
		}
		return nil, "", ErrNoSuchBrand
	}
	if err != nil {
		return nil, "", fmt.Errorf("find brand %s: %w", id, err)
	}
	return entry, entry.Domain, nil
}

// catchUp waits until the index has the brands that other nodes may have answered already.
func (s *Service) catchUp(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, caughtUpWithin)
	defer cancel()
	if err := s.parts.CaughtUp(waiting); err != nil {
		return fmt.Errorf("the index has not caught up: %w", errors.Join(errBehind, err))
	}
	return nil
}

// DomainOf returns the registrable domain of an identifier, without a look-up: it costs nothing. Errors: ErrNoSuchBrand
// for an id that is not in the index, and those of the index.
func (s *Service) DomainOf(ctx context.Context, id brand.Identifier) (string, error) {
	if id.Kind == brand.Domain {
		return id.Domain, nil
	}
	domains, err := s.domainsOf(ctx, []uuid.UUID{id.BrandID})
	if err == nil && domains[id.BrandID] == "" {
		err = ErrNoSuchBrand
	}
	return domains[id.BrandID], err
}

// domainsOf returns the domains of brands by their ids; unknown ids are missing. If other nodes may
// just have answered an id, it waits for the index once, for all of them.
func (s *Service) domainsOf(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	domains := make(map[uuid.UUID]string, len(ids))
	for again := false; ; again = true {
		missing := false
		for _, id := range ids {
			if domains[id] != "" {
				continue
			}
			_, domain, err := s.askID(ctx, id)
			if err != nil && !errors.Is(err, ErrNoSuchBrand) {
				return nil, err
			}
			domains[id], missing = domain, missing || domain == ""
		}
		if !missing || again || s.parts.CaughtUp == nil {
			return domains, nil
		}
		if err := s.catchUp(ctx); err != nil {
			return nil, err
		}
	}
}

// peek reports whether the index has a brand, with its record. The index may lag behind the log: a brand that was just
// answered is read from its stream.
func (s *Service) peek(ctx context.Context, q Query) (Answer, error) {
	quick, cancel := context.WithTimeout(ctx, s.config.Quick)
	defer cancel()
	entry, domain, err := s.find(quick, q.Identifier)
	answer := Answer{Domain: domain, Cache: Hit}
	switch {
	case err != nil:
	case entry != nil:
		answer.Body = entry.Body
	default:
		answer.Body, err = s.current(quick, domain)
	}
	if err != nil {
		return Answer{Domain: domain}, err
	}
	return s.free(quick, q, answer)
}

// current returns the record in the brand's stream. Later look-ups do not answer with an older one.
func (s *Service) current(ctx context.Context, domain string) (body brands.Body, err error) {
	state, err := s.parts.Brands.State(ctx, domain)
	switch {
	case err != nil:
		return body, err
	case state.Withdrawn():
		return body, brand.ErrWithdrawn
	case !state.Known():
		return body, ErrNotIndexed
	}
	return s.foundIn(state, Hit).body, nil
}

// unchanged answers a caller who has the record that is held, or, if the index lags, the newer one in the brand's
// stream. Any other caller gets an answer that is not Unchanged, and no error because of the record: the look-up then
// finds it. Errors: those of Credits; ctx.Err(), also after the time of everything but the crawl.
func (s *Service) unchanged(ctx context.Context, q Query) (Answer, error) {
	quick, cancel := context.WithTimeout(ctx, s.config.Quick)
	defer cancel()
	entry, domain, err := s.find(quick, q.Identifier)
	var body brands.Body
	if entry != nil {
		body = entry.Body
	}
	if err == nil && (entry == nil || !q.Has(body)) {
		body, err = s.current(quick, domain)
	}
	switch {
	case quick.Err() != nil:
		return Answer{Domain: domain}, quick.Err()
	case err != nil || !q.Has(body):
		return Answer{Domain: domain}, nil
	}
	return s.free(quick, q, Answer{Domain: domain, Body: body, Cache: Hit, Unchanged: true})
}

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

// last returns the last answer about a domain's brand, which does not change; zero if there was none recently.
func (r *recent) last(domain string) answered {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.byDomain[domain]; ok {
		return *a
	}
	return answered{}
}
