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
	// namesBytes bounds the names in memory: 700,000 names of accounts. All are dropped when there are more.
	namesBytes = 48 << 20
	nameBytes  = 24 // without its letters
)

// names maps the integers of the file to stream and type names, for all readers. Names never change, so a
// dropped entry is simply read again.
type names struct {
	mu      sync.RWMutex
	streams map[int64]*namesOfBlock // by id / namesBlock
	types   map[int64]string        // at most maxTypes
	bytes   int                     // of the names of streams
}

// namesOfBlock has no text for a stream that is unknown.
type namesOfBlock [namesBlock]string

// bytes returns the memory of the names; none for nil.
func (b *namesOfBlock) bytes() (sum int) {
	if b != nil {
		for _, name := range b {
			sum += nameBytes + len(name)
		}
	}
	return sum
}

func newNames() *names {
	return &names{streams: make(map[int64]*namesOfBlock), types: make(map[int64]string)}
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
	block := new(namesOfBlock)
	first := stream - stream%namesBlock
	if stream >= 0 && r.streamNames.each(2, func(row []driver.Value) error {
		id, _ := row[0].(int64)
		name, _ := row[1].(string)
		if at := id - first; at >= 0 && at < namesBlock { // a damaged page may have any id
			block[at] = name
		}
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
		n.bytes += block.bytes() - n.streams[first/namesBlock].bytes()
		if n.bytes > namesBytes {
			clear(n.streams)
			n.bytes = block.bytes()
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
