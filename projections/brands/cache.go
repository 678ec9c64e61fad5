package brands

import (
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/google/uuid"
	"github.com/maypok86/otter/v2"

	"letterhead/internal/eventlog"
)

const (
	// DefaultCacheBytes is the cache's bound: some 10,000 bodies of 6 KiB.
	DefaultCacheBytes = 64 << 20
	// maxCacheBytes keeps a typing error from asking for all memory.
	maxCacheBytes = 64 << 30
	// entryOverhead is what an entry takes besides its body and texts: the struct, the map's and the
	// policy's nodes; measured 430 bytes.
	entryOverhead = 430
	// idShare is the part of the cache's bytes that the domains of ids take, idOverhead what each takes besides its
	// text.
	idShare    = 16
	idOverhead = 200
	// cacheShards spread the guard's locks.
	cacheShards = 256
	// maxRecent bounds the domains, of some 100 bytes, whose last events a shard knows one by one; it has twice as many
	// at most. 400 ms, after which events are folded, bring seldom more.
	maxRecent = 32
)

// cache holds entries by domain. Its guard is against this order of things:
//
//	a reader takes the row from the tables
//	the fold commits a newer row and invalidates the domain
//	the reader puts what it took into the cache, where it would stay for ever
//
// Each shard counts its invalidations. A reader notes the count before it looks at the tables and may put
// only while it is the same.
//
// Where the log is followed (see Event) an event is known before it is folded. Each shard has the positions of the last
// events of its brands, and takes only rows of tables that are folded up to there. It does not forget a position when such
// a row is put, because a reader of older tables may still be under way.
//
// Where it is not, the invalidation comes a moment after the commit of another node: until then the older answer is
// given (see Invalidate), and what a reader took before the commit has an older ticket all the same.
type cache struct {
	entries *otter.Cache[string, cached]
	ids     *otter.Cache[uuid.UUID, string] // domains; a brand never changes its id
	seed    maphash.Seed
	shards  [cacheShards]shard
}

type shard struct {
	mu            sync.Mutex
	invalidations uint64
	// recent has the last events by domain, older those of before recent was full, and no event of any other domain is
	// past oldest.
	recent, older map[string]eventlog.Position
	oldest        eventlog.Position
}

// note notes an event of a domain's brand.
func (s *shard) note(domain string, at eventlog.Position) {
	if _, known := s.recent[domain]; !known && len(s.recent) == maxRecent {
		for _, before := range s.older {
			s.oldest = max(s.oldest, before)
		}
		s.older, s.recent = s.recent, nil
	}
	if s.recent == nil {
		s.recent = make(map[string]eventlog.Position, maxRecent)
	}
	s.recent[domain] = max(s.recent[domain], at)
}

// changed returns a position that no known event of a domain's brand is past.
func (s *shard) changed(domain string) eventlog.Position {
	return max(s.oldest, s.older[domain], s.recent[domain])
}

// cached is an entry and how far the tables were folded that it was read from.
type cached struct {
	entry *Entry
	at    eventlog.Position
}

// ticket says when a reader began.
type ticket struct {
	shard *shard
	count uint64
}

func newCache(maxBytes int64) (*cache, error) {
	forIDs := maxBytes / idShare
	entries, err := otter.New(&otter.Options[string, cached]{
		MaximumWeight: uint64(maxBytes - forIDs),
		Weigher:       func(_ string, c cached) uint32 { return weigh(c.entry) },
	})
	if err != nil {
		return nil, fmt.Errorf("make cache of brands: %w", err)
	}
	ids, err := otter.New(&otter.Options[uuid.UUID, string]{
		MaximumWeight: uint64(forIDs),
		Weigher:       func(_ uuid.UUID, domain string) uint32 { return uint32(len(domain) + idOverhead) },
	})
	if err != nil {
		return nil, fmt.Errorf("make cache of brands' ids: %w", err)
	}
	return &cache{entries: entries, ids: ids, seed: maphash.MakeSeed()}, nil
}

func weigh(e *Entry) uint32 {
	return uint32(e.Body.Len() + len(e.Domain) + len(e.ID) + len(e.Status) + entryOverhead)
}

func (c *cache) get(domain string) (*Entry, bool) {
	kept, ok := c.entries.GetIfPresent(domain)
	return kept.entry, ok
}

// bytes is what the cache takes.
func (c *cache) bytes() uint64 { return c.entries.WeightedSize() + c.ids.WeightedSize() }

func (c *cache) shard(domain string) *shard {
	return &c.shards[maphash.String(c.seed, domain)%cacheShards]
}

// begin is called before the tables are looked at.
func (c *cache) begin(domain string) ticket {
	s := c.shard(domain)
	s.mu.Lock()
	defer s.mu.Unlock()
	return ticket{shard: s, count: s.invalidations}
}

// put keeps what the tables said when they were folded up to a position, unless it may be old by now.
func (c *cache) put(t ticket, e *Entry, at eventlog.Position) {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	if t.shard.invalidations == t.count && at >= t.shard.changed(e.Domain) {
		c.entries.Set(e.Domain, cached{entry: e, at: at})
	}
}

// event is called when the log is found to hold an event of the domain's brand.
func (c *cache) event(domain string, at eventlog.Position) {
	s := c.shard(domain)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(domain, at)
	if kept, ok := c.entries.GetEntryQuietly(domain); ok && kept.Value.at < at {
		c.entries.Invalidate(domain)
	}
}

// invalidate is called after the commit that changed the domain's row.
func (c *cache) invalidate(domain string) {
	s := c.shard(domain)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.invalidations++
	c.entries.Invalidate(domain)
}

// invalidateAll is called after other tables became live.
func (c *cache) invalidateAll() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.invalidations++
		s.mu.Unlock()
	}
	c.entries.InvalidateAll()
}

func (c *cache) close() {
	c.entries.StopAllGoroutines()
	c.ids.StopAllGoroutines()
}
