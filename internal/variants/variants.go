// Package variants caches images derived from others in memory. It is only a cache; lost images are made again.
// Concurrent callers of one key share one job (job.go).
package variants

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"letterhead/internal/delay"
	"letterhead/internal/membudget"
	"letterhead/internal/telemetry"
)

const (
	// DefaultMemoryBytes holds about 20,000 logos of 128 pixels.
	DefaultMemoryBytes = 64 << 20
	// DefaultWaiting is the number of images that a machine with two processors makes within a second.
	DefaultWaiting = 256
	// CloseTimeout limits Close, which a function that ignores its context would otherwise block forever. It is more
	// than an image takes, and much less than a process is given to exit.
	CloseTimeout = 5 * time.Second
	// DefaultMakeTimeout is more than rendering takes and less than a browser's user waits.
	DefaultMakeTimeout = 5 * time.Second

	// maxKept limits the size of a cached image. One of 1024 pixels is smaller even if it is noise; a
	// larger one would evict a thousand logos.
	maxKept = 4<<20 + 64<<10

	// maxMemoryBytes prevents a typing error from using all memory.
	maxMemoryBytes = 64 << 30
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
	MemoryBytes  int64             // at most 64 GiB
	Concurrent   int               // images made concurrently; by default one per processor
	Waiting      int               // images that wait to be made; more are ErrBusy
	MemoryBudget *membudget.Budget // memory limit shared by jobs that call Need, and others; nil: one per Store
	MakeTimeout  time.Duration     // of one image, including its wait
	Logger       *slog.Logger
	Registerer   prometheus.Registerer
}

func (c Config) withDefaults() Config {
	c.MemoryBytes = cmp.Or(c.MemoryBytes, DefaultMemoryBytes)
	c.Concurrent = cmp.Or(c.Concurrent, runtime.GOMAXPROCS(0))
	c.Waiting = cmp.Or(c.Waiting, DefaultWaiting)
	c.MakeTimeout = cmp.Or(c.MakeTimeout, DefaultMakeTimeout)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.MemoryBudget == nil {
		c.MemoryBudget = membudget.New(0)
	}
	return c
}

// Store makes each image once. It is safe for concurrent use.
type Store struct {
	cfg     Config
	metrics *metrics
	memory  *otter.Cache[Key, Image]
	turns   *semaphore.Weighted
	waiting atomic.Int64 // jobs without a turn

	mu      sync.Mutex
	closed  bool
	closing sync.Once // runs Close
	jobs    map[Key]*job
	running sync.WaitGroup // of the goroutines of jobs
}

// New opens a store. It fails if Config.MemoryBytes is out of range, or with an error of the registerer.
func New(cfg Config) (*Store, error) {
	if cfg.MemoryBytes < 0 || cfg.MemoryBytes > maxMemoryBytes {
		return nil, fmt.Errorf("variants: MemoryBytes is %d, must be 0 to %d", cfg.MemoryBytes, int64(maxMemoryBytes))
	}
	cfg = cfg.withDefaults()
	s := &Store{cfg: cfg, turns: semaphore.NewWeighted(int64(cfg.Concurrent)), jobs: map[Key]*job{}}
	var err error
	if s.memory, err = newMemory(cfg.MemoryBytes); err != nil {
		return nil, err
	}
	s.metrics = newMetrics()
	if err := s.metrics.register(cfg.Registerer, s.memory); err != nil {
		return nil, err
	}
	return s, nil
}

// Close abandons images being made, and returns when all goroutines of the store have ended. Goroutines
// that still run after CloseTimeout are abandoned: they hold no lock, and their results are
// dropped. Images in memory remain available.
func (s *Store) Close() {
	s.closing.Do(func() {
		s.mu.Lock()
		s.closed = true
		for _, m := range s.jobs {
			m.cancel()
		}
		s.mu.Unlock()
		defer s.memory.StopAllGoroutines()
		ctx, cancel := context.WithTimeout(context.Background(), CloseTimeout)
		defer cancel()
		if delay.Await(ctx, func() error { s.running.Wait(); return nil }) != nil {
			s.cfg.Logger.Warn("closing the store of drawn logos timed out: an image is still being drawn",
				"waited", CloseTimeout)
		}
	})
}

