// Package resvg draws SVG files with resvg, compiled to WebAssembly and run by wazero: one instance per
// picture, with a cap on its memory and on its steps, so that no file, however hostile, takes more than that or
// sees anything outside of its instance. Both caps depend on the file and the size alone: the same file is drawn,
// or refused, on every machine. A deadline protects a machine that is too busy to get that far, and its error
// says nothing about the file.
//
// What the module is, where it comes from and under which license is in README.md beside this file.
package resvg

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"runtime"
	"strings"
	"sync"
	"time"

	"letterhead/internal/imaging"
)

//go:embed resvg.wasm
var module []byte

// moduleSum is the SHA-256 of resvg.wasm. What runs is what was reviewed.
const moduleSum = "22bf6e9f9a100d972da0411a69c5ba504367fc1fa87b3b64e3f35e53926d2d70"

const (
	// DefaultSteps is how many loops and calls one picture may take (meter.go): one to two seconds of them. Of 1,089
	// real logos at 1024 pixels two took more, and half of them took a tenth of it.
	DefaultSteps = 160 * quantum
	// DefaultTimeout is how long one picture may take. The steps end earlier unless the machine is busy.
	DefaultTimeout = 4 * time.Second
	// DefaultWait is how long a picture that needs much memory waits while another has it. It keeps its place among
	// Config.Concurrent meanwhile, so a longer wait would keep small pictures from being drawn.
	DefaultWait = time.Second
	// DefaultMemory is what the instance of one picture may grow to, in bytes. Of 2,302 real logos the largest
	// took 42 MiB at 1024 pixels and half of them 8, most of it layers of masks and filters.
	DefaultMemory = 64 << 20
	// maxMemory is what 32-bit WebAssembly can address, in bytes.
	maxMemory = 4 << 30
	// minMemory is what an instance begins with, in bytes, rounded up.
	minMemory = 2 << 20
	// maxConcurrent bounds DefaultConcurrent, whatever the number of processors.
	maxConcurrent = 4
	// MaxSide is the longest side that Render draws, in pixels. A layer of it is 16 MiB.
	MaxSide = 2048
)

var (
	// ErrModule: the module in the binary is not the one that was reviewed.
	ErrModule = errors.New("resvg module does not have its checksum")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("resvg renderer is closed")
	// ErrBusy: another picture had the large memory for all of Config.Wait. It says nothing about the file, and is a
	// context.DeadlineExceeded.
	ErrBusy = fmt.Errorf("another large picture is being drawn: %w", context.DeadlineExceeded)
)

// Config configures a Renderer.
type Config struct {
	// CacheDir keeps the compiled module between starts; "" compiles at each start (1.1 s). What is in it is
	// run as native code, so nobody else may be able to write there. A directory that cannot be used, or
	// holds something damaged, costs the time of compiling and nothing more.
	CacheDir   string
	Steps      int64         // loops and calls of one picture, counted in units of 262,144 (DefaultSteps)
	Timeout    time.Duration // of drawing one picture; no waiting counts (DefaultTimeout)
	Wait       time.Duration // for the large memory, of which there is one (DefaultWait)
	Memory     int64         // bytes of one picture (DefaultMemory)
	Concurrent int           // pictures drawn at once; others wait (DefaultConcurrent)
}

// DefaultConcurrent is one picture per processor, within a limit: drawing is work for the processor alone.
func DefaultConcurrent() int { return min(runtime.GOMAXPROCS(0), maxConcurrent) }

func (c *Config) withDefaults() {
	if c.Steps == 0 {
		c.Steps = DefaultSteps
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Wait == 0 {
		c.Wait = DefaultWait
	}
	if c.Memory == 0 {
		c.Memory = DefaultMemory
	}
	if c.Concurrent == 0 {
		c.Concurrent = DefaultConcurrent()
	}
}

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	c.withDefaults()
	var errs []error
	if c.Steps < 0 {
		errs = append(errs, fmt.Errorf("resvg: %d steps", c.Steps))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("resvg: timeout %v is negative", c.Timeout))
	}
	if c.Wait < 0 {
		errs = append(errs, fmt.Errorf("resvg: wait %v is negative", c.Wait))
	}
	if c.Memory < minMemory || c.Memory > maxMemory {
		errs = append(errs, fmt.Errorf("resvg: memory of %d bytes is not from %d to %d", c.Memory, minMemory, int64(maxMemory)))
	}
	if c.Concurrent < 0 {
		errs = append(errs, fmt.Errorf("resvg: %d pictures at once", c.Concurrent))
	}
	return errors.Join(errs...)
}

