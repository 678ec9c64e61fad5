package sqlite

import (
	"database/sql/driver"
	"fmt"
	"sync"
)

const (
	// namesBlock is the number of streams with successive ids whose names are read together. Ids are dense, so a replay
	// reads each name once, in 8,000 queries for 500,000 streams.
	namesBlock = 64
	// maxBlocks bounds the names in memory: 50 MB for 640,000 accounts. All are dropped when there are more.
	maxBlocks = 10_000
)

// names maps the integers of the file to stream and type names, for all readers. Names never change, so a
// dropped entry is simply read again.
type names struct {
	mu      sync.RWMutex
	streams map[int64]*[namesBlock]string // by id / namesBlock; empty for a stream that is unknown
	types   map[int64]string              // at most maxTypes
}

func newNames() *names {
	return &names{streams: make(map[int64]*[namesBlock]string), types: make(map[int64]string)}
}

func (n *names) known(stream, typ int64) (streamName, typeName string, ok bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if block := n.streams[stream/namesBlock]; block != nil && stream >= 0 {
		streamName = block[stream%namesBlock]
	}
	typeName = n.types[typ]
	return streamName, typeName, streamName != "" && typeName != ""
}

// resolve reads unknown names within the transaction of the reader that saw the ids.
func (n *names) resolve(r *reader, stream, typ int64) (streamName, typeName string, err error) {
	block := new([namesBlock]string)
	first := stream - stream%namesBlock
	last := first - 1
	if stream >= 0 && r.streamNames.each(2, func(row []driver.Value) error {
		id, _ := row[0].(int64)
		if id <= last || id >= first+namesBlock { // a damaged page may have any ids
			return errDamaged
		}
		last = id
		block[id-first], _ = row[1].(string)
		return nil
	}, first, first+namesBlock-1) == nil {
		streamName = block[stream-first]
	}
	if streamName == "" { // the reason, or a name beside damaged ones
		if streamName, err = nameOf(r.streamName, stream); err != nil {
			return "", "", err
		}
		block = nil
	}
	if typeName, err = nameOf(r.typeName, typ); err != nil {
		return "", "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.types[typ] = typeName
	if block != nil {
		if len(n.streams) == maxBlocks {
			clear(n.streams)
		}
		n.streams[first/namesBlock] = block
	}
	return streamName, typeName, nil
}

func nameOf(s *statement, id int64) (name string, err error) {
	found, err := s.row(1, func(row []driver.Value) error {
		name, _ = row[0].(string)
		return nil
	}, id)
	if err == nil && (!found || name == "") {
		err = fmt.Errorf("%w: number %d has no name", errDamaged, id)
	}
	return name, err
}

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
