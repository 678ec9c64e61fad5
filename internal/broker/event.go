package broker

import (
	"fmt"
	"strconv"

	"letterhead/internal/eventlog"
)

// Topics of work. Each has a separate relay, so that live work never waits behind bulk work.
const (
	CrawlLive    = "crawl.live"
	CrawlRefresh = "crawl.refresh"
)

// Topics of record: copies of events for external consumers, on a broker that retains them.
const (
	// Ledger carries the events of account and usage streams.
	Ledger = "ledger"
	// Brands carries the events of brand streams.
	Brands = "brands"
)

// Metadata of a message that carries an event of the log.
const (
	MetaType        = "event_type"
	MetaVersion     = "schema_version"
	MetaStream      = "stream"
	MetaPosition    = "position"
	MetaCorrelation = "correlation_id"
)

// Event returns a message that carries an event of the log. It deliberately omits the time of the event: work
// is limited by durations, because the clocks of nodes differ.
func Event(r eventlog.Recorded, key string) Message {
	return Message{
		ID: r.ID.String(), Key: key, Payload: r.Data,
		Metadata: map[string]string{
			MetaType:        r.Type,
			MetaVersion:     strconv.Itoa(r.SchemaVersion),
			MetaStream:      r.Stream,
			MetaPosition:    strconv.FormatUint(uint64(r.Position), 10),
			MetaCorrelation: r.Metadata.CorrelationID,
		},
	}
}

// EventType returns the type and schema version of the event that a message carries. It returns ErrInvalid if
// one of them is missing; retrying does not help then.
func EventType(m Message) (eventType string, version int, err error) {
	if m.Metadata[MetaType] == "" {
		return "", 0, fmt.Errorf("%w: message %s has no event type", ErrInvalid, m.ID)
	}
	version, err = strconv.Atoi(m.Metadata[MetaVersion])
	if err != nil || version < 1 {
		return "", 0, fmt.Errorf("%w: message %s has the schema version %.32q", ErrInvalid, m.ID,
			m.Metadata[MetaVersion])
	}
	return m.Metadata[MetaType], version, nil
}
