package brands

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	// DefaultCacheBytes is the cache's bound: some 10,000 bodies of 6 KiB.
	DefaultCacheBytes = 64 << 20
	// maxCacheBytes keeps a typing error from asking for all memory.
	maxCacheBytes = 64 << 30
	// entryOverhead is what an entry takes besides its body and texts: the struct, the map's and the
	// policy's nodes; measured 430 bytes.
	entryOverhead = 430
	// cacheShards spread the guard's locks.
	cacheShards = 256
)

// cache holds entries by domain. Its guard is against this order of things:
//
//	a reader takes the row from the tables
//	the fold commits a newer row and invalidates the domain
//	the reader puts what it took into the cache, where it would stay for ever
//
// Each shard counts its invalidations. A reader notes the count before it looks at the tables and may put
// only while it is the same. On a node that does not fold the invalidation comes a moment after the commit:
// until then the older answer is given (see Invalidate), and what a reader took before the commit has an
// older ticket all the same.
type cache struct {
	entries *otter.Cache[string, cached]
	seed    maphash.Seed
	shards  [cacheShards]shard
}

type shard struct {
	mu            sync.Mutex
	invalidations uint64
}

// cached is an entry and when its reader began.
type cached struct {
	entry *Entry
	read  time.Time
}

// ticket says when a reader began.
type ticket struct {
	shard *shard
	count uint64
	at    time.Time
}

func newCache(maxBytes int64) (*cache, error) {
	entries, err := otter.New(&otter.Options[string, cached]{
		MaximumWeight: uint64(maxBytes),
		Weigher:       func(_ string, c cached) uint32 { return weigh(c.entry) },
	})
	if err != nil {
		return nil, fmt.Errorf("make cache of brands: %w", err)
	}
	return &cache{entries: entries, seed: maphash.MakeSeed()}, nil
}

func weigh(e *Entry) uint32 {
	return uint32(e.Body.Len() + len(e.Domain) + len(e.ID) + len(e.Status) + entryOverhead)
}

func (c *cache) get(domain string) (cached, bool) { return c.entries.GetIfPresent(domain) }

// begin is called before the tables are looked at.
func (c *cache) begin(domain string) ticket {
	s := &c.shards[maphash.String(c.seed, domain)%cacheShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	return ticket{shard: s, count: s.invalidations, at: time.Now()}
}

// put keeps what the tables said, unless it may be old by now.
func (c *cache) put(t ticket, e *Entry) {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	if t.shard.invalidations == t.count {
		c.entries.Set(e.Domain, cached{entry: e, read: t.at})
	}
}

// invalidate is called after the commit that changed the domain's row.
func (c *cache) invalidate(domain string) {
	s := &c.shards[maphash.String(c.seed, domain)%cacheShards]
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

func (c *cache) close() { c.entries.StopAllGoroutines() }
