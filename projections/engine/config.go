package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/eventschemas"
)

// Defaults and limits.
const (
	// DefaultBatchEvents is what a lane that is behind folds in one transaction. More makes each changed
	// row rarer to write but holds the writer longer, at most some 150 ms at this size.
	DefaultBatchEvents = 20_000
	maxBatchEvents     = 1_000_000
	// maxBatchBytes ends a batch early when its events are large.
	maxBatchBytes = 32 << 20
	// pageEvents is what one read of the log returns at most.
	pageEvents = 4096
	// pagesAhead is how many pages are read and decoded while one batch is being folded and another written:
	// those of the next batch, so that neither processor waits for the other.
	pagesAhead = 6
	// levelEvents is the most that a chase lane folds while it holds the main lane up.
	levelEvents = 2000
	// liveGather is the pause after a small batch of the main lane, in which the next one gathers. Under load
	// each transaction then carries many events; committing them as they come cost a third of the processor
	// time of a metered look-up (BenchmarkLookupHit). The pause grows with the batch before it, so that batches
	// grow with the load: past gatherEvents events it is longer in proportion, up to liveGatherMost. A row that
	// many events of a batch change is written once. An event that comes after a quiet moment is folded at
	// once, and WaitFor ends the pause; all others are seen liveGatherMost later at most.
	liveGather     = 100 * time.Millisecond
	liveGatherMost = 400 * time.Millisecond
	gatherEvents   = 64
	// DefaultRetryFirst and DefaultRetryLast bound the pause before a set-aside read model is tried again; it
	// doubles in between. After a fault of the database it ends at faultLast.
	DefaultRetryFirst = 250 * time.Millisecond
	DefaultRetryLast  = time.Minute
	// faultLast bounds the pause after a fault of the database or of the log, and before another attempt to lead:
	// what failed is likely to be there again at any moment, and readers wait for it. (What a read model cannot fold
	// it can hardly fold a minute later; that is what RetryLast is for.)
	faultLast = time.Second
	// scrapeTimeout bounds the reads of the log for the gauges.
	scrapeTimeout = time.Second
	// maxFailureBytes bounds the error text that the registry keeps.
	maxFailureBytes = 2000
)

// Limits of several nodes on one database.
const (
	// leadName is the name of the leadership of those who fold.
	leadName = "projections"
	// pollPause is between two looks of a node at the registry while nobody waits: what its readers may be
	// behind a swap, what its caches may be behind the tables, and how soon a leader sees what it is asked
	// for. A look is one statement over a dozen rows.
	pollPause = liveGather
	// pollFirst and pollLast bound the pauses while somebody waits in WaitFor; they double in between.
	pollFirst = 2 * time.Millisecond
	pollLast  = 20 * time.Millisecond
	// lookTimeout bounds one look, with what models read for it. A database that hangs must not hold up who
	// waits for the next one.
	lookTimeout = 10 * time.Second
	// DefaultDropAfter is many times what a node that can serve at all may be behind (pollPause), and the
	// longest request.
	DefaultDropAfter = time.Minute
	// orphanFactor times Config.DropAfter without a step is when the scratch tables of a Verify have lost
	// their node: a batch takes it a second or two, an event store that is away for a while stops it.
	orphanFactor = 10
)

// Config of a Runner. The zero value is complete.
type Config struct {
	// FollowOnly says that this node does not fold: another of those that share the database does. It changes
	// nothing on a database of this process alone.
	FollowOnly bool
	// DropAfter is how long tables that are not live any more stay for readers on other nodes, who cannot be
	// counted. Default: DefaultDropAfter. A database of this process alone drops them with the last reader.
	DropAfter time.Duration
	// Format is the data format of this release. Default: eventschemas.Format.
	Format int
	// InForce is for a process that works on the data alone, also where the database could be shared: the data format
	// that is in force from Start on. That of this release finishes an upgrade; the one before leaves the data to the
	// release before, and no newer versions are built. Default: nodes that share the database agree, and one that is not
	// shared has that of this release.
	InForce int
	// BatchEvents is the most events of one transaction. Default: DefaultBatchEvents.
	BatchEvents int
	// RetryFirst and RetryLast bound the pauses between attempts. Defaults: DefaultRetryFirst, DefaultRetryLast.
	RetryFirst, RetryLast time.Duration
	// ScratchFolder is where Verify puts its tables when the database is a SQLite file; it is made when it is missing,
	// and what a killed Verify left there is deleted. Default: the system's folder for temporary files, where nothing
	// else is touched.
	ScratchFolder string
	// ReadOnly is for a database that was opened so: Start lets readers in where there are live tables, nothing is
	// folded, and Run must not be called.
	ReadOnly   bool
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Format == 0 {
		c.Format = eventschemas.Format
	}
	if c.BatchEvents == 0 {
		c.BatchEvents = DefaultBatchEvents
	}
	if c.RetryFirst == 0 {
		c.RetryFirst = DefaultRetryFirst
	}
	if c.RetryLast == 0 {
		c.RetryLast = max(DefaultRetryLast, c.RetryFirst)
	}
	if c.DropAfter == 0 {
		c.DropAfter = DefaultDropAfter
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.BatchEvents < 0 || c.BatchEvents > maxBatchEvents {
		errs = append(errs, fmt.Errorf("batch of %d events; it is 0 (default) to %d", c.BatchEvents, maxBatchEvents))
	}
	if c.RetryFirst < 0 || c.RetryLast < 0 {
		errs = append(errs, errors.New("a pause between attempts is negative"))
	}
	if c.DropAfter < 0 {
		errs = append(errs, fmt.Errorf("old tables stay for %s; it cannot be negative", c.DropAfter))
	}
	if c.RetryLast != 0 && c.RetryLast < c.RetryFirst {
		errs = append(errs, fmt.Errorf("the last pause (%s) is shorter than the first (%s)", c.RetryLast, c.RetryFirst))
	}
	return errors.Join(errs...)
}

// backoff counts pauses that double.
type backoff struct{ next, last time.Duration }

func (c *Config) backoff() backoff { return backoff{next: c.RetryFirst, last: c.RetryLast} }

// faultBackoff counts the pauses after faults of the database or the log.
func (c *Config) faultBackoff() backoff {
	return backoff{next: min(c.RetryFirst, faultLast), last: min(c.RetryLast, faultLast)}
}

func (b *backoff) pause() time.Duration {
	d := b.next
	b.next = min(2*b.next, b.last)
	return d
}
