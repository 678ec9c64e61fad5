// Package variants keeps pictures that were made of others: in memory, and on disk for longer. Nothing in it
// is needed; what is lost is made again.
//
// A picture is looked for in memory, then on disk, and is made when it is in neither. Those who ask for one
// key at the same time wait for one look at the disk and one making (making.go). Files are written behind the
// answer and checked when they are read (disk.go, file.go), so neither a full disk nor a kill in the middle
// of a write can spoil an answer.
package variants

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"letterhead/internal/room"
)

const (
	// DefaultMemoryBytes holds some 20,000 logos of 128 pixels.
	DefaultMemoryBytes = 64 << 20
	// DefaultDiskBytes holds some 260,000 logos, most of which take one block each.
	DefaultDiskBytes = 1 << 30
	// DefaultWaiting is the crowd that a machine of two processors serves within a second.
	DefaultWaiting = 256
	// DefaultCloseTimeout is past what a disk that is well takes to write what is queued, and well within what a
	// process is given to end.
	DefaultCloseTimeout = 5 * time.Second
	// DefaultMakeTimeout is past what a drawing takes and within what a browser's user waits for.
	DefaultMakeTimeout = 5 * time.Second

	// maxKept bounds a picture that is kept. One of 1024 pixels stays below it even when it is noise; what is
	// above would push a thousand logos out.
	maxKept = 4<<20 + 64<<10

	// These keep a typing error from asking for all there is.
	maxMemoryBytes = 64 << 30
	maxDiskBytes   = 1 << 40
	maxConcurrent  = 4096
	maxWaiting     = 1 << 20
	maxMakeTimeout = time.Minute

	maxCloseTimeout = time.Minute
)

// ErrBusy: as many pictures are being made, or wait for that, as may be. Try again in a moment.
var ErrBusy = errors.New("too many pictures are being made")

var errClosed = fmt.Errorf("the store of pictures is closed: %w", context.Canceled)

// Key names a variant: a digest of all that decides its bytes.
type Key [sha256.Size]byte

// Picture is a made picture. Its bytes are shared and must not be changed.
type Picture struct {
	Body []byte
	Sum  [sha256.Size]byte // SHA-256 of Body
}

// Config of a Store. Zero fields are the defaults.
type Config struct {
	MemoryBytes int64
	Folder      string // "" = memory only
	DiskBytes   int64
	Concurrent  int           // pictures made at once; by default one for each processor
	Waiting     int           // pictures that wait for that; more are ErrBusy
	Room        *room.Room    // that makings hold bytes of, as far as they tell (Need), and others too; nil: one of its own
	MakeTimeout time.Duration // of one picture, its wait included
	// CloseTimeout bounds Close, which a disk that does not answer, or a function that does not see its context end,
	// would otherwise hold for ever.
	CloseTimeout time.Duration
	Logger       *slog.Logger
	Registerer   prometheus.Registerer
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	within := func(name string, value, most int64) {
		if value < 0 || value > most {
			errs = append(errs, fmt.Errorf("variants: %s is %d, must be 0 to %d", name, value, most))
		}
	}
	within("MemoryBytes", c.MemoryBytes, maxMemoryBytes)
	within("DiskBytes", c.DiskBytes, maxDiskBytes)
	within("Concurrent", int64(c.Concurrent), maxConcurrent)
	within("Waiting", int64(c.Waiting), maxWaiting)
	if c.MakeTimeout < 0 || c.MakeTimeout > maxMakeTimeout {
		errs = append(errs, fmt.Errorf("variants: MakeTimeout is %s, must be 0s to %s", c.MakeTimeout, maxMakeTimeout))
	}
	if c.CloseTimeout < 0 || c.CloseTimeout > maxCloseTimeout {
		errs = append(errs, fmt.Errorf("variants: CloseTimeout is %s, must be 0s to %s", c.CloseTimeout, maxCloseTimeout))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	orDefault(&c.MemoryBytes, DefaultMemoryBytes)
	orDefault(&c.DiskBytes, DefaultDiskBytes)
	orDefault(&c.Concurrent, runtime.GOMAXPROCS(0))
	orDefault(&c.Waiting, DefaultWaiting)
	orDefault(&c.MakeTimeout, DefaultMakeTimeout)
	orDefault(&c.CloseTimeout, DefaultCloseTimeout)
	orDefault(&c.Logger, slog.New(slog.DiscardHandler))
	if c.Room == nil {
		c.Room = room.New(0)
	}
	return c
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Store makes each picture once. It is safe for concurrent use.
type Store struct {
	cfg     Config
	metrics *metrics
	memory  *memory
	disk    *disk // nil = memory only
	turns   *semaphore.Weighted
	waiting atomic.Int64 // makings without a turn

	mu      sync.Mutex
	closed  bool
	closing chan struct{} // ends with Close
	makings map[Key]*making
	running sync.WaitGroup // of the goroutines of makings and of Kept
}

// New opens a store. A folder that cannot be used costs time later and nothing more. Errors: those of
// Config.Validate, and of the registerer.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Store{cfg: cfg, turns: semaphore.NewWeighted(int64(cfg.Concurrent)), makings: map[Key]*making{}, closing: make(chan struct{})}
	var err error
	if s.memory, err = newMemory(cfg.MemoryBytes); err != nil {
		return nil, err
	}
	s.metrics = newMetrics()
	if cfg.Folder != "" {
		if s.disk, err = newDisk(cfg, s.metrics, s.memory.has); err != nil {
			return nil, err
		}
	}
	if err := s.metrics.register(cfg.Registerer, s.memory, s.disk); err != nil {
		return nil, err
	}
	if s.disk != nil {
		s.disk.start()
	}
	return s, nil
}

// Close gives up what is being made, writes what is to be kept, and returns when nothing of the store runs
// any more. What still runs after Config.CloseTimeout is left to itself: it holds no lock, and what it comes to is
// dropped. Folders keep what is in them. Pictures in memory can still be had.
func (s *Store) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	for _, m := range s.makings {
		m.cancel()
	}
	s.mu.Unlock()
	if !first {
		<-s.closing
		return
	}
	defer close(s.closing)
	defer s.memory.close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.running.Wait()
		if s.disk != nil {
			s.disk.close()
		}
	}()
	late := time.NewTimer(s.cfg.CloseTimeout)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		if s.disk != nil {
			s.disk.giveUp()
		}
		s.cfg.Logger.Warn("the store of drawn logos is left before it ended: its disk does not answer, or a drawing goes on", "waited", s.cfg.CloseTimeout)
	}
}

