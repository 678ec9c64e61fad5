package variants

import (
	"fmt"

	"github.com/maypok86/otter/v2"
)

// entryOverhead is the memory of an entry in addition to its body: the key, the digest, and the nodes
// of the map and the policy; measured 165 to 190 bytes in full caches of bodies of 100 to 3,072 bytes.
const entryOverhead = 190

// memory holds the most used images.
type memory struct {
	entries *otter.Cache[Key, Image]
	limit   int64 // bytes
}

func newMemory(limit int64) (*memory, error) {
	entries, err := otter.New(&otter.Options[Key, Image]{
		MaximumWeight: uint64(limit),
		Weigher:       func(_ Key, p Image) uint32 { return uint32(inMemory(p)) },
	})
	if err != nil {
		return nil, fmt.Errorf("make cache of images: %w", err)
	}
	return &memory{entries: entries, limit: limit}, nil
}

// inMemory returns the size of an image in memory, in bytes.
func inMemory(p Image) int64 { return int64(cap(p.Body)) + entryOverhead }

func (m *memory) get(key Key) (Image, bool) { return m.entries.GetIfPresent(key) }

func (m *memory) put(key Key, p Image) {
	if inMemory(p) <= m.limit {
		m.entries.Set(key, p)
	}
}

func (m *memory) close() { m.entries.StopAllGoroutines() }
