package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sync/errgroup"

	"letterhead/commands"
	"letterhead/internal/assets"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

const (
	// pageEvents is the number of events that are read at a time. Both logs end a page early at 16 MiB.
	pageEvents = 4096
	// copiers is the number of assets that are copied concurrently.
	copiers = 8
	// maxRemembered bounds the assets that a run remembers as copied, to about 50 MiB. At the limit the run
	// forgets all of them and checks again.
	maxRemembered = 1 << 20
)

// Config configures a backup, restore or migration.
type Config struct {
	// Version is the version of the running letterhead, for the manifest.
	Version string
	// SegmentBytes is the size of a segment before compression. Default: 8 MiB.
	SegmentBytes int
	// RetryAfter is the wait after a first failure of the log or the asset store. Default: 200 ms.
	RetryAfter time.Duration
	// LongStream is the number of events from which a restore or a migration saves a snapshot of an
	// account. Default: commands.LongStream.
	LongStream int
	// Progress is called by one goroutine at a time; nil for none.
	Progress func(Progress)
	// Now is the clock of the manifest. Default: time.Now.
	Now func() time.Time

	windowEvents, windowBytes int // tests make windows smaller; default: the constants
}

func (c Config) withDefaults() Config {
	c.SegmentBytes = cmp.Or(c.SegmentBytes, defaultSegmentBytes)
	c.windowEvents = cmp.Or(c.windowEvents, windowEvents)
	c.windowBytes = cmp.Or(c.windowBytes, windowBytes)
	c.LongStream = cmp.Or(c.LongStream, commands.LongStream)
	c.RetryAfter = cmp.Or(c.RetryAfter, defaultRetryAfter)
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Source is the live service to be backed up.
type Source struct {
	Log    eventlog.Log
	Names  Names
	Assets *assets.Store
	// Format returns the data format in force for the log, see eventschemas.Format; nil means Format. Run calls it
	// after it has read the end of the log and records the result in the backup: events of a newer format are written
	// only while that is in force, so a backup with an older format contains none of them.
	Format func(context.Context) (int, error)
	// Readers are the positions of readers in the log, by the names in Target.Done. Only Migrate uses them.
	Readers map[string]eventlog.Position
	// Without are streams that a migration omits; nil: none.
	Without *Failures
}

func (s Source) format(ctx context.Context) (int, error) {
	if s.Format == nil {
		return Format, nil
	}
	format, err := s.Format(ctx)
	return format, sqlstore.Wrap(err, "back up: read the data format in force")
}

// Summary is the result of a run.
type Summary struct {
	Place    string            `json:"place"`
	Position eventlog.Position `json:"position"`
	Events   uint64            `json:"events"` // in the backup
	Names    uint64            `json:"names"`
	Bytes    int64             `json:"bytes"`     // of all segments
	RawBytes int64             `json:"raw_bytes"` // of all segments, before compression

	NewEvents   uint64 `json:"new_events"` // copied by this run
	Adopted     uint64 `json:"adopted"`    // events copied by an interrupted run
	NewAssets   int    `json:"new_assets"`
	AssetBytes  int64  `json:"new_asset_bytes"`
	KnownAssets int    `json:"known_assets"` // referred to by new events, already in the backup
	// MissingAssets were referred to by new events but are not in the asset store, as happens to images of
	// old records; DamagedAssets do not match their ids.
	MissingAssets int      `json:"missing_assets"`
	DamagedAssets []string `json:"damaged_assets,omitempty"` // at most maxListed
}

const maxListed = 20

// Run backs up a source to a folder, or to a bucket if the name is a URL. The source may be in use. The
// next run continues an interrupted one.
//
// Errors: ErrNotBackup (the place holds something else), ErrOtherLog, ErrBusy, ErrNewer, ErrDamaged (the
// existing manifest), the errors of the log, the database and the asset store, ctx.Err().
func Run(ctx context.Context, cfg Config, from Source, to string) (Summary, error) {
	at, err := openPlace(ctx, to, true)
	if err != nil {
		return Summary{}, err
	}
	sum, err := runTo(ctx, cfg.withDefaults(), from, at)
	return sum, errors.Join(err, at.close())
}

func runTo(ctx context.Context, cfg Config, from Source, to place) (sum Summary, err error) {
	if err := to.lock(); err != nil {
		return sum, err
	}
	c, err := newCodec()
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	r := &run{cfg: cfg, from: from, to: to, codec: c, remembered: map[assetKey]struct{}{}}
	r.sum.Place = to.String()
	if err := r.begin(ctx); err != nil {
		return r.sum, err
	}
	if err := r.copyEvents(ctx); err != nil {
		return r.sum, err
	}
	return r.sum, r.finish(ctx)
}

type run struct {
	cfg   Config
	from  Source
	to    place
	codec *codec
	m     Manifest
	sum   Summary
	// remembered are assets that this run has found in the backup.
	remembered map[assetKey]struct{}
}

// begin determines the state of the backup, and whether it is of this log.
func (r *run) begin(ctx context.Context) error {
	m, err := readManifest(ctx, r.to)
	switch {
	case err == nil:
		r.m = *m
	case errors.Is(err, ErrUnfinished):
	case errors.Is(err, ErrNotBackup):
		if err := r.claim(ctx, err); err != nil {
			return err
		}
	default:
		return err
	}
	if err := r.adopt(ctx); err != nil {
		return err
	}
	if r.m.Last == nil {
		return nil
	}
	var held []eventlog.Recorded
	err = retry(ctx, r.cfg.RetryAfter, func() (err error) {
		held, err = r.from.Log.ReadStream(ctx, r.m.Last.Stream, r.m.Last.Revision, eventlog.Forward, 1)
		return err
	})
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	if len(held) == 0 || refTo(&held[0]) != *r.m.Last {
		return fmt.Errorf("%s: %w: revision %d of %s at position %d is not in this log",
			r.to, ErrOtherLog, r.m.Last.Revision, r.m.Last.Stream, r.m.Last.Position)
	}
	return nil
}

// claim turns an empty place into a backup.
func (r *run) claim(ctx context.Context, notBackup error) error {
	if _, err := r.to.get(ctx, begunName, maxManifestBytes); !errors.Is(err, fs.ErrNotExist) {
		return notBackup
	}
	names, err := r.to.list(ctx, "")
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return fmt.Errorf("%w; it holds %s: name an empty folder, or one that does not exist yet", notBackup, names[0])
	}
	format, err := r.from.format(ctx)
	if err != nil {
		return err
	}
	raw := fmt.Appendf(nil, "{\"format\":%d,\"product\":%q,\"version\":%q,\"begun_at\":%q}\n",
		format, product, r.cfg.Version, r.cfg.Now().UTC().Format(time.RFC3339))
	if err := r.to.put(ctx, begunName, raw); err != nil {
		return err
	}
	return r.to.flush(ctx)
}

