// Package resvg draws SVG files with resvg, compiled to WebAssembly and run by wazero. Each image has its own instance
// with limits on memory and steps, so that even a hostile file cannot use more or access anything outside its instance.
// Whether an image exceeds these limits depends only on the file and the size, so every machine draws or rejects the
// same files. In addition a timeout protects busy machines; its error does not concern the file.
//
// README.md describes the module, its source and its license.
package resvg

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"letterhead/internal/imaging"
	"letterhead/internal/metering"
	"letterhead/internal/svg"
)

//go:embed resvg.wasm.gz
var packed []byte

// moduleSum is the SHA-256 of resvg.wasm, which is unpacked at each start, so that only the reviewed module runs.
const moduleSum = "22bf6e9f9a100d972da0411a69c5ba504367fc1fa87b3b64e3f35e53926d2d70"

const (
	// DefaultSteps limits the loops and calls of one image to one or two seconds. Of 1,089
	// real logos at 1024 pixels two exceeded it, and half of them needed less than a tenth.
	DefaultSteps = 160 * metering.Quantum
	// DefaultTimeout limits the time for one image. Unless the machine is busy, the step limit is reached earlier.
	DefaultTimeout = 4 * time.Second
	// DefaultWait is how long an image that needs much memory waits while another image uses it. A waiting image counts
	// towards Config.Concurrent, so a longer wait would prevent small images from being drawn.
	DefaultWait = time.Second
	// DefaultMemory limits the memory of one image's instance, in bytes. Of 2,302 real logos at 1024
	// pixels the largest took 42 MiB and the median 8 MiB, mostly for layers of masks and filters.
	DefaultMemory = 64 << 20
	// maxConcurrent limits Config.Concurrent by default, whatever the number of processors.
	maxConcurrent = 4
	// MaxSide is the longest side that Render draws, in pixels. A layer of it is 16 MiB.
	MaxSide = 2048
)

var (
	// ErrModule means that the embedded module is not the reviewed module.
	ErrModule = errors.New("resvg module does not have its checksum")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("resvg renderer is closed")
	// ErrBusy means that another image used the large memory for all of Config.Wait. It does not
	// concern the file, and it is a context.DeadlineExceeded.
	ErrBusy = fmt.Errorf("another large image is being drawn: %w", context.DeadlineExceeded)
)

// Config configures a Renderer.
type Config struct {
	// CacheDir stores the compiled module between starts. If it is "", each start compiles the module
	// (1.1 s). Its content is executed as native code, so no other user may have write access. If the
	// directory is unusable or a file is damaged, the module is compiled again.
	CacheDir   string
	Steps      int64         // loops and calls of one image, counted in units of 262,144 (DefaultSteps)
	Timeout    time.Duration // for drawing one image, excluding waits (DefaultTimeout)
	Wait       time.Duration // for the large memory (DefaultWait)
	Memory     int64         // bytes of one image (DefaultMemory)
	Concurrent int           // images drawn concurrently; others wait (one per processor, up to maxConcurrent)
}

func (c Config) withDefaults() Config {
	c.Steps = cmp.Or(c.Steps, DefaultSteps)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Wait = cmp.Or(c.Wait, DefaultWait)
	c.Memory = cmp.Or(c.Memory, DefaultMemory)
	c.Concurrent = cmp.Or(c.Concurrent, min(runtime.GOMAXPROCS(0), maxConcurrent))
	return c
}

// Renderer draws SVG files. It is safe for concurrent use.
type Renderer struct {
	cfg    Config
	engine *engine
	turns  *semaphore.Weighted // one for each image being drawn, all for Close
	large  chan struct{}       // one entry while an image uses more than keptMemory

	closed  atomic.Bool // no new images
	free    sync.Once   // releases the engine, with this error:
	freeErr error

	mu     sync.Mutex
	spares []*memory // at most one per turn
}

// New compiles the module, or loads it from the cache. Errors: ErrModule, ctx.Err().
func New(ctx context.Context, cfg Config) (*Renderer, error) { return newRenderer(ctx, cfg, unpack()) }

// unpack returns the module, or another value if it is damaged: newRenderer checks its sum.
func unpack() []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil
	}
	module, _ := io.ReadAll(r)
	return module
}

