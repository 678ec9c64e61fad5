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
	// DefaultCacheBytes is the default size of the cache: about 10,000 bodies of 6 KiB.
	DefaultCacheBytes = 64 << 20
	// maxCacheBytes keeps a typo from requesting all memory.
	maxCacheBytes = 64 << 30
	// entryOverhead is the memory of an entry in addition to its body and texts: the struct and the
	// nodes of the map and the policy; measured 430 bytes.
	entryOverhead = 430
	// idShare is the fraction (1/16) of the cache's bytes for the domains of ids, idOverhead the
	// memory of each in addition to its text.
	idShare    = 16
	idOverhead = 200
	// cacheShards is the number of locks of the guard.
	cacheShards = 256
	// maxRecent limits the domains, of about 100 bytes each, in each of a shard's two maps of last events. Events are
	// folded within 400 ms, in which a shard seldom gets more.
	maxRecent = 32
)

// cache stores entries by domain. Its guard prevents this sequence:
//
//	a reader takes the row from the tables
//	the fold commits a newer row and invalidates the domain
//	the reader puts the old row into the cache, where it would stay forever
//
// Each shard counts its invalidations. A reader notes the count before it reads the tables and may put
// only while it is unchanged.
//
// If the log is followed (see Event), an event is known before it is folded. Each shard has the positions of the last
// events of its brands, and accepts only rows of tables that are folded up to there. It keeps a position when such a
// row is put, because a reader of older tables may still be in progress.
//
// Otherwise the invalidation comes a moment after the commit of another node: until then the older answer is returned
// (see Invalidate), and a row that was read before the commit has an outdated ticket all the same.
type cache struct {
	entries *otter.Cache[string, cached]
	ids     *otter.Cache[uuid.UUID, string] // domains; a brand's id never changes
	seed    maphash.Seed
	shards  [cacheShards]shard
}

type shard struct {
	mu            sync.Mutex
	invalidations uint64
	// recent has the positions of the last events by domain, older those from before recent was full. No event of any
	// other domain is past oldest.
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

// changed returns a position at or after all known events of a domain's brand.
func (s *shard) changed(domain string) eventlog.Position {
	return max(s.oldest, s.older[domain], s.recent[domain])
}

// cached is an entry and the position of the tables from which it was read.
type cached struct {
	entry *Entry
	at    eventlog.Position
}

// ticket records when a reader began.
type ticket struct {
	shard *shard
	count uint64
}

func newCache(maxBytes int64) (*cache, error) {
	forIDs := maxBytes / idShare
	entries, err := otter.New(&otter.Options[string, cached]{
		MaximumWeight: uint64(maxBytes - forIDs),
		Weigher: func(_ string, c cached) uint32 {
			e := c.entry
			return uint32(e.Body.Len() + len(e.Domain) + len(e.ID) + len(e.Status) + entryOverhead)
		},
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

func (c *cache) get(domain string) (*Entry, bool) {
	kept, ok := c.entries.GetIfPresent(domain)
	return kept.entry, ok
}

// bytes returns the memory of the cached entries.
func (c *cache) bytes() uint64 { return c.entries.WeightedSize() + c.ids.WeightedSize() }

func (c *cache) shard(domain string) *shard {
	return &c.shards[maphash.String(c.seed, domain)%cacheShards]
}

// begin is called before the tables are read.
func (c *cache) begin(domain string) ticket {
	s := c.shard(domain)
	s.mu.Lock()
	defer s.mu.Unlock()
	return ticket{shard: s, count: s.invalidations}
}

// put caches an entry read from tables at a position, unless it may be outdated.
func (c *cache) put(t ticket, e *Entry, at eventlog.Position) {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	if t.shard.invalidations == t.count && at >= t.shard.changed(e.Domain) {
		c.entries.Set(e.Domain, cached{entry: e, at: at})
	}
}

// event is called when the log has a new event of the domain's brand.
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
