package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
)

// Limits of the usage recorder.
const (
	// DefaultFlushEvery is how long counts stay in memory; a kill loses the counts of that period.
	DefaultFlushEvery = time.Second
	// flushWithin limits one flush, and all attempts of the last one together; lastFlushPause is the
	// pause between two attempts.
	flushWithin    = 10 * time.Second
	lastFlushPause = 100 * time.Millisecond
	// maxRecorded limits the accounts and keys that are summed up; beyond it counts are dropped, which is counted.
	maxRecorded = 200_000
	// maxTickEntries limits the entries of one event and maxTickKeys their keys: with ids of 36
	// characters that is at most 56 KiB.
	maxTickEntries = 200
	maxTickKeys    = 400
	// maxTicksPerAppend keeps one append below eventlog.MaxAppendBytes.
	maxTicksPerAppend = 8
	// maxRecorderRaces limits how often an append is moved to the stream's new end.
	maxRecorderRaces = 8
	actorRecorder    = "system:usage-recorder"
)

// RecorderConfig configures a UsageRecorder.
type RecorderConfig struct {
	FlushEvery time.Duration // DefaultFlushEvery when zero
	Events     eventschemas.Encoder
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Validate reports an error in the configuration.
func (c RecorderConfig) Validate() error {
	if c.FlushEvery < 0 {
		return errors.New("usage recorder: FlushEvery is negative")
	}
	return nil
}

// UsageRecorder sums up usage that affects no decision, and appends it to the node's own stream about
// once a second. A kill loses the counts in memory. It is safe for concurrent use.
type UsageRecorder struct {
	cfg    RecorderConfig
	log    eventlog.Log
	stream string
	run    string // id of this process, part of the ids of its events

	mu      sync.Mutex
	entries map[entryKey]*recorded
	size    int // entries and keys

	// The following fields belong to Run.
	ticks   uint64
	known   bool // whether next and last are set
	next    uint64
	last    time.Time
	sending []eventlog.Proposed // taken from entries, not known to be appended

	dropped prometheus.Counter
	lagging prometheus.Counter
}

type entryKey struct {
	accountID string
	month     usage.Month
}

type recorded struct {
	logos int64
	keys  map[string]time.Time
}

// NewUsageRecorder returns a recorder that writes to the node's stream. Each process needs its own
// name. If two share one by mistake, nothing is lost or counted twice, because each appends at an
// exact revision with its own ids; but they conflict with each other and log warnings.
func NewUsageRecorder(cfg RecorderConfig, log eventlog.Log, node string) (*UsageRecorder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if log == nil || node == "" {
		return nil, errors.New("usage recorder: needs an event log and a node name")
	}
	cfg.FlushEvery = cmp.Or(cfg.FlushEvery, DefaultFlushEvery)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	r := &UsageRecorder{
		cfg: cfg, log: log, stream: usage.NodeStream(node), run: uuid.NewString(), entries: map[entryKey]*recorded{},
		dropped: telemetry.Counter("letterhead_usage_dropped_total",
			"Counts dropped because too much waited to be recorded."),
		lagging: telemetry.Counter("letterhead_usage_flush_failures_total",
			"Flushes of usage counts that have to be repeated."),
	}
	if err := telemetry.Register(cfg.Registerer, r.dropped, r.lagging); err != nil {
		return nil, fmt.Errorf("usage recorder: %w", err)
	}
	return r, nil
}

// KeyUsed records the last use of a key.
func (r *UsageRecorder) KeyUsed(accountID, keyID string, at time.Time) {
	at = at.UTC().Truncate(time.Microsecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entry(accountID, at)
	if e == nil {
		return
	}
	old, known := e.keys[keyID]
	switch {
	case known && !at.After(old):
		return
	case !known && r.size >= maxRecorded:
		r.dropped.Inc()
		return
	case !known:
		r.size++
	}
	if e.keys == nil {
		e.keys = map[string]time.Time{}
	}
	e.keys[keyID] = at
}

// Logo counts one logo request.
func (r *UsageRecorder) Logo(accountID string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entry(accountID, at); e != nil {
		e.logos++
	}
}

// entry returns the sums of the account's month, or nil if there is no room. mu is held.
func (r *UsageRecorder) entry(accountID string, at time.Time) *recorded {
	k := entryKey{accountID: accountID, month: usage.MonthOf(at)}
	if e, ok := r.entries[k]; ok {
		return e
	}
	if r.size >= maxRecorded {
		r.dropped.Inc()
		return nil
	}
	e := &recorded{}
	r.entries[k] = e
	r.size++
	return e
}

// Run appends the recorded counts periodically until ctx ends, and then once more. It returns an error
// only if that last flush failed and counts are lost.
func (r *UsageRecorder) Run(ctx context.Context) error {
	delay.Every(ctx, r.cfg.FlushEvery, func() {
		if err := r.flush(ctx); err != nil && ctx.Err() == nil {
			r.lagging.Inc()
			r.cfg.Logger.Warn("usage counts could not be appended yet", "stream", r.stream, "error", err)
		}
	})
	return r.lastFlush(ctx)
}

// lastFlush appends the remaining counts, retrying while the log is unavailable. They belong to
// requests that were answered, so it must outlive ctx, within its own deadline.
func (r *UsageRecorder) lastFlush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
	defer cancel()
	for {
		err := r.flush(ctx)
		if err == nil {
			return nil
		}
		if delay.For(ctx, lastFlushPause) != nil {
			return fmt.Errorf("last flush of %s: %w", r.stream, err)
		}
	}
}

// flush appends the counts left from before, then those recorded since.
func (r *UsageRecorder) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	if err := r.send(ctx); err != nil {
		return err
	}
	if err := r.take(); err != nil {
		return err
	}
	return r.send(ctx)
}