// adopt takes over the segments of an interrupted run, up to the first missing or incomplete one; the
// events from there on are read again.
func (r *run) adopt(ctx context.Context) error {
	for {
		name := segmentName(uint64(len(r.m.Segments) + 1))
		data, err := r.to.get(ctx, name, maxSegmentBytes)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		raw, err := r.codec.expand(data)
		if err != nil {
			return nil // it will be written again
		}
		s, err := decodeSegment(raw)
		if errors.Is(err, ErrNewer) {
			return err
		}
		if err != nil || s.number != uint64(len(r.m.Segments)+1) || s.after != r.m.Position || len(s.events) == 0 {
			return nil
		}
		r.note(SegmentFile{
			Name: name, SHA256: hexSum(data), Bytes: int64(len(data)), RawBytes: int64(len(raw)),
			Events: uint64(len(s.events)), After: s.after, Through: s.through,
		}, s.assets, refTo(&s.events[len(s.events)-1]))
		r.sum.Adopted += uint64(len(s.events))
	}
}

func (r *run) note(f SegmentFile, refs []assetRef, last EventRef) {
	for _, a := range refs {
		if a.present {
			f.Assets++
		} else {
			f.Missing++
		}
	}
	r.m.Segments = append(r.m.Segments, f)
	r.m.Events += f.Events
	r.m.Position = f.Through
	r.m.Last = &last
}