// Get returns the image of a key, and makes it if it is not cached. Concurrent callers of one key wait for one job,
// which continues when its first caller leaves; one that has not begun when the last caller leaves is abandoned. The
// context of a job has the values of its first caller's, and ends after Config.MakeTimeout.
//
// Errors: ErrBusy; the errors of make, and an error if make panics or returns nothing;
// context.DeadlineExceeded if the job took too long; ctx.Err(); context.Canceled after Close.
func (s *Store) Get(ctx context.Context, key Key, make func(ctx context.Context) ([]byte, error)) (Image, error) {
	return s.get(ctx, key, make, false)
}

// GetWithin is Get for an image that a job needs, called with the context of that job. It is made in the turn and the
// memory of the enclosing job, so neither waits for the other and Need does nothing. Once the nested job has begun,
// GetWithin returns only when it has ended, because the turn and the memory would otherwise go to another.
func (s *Store) GetWithin(ctx context.Context, key Key, make func(ctx context.Context) ([]byte, error)) (Image, error) {
	return s.get(ctx, key, make, true)
}

// Kept returns an image if it is cached.
func (s *Store) Kept(key Key) (Image, bool) { return s.memory.GetIfPresent(key) }

func (s *Store) get(ctx context.Context, key Key, make func(ctx context.Context) ([]byte, error),
	within bool) (Image, error) {
	if p, ok := s.memory.GetIfPresent(key); ok {
		s.metrics.memory.Inc()
		return p, nil
	}
	if err := ctx.Err(); err != nil {
		return Image{}, err
	}
	m, err := s.join(ctx, key, make, within)
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
	if begun := s.leave(m); begun && within {
		<-m.done
	}
	return Image{}, err
}

// entryOverhead is the memory of an entry in addition to its body: the key, the digest, and the nodes
// of the map and the policy; measured 165 to 190 bytes in full caches of bodies of 100 to 3,072 bytes.
const entryOverhead = 190

func newMemory(limit int64) (*otter.Cache[Key, Image], error) {
	entries, err := otter.New(&otter.Options[Key, Image]{
		MaximumWeight: uint64(limit),
		Weigher:       func(_ Key, p Image) uint32 { return uint32(inMemory(p)) },
	})
	if err != nil {
		return nil, fmt.Errorf("make cache of images: %w", err)
	}
	return entries, nil
}

// inMemory returns the size of an image in memory, in bytes.
func inMemory(p Image) int64 { return int64(cap(p.Body)) + entryOverhead }

type metrics struct {
	memory, made, joined       prometheus.Counter // of asked
	asked                      *prometheus.CounterVec
	failed, refused, abandoned prometheus.Counter
	seconds                    prometheus.Histogram
}

func newMetrics() *metrics {
	m := &metrics{
		asked: telemetry.Counters("letterhead_logo_variants_asked_total",
			"Requests for drawn logos, by source: memory, made, or joined to the making of another request.", "from"),
		failed: telemetry.Counter("letterhead_logo_variants_failed_total", "Logos that were begun and could not be made."),
		refused: telemetry.Counter("letterhead_logo_variants_refused_total",
			"Logos that were not begun because too many were being made."),
		abandoned: telemetry.Counter("letterhead_logo_variants_abandoned_total",
			"Logos that were not begun because all who waited had left."),
		seconds: telemetry.Histogram("letterhead_logo_variants_make_seconds",
			"Duration of making a logo, excluding the wait for its turn.",
			[]float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5}),
	}
	m.memory, m.made, m.joined = m.asked.WithLabelValues("memory"), m.asked.WithLabelValues("made"),
		m.asked.WithLabelValues("joined")
	return m
}

func (m *metrics) register(to prometheus.Registerer, memory *otter.Cache[Key, Image]) error {
	if to == nil {
		return nil
	}
	err := telemetry.Register(to, m.asked, m.failed, m.refused, m.abandoned, m.seconds)
	if err == nil {
		err = telemetry.Register(prometheus.WrapRegistererWith(prometheus.Labels{"level": "memory"}, to),
			telemetry.GaugeFunc("letterhead_logo_variants_entries", "Cached drawn logos.",
				func() float64 { return float64(memory.EstimatedSize()) }),
			telemetry.GaugeFunc("letterhead_logo_variants_bytes", "Bytes of the cached logos.",
				func() float64 { return float64(memory.WeightedSize()) }))
	}
	if err != nil {
		return fmt.Errorf("register metrics of drawn logos: %w", err)
	}
	return nil
}