// take turns the recorded counts into events.
func (r *UsageRecorder) take() error {
	r.mu.Lock()
	entries := r.entries
	r.entries, r.size = map[entryKey]*recorded{}, 0
	r.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(entries), func(a, b entryKey) int {
		return cmp.Or(strings.Compare(a.accountID, b.accountID), a.month.Start().Compare(b.month.Start()))
	})
	var tick eventschemas.UsageTicked
	usedKeys := 0
	for _, k := range keys {
		e := entries[k]
		if len(tick.Entries) > 0 && (len(tick.Entries) == maxTickEntries || usedKeys+len(e.keys) > maxTickKeys) {
			if err := r.add(tick); err != nil {
				return err
			}
			tick, usedKeys = eventschemas.UsageTicked{}, 0
		}
		tick.Entries = append(tick.Entries, e.entry(k))
		usedKeys += len(e.keys)
	}
	if len(tick.Entries) == 0 {
		return nil
	}
	return r.add(tick)
}

func (e *recorded) entry(k entryKey) eventschemas.UsageEntry {
	out := eventschemas.UsageEntry{AccountID: k.accountID, Month: k.month.String(), Logos: e.logos}
	for _, id := range slices.Sorted(maps.Keys(e.keys)) {
		out.KeysUsed = append(out.KeysUsed, eventschemas.KeyUsed{KeyID: id, At: e.keys[id]})
	}
	return out
}

// add queues an event to be sent.
func (r *UsageRecorder) add(tick eventschemas.UsageTicked) error {
	id, at := fmt.Sprintf("%s-%d", r.run, r.ticks+1), monotonic(r.cfg.Now(), r.last)
	metadata := eventlog.Metadata{RequestID: id, Actor: actorRecorder}
	proposed, err := Proposal(r.cfg.Events, r.stream, id, tick, at, metadata)
	if err != nil {
		return fmt.Errorf("encode usage of %d accounts: %w", len(tick.Entries), err)
	}
	r.ticks, r.last, r.sending = r.ticks+1, at, append(r.sending, proposed)
	return nil
}

// send appends the queued events. An append of unknown outcome is repeated unchanged, here or by the
// next flush, so that nothing is counted twice.
func (r *UsageRecorder) send(ctx context.Context) error {
	races := 0
	for len(r.sending) > 0 {
		if err := r.find(ctx); err != nil {
			return err
		}
		n := min(len(r.sending), maxTicksPerAppend)
		_, err := r.log.Append(ctx, r.stream, eventlog.After(r.next), r.sending[:n])
		switch {
		case err == nil:
			r.next += uint64(n)
			r.sending = slices.Delete(r.sending, 0, n)
		case errors.Is(err, eventlog.ErrWrongRevision) && races < maxRecorderRaces:
			// Another process writes to this stream, and none of these events is at that revision.
			races++
			r.known = false
			r.cfg.Logger.Warn("another process writes usage under this node's name", "stream", r.stream)
		default:
			return fmt.Errorf("append usage to %s at %s: %w", r.stream, eventlog.After(r.next), err)
		}
	}
	return nil
}

// find reads the end of the stream.
func (r *UsageRecorder) find(ctx context.Context) error {
	if r.known {
		return nil
	}
	last, err := r.log.ReadStream(ctx, r.stream, eventlog.End, eventlog.Backward, 1)
	if err != nil {
		return fmt.Errorf("read the end of %s: %w", r.stream, err)
	}
	r.known, r.next = true, 0
	if len(last) == 1 {
		r.next = last[0].Revision + 1
		for i := range r.sending {
			if r.sending[i].OccurredAt.Before(last[0].OccurredAt) {
				r.sending[i].OccurredAt = last[0].OccurredAt
			}
		}
		if r.last.Before(last[0].OccurredAt) {
			r.last = last[0].OccurredAt
		}
	}
	return nil
}