// Get returns the picture of a key, and has it made when it is not there. Those that ask for one key at the
// same time wait for one making, which goes on when its first caller leaves; one that has not begun when the
// last of them leaves is given up. The context of a making holds the values of its first caller's, and ends
// after Config.MakeTimeout.
//
// Errors: ErrBusy; those of make, and one when make panics or returns nothing; context.DeadlineExceeded when
// the making took longer than it may; ctx.Err(); context.Canceled after Close.
func (s *Store) Get(ctx context.Context, key Key, make func(ctx context.Context) ([]byte, error)) (Picture, error) {
	return s.get(ctx, key, make, making{disk: s.disk})
}

// GetWithin is Get for what a making needs itself, with the making's context: it is made in that one's turn, so neither
// waits for the other, and in the room that it has, so Need has nothing to say there. Once it has begun, GetWithin
// returns when it has ended, as the turn and the room would be another's.
func (s *Store) GetWithin(ctx context.Context, key Key, make func(ctx context.Context) ([]byte, error)) (Picture, error) {
	return s.get(ctx, key, make, making{disk: s.disk, within: true})
}

// Kept returns a picture of Get that is kept. For a disk that does not answer it waits until ctx ends.
func (s *Store) Kept(ctx context.Context, key Key) (Picture, bool) {
	if p, ok := s.memory.get(key); ok {
		return p, true
	}
	if s.disk == nil || !s.start() {
		return Picture{}, false
	}
	found := make(chan Picture, 1)
	go func() {
		defer s.running.Done()
		defer close(found)
		if p, ok := s.disk.get(key); ok {
			s.memory.put(key, p)
			found <- p
		}
	}()
	select {
	case p, ok := <-found:
		return p, ok
	case <-ctx.Done():
		return Picture{}, false
	}
}

// start counts one more that runs, unless the store is closed.
func (s *Store) start() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

// GetUnwritten is Get for pictures that are kept in memory alone: cheap ones of which strangers can ask for any
// number, who would otherwise push what is costly from the disk.
func (s *Store) GetUnwritten(ctx context.Context, key Key, make func(ctx context.Context) ([]byte, error)) (Picture, error) {
	return s.get(ctx, key, make, making{})
}

func (s *Store) get(ctx context.Context, key Key, make func(ctx context.Context) ([]byte, error), kind making) (Picture, error) {
	if p, ok := s.memory.get(key); ok {
		s.metrics.memory.Inc()
		return p, nil
	}
	if err := ctx.Err(); err != nil {
		return Picture{}, err
	}
	m, err := s.join(ctx, key, make, kind)
	if err != nil {
		return Picture{}, err
	}
	select {
	case <-m.done:
		return m.picture, m.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-m.ctx.Done(): // make may go on for a while, the caller need not
		select {
		case <-m.done:
			return m.picture, m.err
		default:
		}
		err = s.overdue(m)
	}
	if begun := s.leave(m); begun && kind.within {
		<-m.done
	}
	return Picture{}, err
}

// keep keeps a picture where it fits.
func (s *Store) keep(m *making, p Picture) {
	if len(p.Body) > maxKept {
		return
	}
	s.memory.put(m.key, p)
	if m.disk != nil {
		m.disk.put(m.key, p)
	}
}
