package sqlite

import (
	"database/sql/driver"
	"fmt"
	"sync"
)

// names maps the integers of the file to stream and type names, for all readers. Names never change, so a
// dropped entry is simply read again.
type names struct {
	mu      sync.Mutex
	streams *recent[int64, string]
	types   map[int64]string // at most maxTypes
}

func newNames() *names {
	return &names{streams: newRecent[int64, string](defaultNameCache), types: make(map[int64]string)}
}

func (n *names) known(stream, typ int64) (streamName, typeName string, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	streamName, ok = n.streams.get(stream)
	if !ok {
		return "", "", false
	}
	typeName, ok = n.types[typ]
	return streamName, typeName, ok
}

// resolve reads unknown names within the transaction of the reader that saw the ids.
func (n *names) resolve(r *reader, stream, typ int64) (streamName, typeName string, err error) {
	if streamName, err = nameOf(r.streamName, stream); err != nil {
		return "", "", err
	}
	if typeName, err = nameOf(r.typeName, typ); err != nil {
		return "", "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.streams.put(stream, streamName)
	n.types[typ] = typeName
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
