package relay

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/broker"
	"letterhead/internal/eventlog"
)

// VerifyLog is the part of the event log that Verify uses.
type VerifyLog interface {
	ReadAll(ctx context.Context, after eventlog.Position, filter eventlog.Filter, limit int) (eventlog.Page, error)
}

// Source calls do with every message that a record topic contains at the time of the call, those of
// each partition in order.
type Source func(ctx context.Context, do func(partition int, m broker.Message) error) error

// Fault is a difference that Verify found.
type Fault struct {
	Stream   string `json:"stream"`
	Revision uint64 `json:"revision"`
	Kind     string `json:"kind"` // one of the Fault… constants
	Detail   string `json:"detail,omitempty"`
}

// Kinds of a Fault.
const (
	FaultMissing   = "missing"      // in the log and already passed by the relay, but not in the topic
	FaultDifferent = "different"    // the topic has other content than the log
	FaultForeign   = "foreign"      // in the topic, but not in the log
	FaultOrder     = "out of order" // it came before an earlier event of its stream
	FaultChain     = "broken chain" // an account's hash chain is invalid
)

// Verified is the result of Verify.
type Verified struct {
	Events  int `json:"events"`  // of the log, up to the checkpoint
	Streams int `json:"streams"` // of these events
	Equal   int `json:"equal"`   // of the log's, found unchanged in the topic
	Repeats int `json:"repeats"` // repeated messages of the topic; these are allowed
	Newer   int `json:"newer"`   // events of the topic after the checkpoint; these are allowed
	Faults  int `json:"faults"`
}

const (
	verifyPage = 4096
	// maxNewer limits the remembered messages that were not in the log when it was read.
	maxNewer = 1 << 20
)

// Verify compares a topic with the log: every event of the streams up to the checkpoint must be in the
// topic with the same id, revision and bytes, first occurrences in the order of its stream, and the
// hash chains of accounts must be valid. prefixes select the streams. It reads the log, then the topic,
// then the events added to the log in the meantime.
//
// It uses 8 bytes and a bit of memory per event, and about 200 bytes per stream.
//
// Errors: as the log, of source and ctx.Err(); faults are passed to report, one by one, and counted.
func Verify(ctx context.Context, log VerifyLog, prefixes []string, checkpoint eventlog.Position, source Source,
	report func(Fault)) (Verified, error) {
	v := &verifier{log: log, prefixes: prefixes, checkpoint: checkpoint, report: report, streams: map[string]*history{}}
	if err := v.readLog(ctx); err != nil {
		return v.found, err
	}
	if err := source(ctx, v.message); err != nil {
		return v.found, err
	}
	if err := v.compareNewer(ctx); err != nil {
		return v.found, err
	}
	v.findMissing()
	return v.found, nil
}

type verifier struct {
	log        VerifyLog
	prefixes   []string
	checkpoint eventlog.Position
	report     func(Fault)
	streams    map[string]*history
	read       eventlog.Position // of the log
	newer      []newer
	found      Verified
}

// newer is a message that was not in the log when it was read.
type newer struct {
	stream   string
	revision uint64
	digest   uint64
}

type history struct {
	digests  []uint64 // of the log's events, by revision
	seen     []uint64 // bits: which of them are in the topic
	required int      // this many, from the first on, must be in the topic
	chain    eventschemas.Hash
	broken   bool

	next      uint64 // the next revision to occur first in the topic
	partition int    // of its last message
	split     bool   // it is in several partitions: their number was increased, and order is lost
	early     bool
	earlyAt   uint64
}

func (v *verifier) fault(f Fault) {
	v.found.Faults++
	v.report(f)
}

// readLog adds the log's events after those read so far.
func (v *verifier) readLog(ctx context.Context) error {
	for {
		page, err := v.log.ReadAll(ctx, v.read, eventlog.Filter{StreamPrefixes: v.prefixes}, verifyPage)
		if err != nil {
			return fmt.Errorf("read the log after position %d: %w", v.read, err)
		}
		for i := range page.Events {
			v.event(&page.Events[i])
		}
		v.read = page.Next
		if page.End {
			return nil
		}
	}
}

func (v *verifier) event(r *eventlog.Recorded) {
	h := v.streams[r.Stream]
	if h == nil {
		h = &history{partition: -1}
		v.streams[strings.Clone(r.Stream)] = h
		v.found.Streams++
	}
	if strings.HasPrefix(r.Stream, account.StreamPrefix) && !h.broken {
		h.chain = eventschemas.ChainLink{
			Stream: r.Stream, Revision: r.Revision, EventID: r.ID, Type: r.Type, SchemaVersion: r.SchemaVersion,
			OccurredAt: r.OccurredAt, Actor: r.Metadata.Actor, RequestID: r.Metadata.RequestID, Data: r.Data,
		}.Next(h.chain)
		if hex.EncodeToString(h.chain[:]) != r.Metadata.Hash {
			h.broken = true
			v.fault(Fault{r.Stream, r.Revision, FaultChain, "its hash does not match its content"})
		}
	}
	h.digests = append(h.digests, digest(r))
	if r.Position <= v.checkpoint {
		h.required = len(h.digests)
		v.found.Events++
	}
}

