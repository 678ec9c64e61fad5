package engine

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
)

// Defaults and limits.
const (
	// DefaultBatchEvents limits the events that a catch-up loop folds in one transaction. With more of them the writer
	// is blocked longer, and more of them are in memory.
	DefaultBatchEvents = 10_000
	// maxBatchBytes ends a batch early if its events are large.
	maxBatchBytes = 32 << 20
	// pageEvents limits the events of one read of the log.
	pageEvents = 1024
	// pagesAhead is the number of pages that are read and decoded while one batch is folded and another written, so
	// that neither processor waits for the other.
	pagesAhead = 2
	// levelEvents limits the events that a catch-up loop folds while the live loop is paused.
	levelEvents = 2000
	// liveGather is the pause after a small batch of the live loop, in which events of the next one gather. Under load
	// each transaction then has many events; committing them one by one cost a third of the processor time of a metered
	// look-up (BenchmarkLookupHit). Above gatherEvents the pause grows with the previous batch, and so with the load,
	// up to liveGatherMost. A row that several events of a batch change is written once. An event after a quiet period
	// is folded immediately, and WaitFor ends the pause; all others are visible after at most liveGatherMost.
	liveGather     = 100 * time.Millisecond
	liveGatherMost = 400 * time.Millisecond
	gatherEvents   = 64
	// DefaultRetryFirst and DefaultRetryLast limit the pause before a quarantined read model is retried; it doubles in
	// between. After a failure of the database the limit is faultLast.
	DefaultRetryFirst = 250 * time.Millisecond
	DefaultRetryLast  = time.Minute
	// faultLast limits the pause after a failure of the database or of the log, and before the next attempt to lead:
	// they may be available again at any moment, and readers wait for them. (RetryLast is longer because a read model
	// that cannot fold an event can hardly fold it a minute later.)
	faultLast = time.Second
	// scrapeTimeout limits the reads of the log for the gauges.
	scrapeTimeout = time.Second
	// maxFailureBytes limits the error text in projections_registry.
	maxFailureBytes = 2000
)

// Limits of several nodes on one database.
const (
	// leadName is the name of the leadership of the node that folds.
	leadName = "projections"
	// pollPause is the interval at which a node polls projections_registry if no caller waits. It limits how late its
	// readers notice a swap, how far its caches lag behind the tables, and how late a leader sees a request. A poll is
	// one statement over about twelve rows.
	pollPause = liveGather
	// pollFirst and pollLast limit the interval while a caller of WaitFor waits; it doubles in between.
	pollFirst = 2 * time.Millisecond
	pollLast  = 20 * time.Millisecond
	// pollTimeout limits one poll, including what models read in it, so that a database that hangs does not block
	// callers that wait for the next poll.
	pollTimeout = 10 * time.Second
	// DefaultDropAfter is many times the lag of any node that can serve (pollPause), and longer than any request.
	DefaultDropAfter = time.Minute
	// orphanFactor times Config.DropAfter without progress means that the node of a Verify is gone and its scratch
	// tables are dropped: a batch takes seconds, and an event store that is unavailable for a while delays it.
	orphanFactor = 10
)

// Config of a Runner. Only Decode must be set.
type Config struct {
	// Decode returns the body of an event from its type, schema version and data. A read model that folds an event that
	// cannot be decoded is quarantined.
	Decode func(eventType string, schemaVersion int, data []byte) (eventlog.Body, error)
	// FollowOnly means that this node does not fold, but another node that shares the database. It has no effect on a
	// database that is not shared.
	FollowOnly bool
	// DropAfter is how long tables stay after they were live, for readers on other nodes, who cannot be counted.
	// Default: DefaultDropAfter. Tables of a database that is not shared are dropped with the last reader.
	DropAfter time.Duration
	// Format is the data format of this release, which increases when an event or a read model gets a new version.
	// Default: firstFormat.
	Format int
	// InForce is for a process that works on the data alone, even if the database could be shared: the data format in
	// force from Start on. The format of this release finishes an upgrade; the one before leaves the data to the
	// previous release, and no newer versions are built. Default: nodes that share the database agree on it, and
	// otherwise the format of this release is in force.
	InForce int
	// BatchEvents limits the events of one transaction. Default: DefaultBatchEvents.
	BatchEvents int
	// RetryFirst and RetryLast limit the pauses between attempts. Defaults: DefaultRetryFirst, DefaultRetryLast.
	RetryFirst, RetryLast time.Duration
	// ScratchFolder is where Verify puts its tables if the database is a SQLite file. It is created if it is missing,
	// and what a killed Verify left there is deleted. Default: the system's folder for temporary files, in which
	// nothing is deleted.
	ScratchFolder string
	// ReadOnly is for a database that was opened read-only: Start admits readers where tables are live, nothing is
	// folded, and Run must not be called.
	ReadOnly   bool
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

func (c Config) withDefaults() Config {
	c.Format = cmp.Or(c.Format, firstFormat)
	c.BatchEvents = cmp.Or(c.BatchEvents, DefaultBatchEvents)
	c.RetryFirst = cmp.Or(c.RetryFirst, DefaultRetryFirst)
	c.RetryLast = cmp.Or(c.RetryLast, max(DefaultRetryLast, c.RetryFirst))
	c.DropAfter = cmp.Or(c.DropAfter, DefaultDropAfter)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// backoff returns pauses that double.
type backoff struct{ next, last time.Duration }

func (c *Config) backoff() backoff { return backoff{next: c.RetryFirst, last: c.RetryLast} }

// faultBackoff returns the pauses after failures of the database or the log.
func (c *Config) faultBackoff() backoff {
	return backoff{next: min(c.RetryFirst, faultLast), last: min(c.RetryLast, faultLast)}
}

func (b *backoff) pause() time.Duration {
	d := b.next
	b.next = min(2*b.next, b.last)
	return d
}