// copyEvents copies everything up to the log's head. One goroutine reads and packs, another one compresses
// and writes, with one segment in between.
func (r *run) copyEvents(ctx context.Context) error {
	head, err := headOf(ctx, r.from.Log, r.cfg.RetryAfter)
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	packed := make(chan *builder, 1)
	group, ctx := errgroup.WithContext(ctx)
	next, after, done := uint64(len(r.m.Segments)+1), r.m.Position, r.m.Events
	group.Go(func() error {
		defer close(packed)
		return r.pack(ctx, next, after, head, done, packed)
	})
	group.Go(func() error {
		for b := range packed {
			if err := r.write(ctx, b); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

// pack makes segments of the events after a position; done events are already in the backup.
func (r *run) pack(ctx context.Context, number uint64, after, head eventlog.Position, done uint64,
	packed chan<- *builder) error {
	from := &logFeed{log: r.from.Log, at: after, until: head, retryAfter: r.cfg.RetryAfter}
	b := newBuilder(number, after, r.cfg.SegmentBytes)
	send := func() error {
		err := delay.Send(ctx, packed, b)
		b = newBuilder(b.number+1, b.through, r.cfg.SegmentBytes)
		return err
	}
	err := eachEvents(ctx, from.next, func(events []eventlog.Recorded) error {
		for i := range events {
			b.add(&events[i])
			if err := references(&events[i], b.refer); err != nil {
				return err
			}
			if len(b.raw) >= r.cfg.SegmentBytes {
				if err := send(); err != nil {
					return err
				}
			}
		}
		done += uint64(len(events))
		r.cfg.Progress(Progress{Stage: StageEvents, Done: done, Position: events[len(events)-1].Position, Head: head})
		return nil
	})
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	if b.events == 0 {
		return nil
	}
	return send()
}

// write stores a segment's assets and then the segment.
func (r *run) write(ctx context.Context, b *builder) error {
	if err := r.copyAssets(ctx, b.refs); err != nil {
		return err
	}
	name := segmentName(b.number)
	raw := b.end()
	if len(raw) > maxSegmentBytes {
		return fmt.Errorf("back up: %s has %d bytes, at most %d", name, len(raw), maxSegmentBytes)
	}
	data := r.codec.compress(raw)
	if err := r.to.flush(ctx); err != nil { // the assets
		return err
	}
	if err := r.to.put(ctx, name, data); err != nil {
		return err
	}
	if err := r.to.flush(ctx); err != nil {
		return err
	}
	r.note(SegmentFile{
		Name: name, SHA256: hexSum(data), Bytes: int64(len(data)), RawBytes: int64(len(raw)),
		Events: uint64(b.events), After: b.after, Through: b.through,
	}, b.refs, b.last)
	r.sum.NewEvents += uint64(b.events)
	return nil
}

// finish copies the names and writes the manifest.
func (r *run) finish(ctx context.Context) error {
	format, err := r.from.format(ctx)
	if err != nil {
		return err
	}
	names, err := writeNames(ctx, r.from.Names, r.to, r.codec)
	if err != nil {
		return err
	}
	r.m.Format, r.m.Product, r.m.Version = max(r.m.Format, format), product, r.cfg.Version
	r.m.Finished = r.cfg.Now().UTC().Truncate(time.Second)
	r.m.Names = names
	if r.m.Segments == nil {
		r.m.Segments = []SegmentFile{}
	}
	if err := writeManifest(ctx, r.to, &r.m); err != nil {
		return err
	}
	r.sum.Position, r.sum.Events, r.sum.Names, r.sum.RawBytes = r.m.Position, r.m.Events,
		r.m.NameCount(), r.m.RawBytes()
	for _, s := range r.m.Segments {
		r.sum.Bytes += s.Bytes
	}
	r.cfg.Progress(Progress{Stage: StageNames, Done: r.sum.Names, Total: r.sum.Names})
	return removeOldNames(ctx, r.to, names)
}

const (
	// defaultRetryAfter is the wait after the first failure of one step; it doubles up to maxRetryAfter.
	defaultRetryAfter = 200 * time.Millisecond
	maxRetryAfter     = 5 * time.Second
	// maxTries bounds the tries of one step: with the waits above, half a minute. Running the command again
	// continues the work.
	maxTries = 10
)

// transient reports whether a later try may succeed.
func transient(err error) bool {
	return errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrAmbiguous) ||
		errors.Is(err, assets.ErrUnavailable) || errors.Is(err, sqlstore.ErrUnavailable)
}

func headOf(ctx context.Context, log eventlog.Log, retryAfter time.Duration) (head eventlog.Position, err error) {
	err = retry(ctx, retryAfter, func() (err error) {
		head, err = log.Head(ctx)
		return err
	})
	return head, err
}

// retry repeats one step until it succeeds, fails permanently, exhausts its tries, or ctx ends.
func retry(ctx context.Context, first time.Duration, step func() error) error {
	wait := first
	for try := 1; ; try++ {
		err := step()
		if err == nil || ctx.Err() != nil || !transient(err) {
			return err
		}
		if try == maxTries {
			return fmt.Errorf("failed %d times; run the command again to continue: %w", maxTries, err)
		}
		if err := delay.For(ctx, delay.Jittered(wait)); err != nil {
			return err
		}
		wait = min(2*wait, maxRetryAfter)
	}
}