func newRenderer(ctx context.Context, cfg Config, module []byte) (*Renderer, error) {
	cfg = cfg.withDefaults()
	if sum := sha256.Sum256(module); hex.EncodeToString(sum[:]) != moduleSum {
		return nil, fmt.Errorf("%w: %x", ErrModule, sum)
	}
	e, err := compile(ctx, module, cfg.CacheDir)
	if err != nil {
		return nil, err
	}
	turns := semaphore.NewWeighted(int64(cfg.Concurrent))
	return &Renderer{cfg: cfg, engine: e, turns: turns, large: make(chan struct{}, 1)}, nil
}

// Close waits for the images being drawn, at most Config.Timeout and Config.Wait together, and releases the module.
// From the first call on, Render returns ErrClosed. If ctx ends first, Close returns ctx.Err() and releases nothing;
// another call continues to wait. After the release each call returns the same result.
func (r *Renderer) Close(ctx context.Context) error {
	r.closed.Store(true)
	all := int64(r.cfg.Concurrent)
	if err := r.turns.Acquire(ctx, all); err != nil {
		return err
	}
	defer r.turns.Release(all)
	r.free.Do(func() { r.freeErr = r.engine.close(context.WithoutCancel(ctx)) })
	return r.freeErr
}

// Render draws an SVG on a transparent background. Its longer side will have side pixels. Text is not drawn, because
// the module has no fonts; svg.Sanitize makes outlines of it. Render waits while Config.Concurrent other images are
// being drawn.
//
// Errors: imaging.ErrMalformed if resvg cannot parse the file or it has no size, imaging.ErrTooLarge if it needs more
// steps or memory than the limits or if side is not between 1 and MaxSide, context.DeadlineExceeded if it takes longer
// than Config.Timeout, which does not concern the file, ErrBusy, ErrClosed, ctx.Err().
func (r *Renderer) Render(ctx context.Context, data []byte, side int) (*image.NRGBA, error) {
	switch {
	case side < 1 || side > MaxSide:
		return nil, fmt.Errorf("draw svg of %d pixels: %w", side, imaging.ErrTooLarge)
	case len(data) > svg.MaxBytes:
		return nil, fmt.Errorf("draw svg of %d bytes: %w", len(data), imaging.ErrTooLarge)
	}
	if r.closed.Load() {
		return nil, ErrClosed
	}
	if err := r.turns.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer r.turns.Release(1)
	if r.closed.Load() { // while this image waited
		return nil, ErrClosed
	}

	t := newTurn(ctx, r.cfg)
	defer t.stop()
	mem := r.takeMemory(t)
	defer r.keepMemory(mem)
	img, err := r.engine.draw(t.ctx, mem, data, side, r.cfg.Steps/metering.Quantum)
	if err == nil && !mem.crowded { // a module without the memory that it requested may draw another image
		return img, nil
	}
	return nil, r.failure(ctx, t, mem, err)
}

// failure returns the reason why an image was not drawn. Effects of the load take precedence, because
// they may have caused the other errors.
func (r *Renderer) failure(ctx context.Context, t *turn, mem *memory, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case t.ctx.Err() != nil:
		return fmt.Errorf("draw svg: more than %v: %w", r.cfg.Timeout, context.DeadlineExceeded)
	case mem.crowded:
		return fmt.Errorf("draw svg: waited %v: %w", r.cfg.Wait, ErrBusy)
	case mem.refused:
		return fmt.Errorf("draw svg: %w: more than %d bytes of memory", imaging.ErrTooLarge, r.cfg.Memory)
	case errors.Is(err, errFuel):
		return fmt.Errorf("draw svg: %w: %w", imaging.ErrTooLarge, err)
	}
	return fmt.Errorf("draw svg: %w: %w", imaging.ErrMalformed, err)
}

// errFuel means that the steps, the call stack or the objects of the host were used up.
var errFuel = errors.New("out of steps, stack or objects")

// firstLine returns the message of a wazero error without the stack trace, limited in length.
func firstLine(err error) string {
	const maxText = 200
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.ToValidUTF8(line[:min(len(line), maxText)], "")
}