// message compares one message of the topic.
func (v *verifier) message(partition int, m broker.Message) error {
	r, err := broker.Recorded(m)
	if err != nil {
		v.fault(Fault{Stream: m.Key, Kind: FaultForeign, Detail: err.Error()})
		return nil
	}
	if !slices.ContainsFunc(v.prefixes, func(p string) bool { return strings.HasPrefix(r.Stream, p) }) {
		return nil
	}
	if m.Key != r.Stream {
		v.fault(Fault{r.Stream, r.Revision, FaultDifferent, "its key differs from its stream"})
	}
	h := v.streams[r.Stream]
	if h == nil || r.Revision >= uint64(len(h.digests)) {
		if len(v.newer) == maxNewer {
			return fmt.Errorf(
				"more than %d messages of the topic are not in the log: the topic was copied from another log",
				maxNewer)
		}
		v.newer = append(v.newer, newer{strings.Clone(r.Stream), r.Revision, digest(&r)})
		return nil
	}
	v.compare(h, r.Stream, r.Revision, digest(&r))
	h.order(partition, r.Revision)
	return nil
}

// compare counts an event of the topic whose revision exists in the log.
func (v *verifier) compare(h *history, stream string, revision, sum uint64) {
	word, bit := revision/64, uint64(1)<<(revision%64)
	for uint64(len(h.seen)) <= word {
		h.seen = append(h.seen, 0)
	}
	switch {
	case h.digests[revision] != sum:
		v.fault(Fault{stream, revision, FaultDifferent, "id, envelope or data differ from the log"})
	case h.seen[word]&bit != 0:
		v.found.Repeats++
	default:
		h.seen[word] |= bit
		if revision < uint64(h.required) {
			v.found.Equal++
		} else {
			v.found.Newer++
		}
	}
}

// order tracks whether revisions first occur in order.
func (h *history) order(partition int, revision uint64) {
	if h.partition >= 0 && h.partition != partition {
		h.split = true
	}
	h.partition = partition
	switch {
	case revision == h.next:
		h.next++
	case revision > h.next && !h.early:
		h.early, h.earlyAt = true, revision
	}
}

// compareNewer compares the messages that arrived in the topic after the log was read with events that
// the log has by now.
func (v *verifier) compareNewer(ctx context.Context) error {
	if len(v.newer) == 0 {
		return nil
	}
	if err := v.readLog(ctx); err != nil {
		return err
	}
	for _, n := range v.newer {
		h := v.streams[n.stream]
		if h == nil || n.revision >= uint64(len(h.digests)) {
			v.fault(Fault{n.stream, n.revision, FaultForeign, "the log has no such event"})
			continue
		}
		v.compare(h, n.stream, n.revision, n.digest)
	}
	return nil
}

// findMissing reports missing events, and events out of order in streams that miss none.
func (v *verifier) findMissing() {
	for _, name := range slices.Sorted(maps.Keys(v.streams)) {
		h := v.streams[name]
		missing := false
		for revision := range uint64(h.required) {
			if word := revision / 64; word >= uint64(len(h.seen)) || h.seen[word]&(1<<(revision%64)) == 0 {
				missing = true
				v.fault(Fault{Stream: name, Revision: revision, Kind: FaultMissing})
			}
		}
		if h.early && !h.split && !missing {
			v.fault(Fault{name, h.earlyAt, FaultOrder, "it came before an earlier event of its stream"})
		}
	}
}

// digest returns a part of a hash over everything that is copied of an event except its position,
// which a migration changes.
func digest(r *eventlog.Recorded) uint64 {
	h := sha256.New()
	h.Write(r.ID[:])
	var number [8]byte
	for _, n := range []uint64{uint64(r.SchemaVersion), uint64(r.OccurredAt.UnixMicro()), r.Revision} {
		binary.BigEndian.PutUint64(number[:], n)
		h.Write(number[:])
	}
	for _, s := range []string{r.Stream, r.Type, r.Metadata.Actor, r.Metadata.RequestID, r.Metadata.CorrelationID,
		r.Metadata.CausationID, r.Metadata.Hash} {
		part(h, []byte(s))
	}
	part(h, r.Data)
	return binary.BigEndian.Uint64(h.Sum(nil))
}

func part(to hash.Hash, b []byte) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(b)))
	to.Write(length[:])
	to.Write(b)
}
