// Package variants caches images derived from others: in memory, and on disk for longer. It is only a
// cache; lost images are made again.
//
// An image is looked up in memory, then on disk, and is made if neither has it. Concurrent callers
// of one key share one read from disk and one job (job.go). Files are written after the answer
// and verified when they are read (disk.go, file.go), so neither a full disk nor a kill during a write
// can corrupt an answer.
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

	"letterhead/internal/membudget"
)

const (
	// DefaultMemoryBytes holds about 20,000 logos of 128 pixels.
	DefaultMemoryBytes = 64 << 20
	// DefaultDiskBytes holds about 260,000 logos, most of which take one block each.
	DefaultDiskBytes = 1 << 30
	// DefaultWaiting is the number of images that a machine with two processors makes within a second.
	DefaultWaiting = 256
	// DefaultCloseTimeout is more than a healthy disk needs to write the queue, and much less than a
	// process is given to exit.
	DefaultCloseTimeout = 5 * time.Second
	// DefaultMakeTimeout is more than rendering takes and less than a browser's user waits.
	DefaultMakeTimeout = 5 * time.Second

	// maxKept limits the size of a cached image. One of 1024 pixels is smaller even if it is noise; a
	// larger one would evict a thousand logos.
	maxKept = 4<<20 + 64<<10

	// These prevent a typing error from using all memory or disk space.
	maxMemoryBytes = 64 << 30
	maxDiskBytes   = 1 << 40
	maxConcurrent  = 4096
	maxWaiting     = 1 << 20
	maxMakeTimeout = time.Minute

	maxCloseTimeout = time.Minute
)

// ErrBusy means that the maximum number of images is being made or waiting. Try again in a moment.
var ErrBusy = errors.New("too many images are being made")

var errClosed = fmt.Errorf("the store of images is closed: %w", context.Canceled)

// Key identifies a variant: a digest of everything that determines its bytes.
type Key [sha256.Size]byte

// Image is a made image. Its bytes are shared and must not be modified.
type Image struct {
	Body []byte
	Sum  [sha256.Size]byte // SHA-256 of Body
}

// Config configures a Store. Zero fields are the defaults.
type Config struct {
	MemoryBytes  int64
	Folder       string // "" = memory only
	DiskBytes    int64
	Concurrent   int               // images made concurrently; by default one per processor
	Waiting      int               // images that wait to be made; more are ErrBusy
	MemoryBudget *membudget.Budget // memory limit shared by jobs that call Need, and others; nil: one per Store
	MakeTimeout  time.Duration     // of one image, including its wait
	// CloseTimeout limits Close, which a disk that does not respond, or a function that ignores its
	// context, would otherwise block forever.
	CloseTimeout time.Duration
	Logger       *slog.Logger
	Registerer   prometheus.Registerer
}

// Validate reports all errors of the configuration.
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
	if c.MemoryBudget == nil {
		c.MemoryBudget = membudget.New(0)
	}
	return c
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Store makes each image once. It is safe for concurrent use.
type Store struct {
	cfg     Config
	metrics *metrics
	memory  *memory
	disk    *disk // nil = memory only
	turns   *semaphore.Weighted
	waiting atomic.Int64 // jobs without a turn

	mu      sync.Mutex
	closed  bool
	closing chan struct{} // ends with Close
	jobs    map[Key]*job
	running sync.WaitGroup // of the goroutines of jobs and of Kept
}

// New opens a store. An unusable folder only costs time later. Errors: those of Config.Validate, and
// of the registerer.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Store{cfg: cfg, turns: semaphore.NewWeighted(int64(cfg.Concurrent)), jobs: map[Key]*job{}, closing: make(chan struct{})}
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

// Close abandons images being made, writes queued files, and returns when all goroutines of the store
// have ended. Goroutines that still run after Config.CloseTimeout are abandoned: they hold no lock,
// and their results are dropped. Folders keep their contents. Images in memory remain available.
func (s *Store) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	for _, m := range s.jobs {
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
			s.disk.abandon()
		}
		s.cfg.Logger.Warn("closing the store of drawn logos timed out: its disk does not respond, or an image is still being drawn", "waited", s.cfg.CloseTimeout)
	}
}

// Get returns the image of a key, and makes it if it is not cached. Concurrent callers of one key wait
// for one job, which continues when its first caller leaves; one that has not begun when the last
// caller leaves is abandoned. The context of a job has the values of its first caller's, and ends
// after Config.MakeTimeout.
//
// Errors: ErrBusy; those of make, and an error if make panics or returns nothing;
// context.DeadlineExceeded if the job took too long; ctx.Err(); context.Canceled after Close.
func (s *Store) Get(ctx context.Context, key Key, make func(ctx context.Context) ([]byte, error)) (Image, error) {
	return s.get(ctx, key, make, job{disk: s.disk})
}

// GetWithin is Get for an image that a job needs, called with the context of that job. It is
// made in the turn and the memory of the enclosing job, so neither waits for the other and Need does
// nothing. Once the nested job has begun, GetWithin returns only when it has ended, because the
// turn and the memory would otherwise go to another.
func (s *Store) GetWithin(ctx context.Context, key Key, make func(ctx context.Context) ([]byte, error)) (Image, error) {
	return s.get(ctx, key, make, job{disk: s.disk, within: true})
}

// Kept returns an image if it is cached. If the disk does not respond it waits until ctx ends.
func (s *Store) Kept(ctx context.Context, key Key) (Image, bool) {
	if p, ok := s.memory.get(key); ok {
		return p, true
	}
	if s.disk == nil || !s.start() {
		return Image{}, false
	}
	found := make(chan Image, 1)
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
		return Image{}, false
	}
}

// start adds a running goroutine, unless the store is closed.
func (s *Store) start() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

// GetUnwritten is Get for images that are cached in memory only: cheap ones that strangers can request
// in any number, which would otherwise evict expensive ones from the disk.
func (s *Store) GetUnwritten(ctx context.Context, key Key, make func(ctx context.Context) ([]byte, error)) (Image, error) {
	return s.get(ctx, key, make, job{})
}

func (s *Store) get(ctx context.Context, key Key, make func(ctx context.Context) ([]byte, error), kind job) (Image, error) {
	if p, ok := s.memory.get(key); ok {
		s.metrics.memory.Inc()
		return p, nil
	}
	if err := ctx.Err(); err != nil {
		return Image{}, err
	}
	m, err := s.join(ctx, key, make, kind)
	if err != nil {
		return Image{}, err
	}
	select {
	case <-m.done:
		return m.image, m.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-m.ctx.Done(): // make may continue for a while; the caller need not wait
		select {
		case <-m.done:
			return m.image, m.err
		default:
		}
		err = s.overdue(m)
	}
	if begun := s.leave(m); begun && kind.within {
		<-m.done
	}
	return Image{}, err
}

// keep caches an image where it fits.
func (s *Store) keep(m *job, p Image) {
	if len(p.Body) > maxKept {
		return
	}
	s.memory.put(m.key, p)
	if m.disk != nil {
		m.disk.put(m.key, p)
	}
}