// Renderer draws. It is safe for concurrent use.
type Renderer struct {
	cfg    Config
	engine *engine
	turns  chan struct{} // one in it for each picture that is being drawn
	large  chan struct{} // one in it while a picture takes more than keptMemory

	stop    sync.Once     // closes closed
	closed  chan struct{} // no picture begins any more
	closing chan struct{} // one in it while Close works, which alone uses what follows
	taken   int           // turns that Close has, and keeps
	freed   bool
	freeErr error

	mu     sync.Mutex
	spares []*memory // at most one per turn
}

// New compiles the module, or takes it from the cache. Errors: those of Config.Validate, ErrModule, ctx.Err().
func New(ctx context.Context, cfg Config) (*Renderer, error) { return newRenderer(ctx, cfg, module) }

func newRenderer(ctx context.Context, cfg Config, module []byte) (*Renderer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.withDefaults()
	if sum := sha256.Sum256(module); hex.EncodeToString(sum[:]) != moduleSum {
		return nil, fmt.Errorf("%w: %x", ErrModule, sum)
	}
	e, err := compile(ctx, module, cfg.CacheDir)
	if err != nil {
		return nil, err
	}
	return &Renderer{cfg: cfg, engine: e, turns: make(chan struct{}, cfg.Concurrent), large: make(chan struct{}, 1), closed: make(chan struct{}), closing: make(chan struct{}, 1)}, nil
}

// Close waits for the pictures that are being drawn, which takes no longer than Config.Timeout and Config.Wait
// together, and releases the module. Render answers ErrClosed from the first call on. Errors: ctx.Err() with
// nothing released, after which another call goes on waiting. Once the module is released, each call answers as
// the one that did it.
func (r *Renderer) Close(ctx context.Context) error {
	r.stop.Do(func() { close(r.closed) })
	select {
	case r.closing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.closing }()
	for r.taken < r.cfg.Concurrent {
		select {
		case r.turns <- struct{}{}:
			r.taken++
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if !r.freed {
		r.freed, r.freeErr = true, r.engine.close(context.WithoutCancel(ctx))
	}
	return r.freeErr
}

// Render draws an SVG so that its longer side has that many pixels, on a transparent ground. Text is not
// drawn: the module has no fonts. It waits for a turn when Config.Concurrent pictures are being drawn.
//
// Errors: imaging.ErrMalformed for what resvg cannot read or that has no size, imaging.ErrTooLarge for what
// takes more steps or memory than Config says and for a side out of 1 to MaxSide, context.DeadlineExceeded for
// what takes longer than Config.Timeout, which says nothing about the file, ErrBusy, ErrClosed, ctx.Err().
func (r *Renderer) Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error) {
	switch {
	case side < 1 || side > MaxSide:
		return nil, fmt.Errorf("draw svg of %d pixels: %w", side, imaging.ErrTooLarge)
	case len(svg) > imaging.MaxSVGBytes:
		return nil, fmt.Errorf("draw svg of %d bytes: %w", len(svg), imaging.ErrTooLarge)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case r.turns <- struct{}{}:
	case <-r.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-r.turns }()
	select {
	case <-r.closed: // select takes any of what is ready
		return nil, ErrClosed
	default:
	}

	t := newTurn(ctx, r.cfg)
	defer t.stop()
	mem := r.takeMemory(t)
	defer r.keepMemory(mem)
	img, err := r.engine.draw(t.ctx, mem, svg, side, r.cfg.Steps/quantum)
	if err == nil && !mem.crowded { // without the memory that it asked for, the module may draw something else
		return img, nil
	}
	return nil, r.failure(ctx, t, mem, err)
}

// failure is why a picture was not drawn. What the load did comes first: a module that has been without memory, or was
// stopped, may have gone on in another way, which says nothing about the file.
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

// errFuel: the steps, the call stack or the objects of the host were used up.
var errFuel = errors.New("out of steps, stack or objects")

// firstLine is what an error of wazero says without the trace, of bounded length.
func firstLine(err error) string {
	const maxText = 200
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.ToValidUTF8(line[:min(len(line), maxText)], "")
}
