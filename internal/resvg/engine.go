package resvg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/mod/sumdb/dirhash"

	"letterhead/internal/disk"
	"letterhead/internal/imaging"
	"letterhead/internal/metering"
)

// engine is the compiled module with its runtime.
type engine struct {
	cache    wazero.CompilationCache // nil without a cache directory
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
}

// compile compiles the module with the cache. If that fails it tries an emptied cache, and then no cache.
func compile(ctx context.Context, module []byte, cacheDir string) (*engine, error) {
	module, err := metering.Rewrite(module, metering.Checkpoint{Name: checkpointName})
	if err != nil {
		return nil, err
	}
	if cacheDir != "" {
		// Use a separate folder, so that emptying it removes no other files.
		own := filepath.Join(cacheDir, "resvg-"+moduleSum[:16])
		for range 2 {
			if !intact(own) && os.RemoveAll(own) != nil {
				break
			}
			e, err := compileWith(ctx, module, own)
			if err == nil {
				seal(own)
				return e, nil
			}
			if ctx.Err() != nil {
				return nil, err
			}
			if os.RemoveAll(own) != nil {
				break
			}
		}
	}
	return compileWith(ctx, module, "")
}

func compileWith(ctx context.Context, module []byte, cacheDir string) (e *engine, err error) {
	e = &engine{}
	defer func() {
		if p := recover(); p != nil { // wazero may panic on damaged cache entries
			err = fmt.Errorf("compile resvg: %v", p)
		}
		if err != nil {
			err = errors.Join(err, e.close(context.WithoutCancel(ctx)))
			e = nil
		}
	}()
	// wazero's page limit stays as large as the address space. memory enforces a lower limit; see memory.go.
	cfg := wazero.NewRuntimeConfig()
	if cacheDir != "" {
		if e.cache, err = wazero.NewCompilationCacheWithDir(cacheDir); err != nil {
			return e, fmt.Errorf("open cache of resvg: %w", err)
		}
		cfg = cfg.WithCompilationCache(e.cache)
	}
	e.runtime = wazero.NewRuntimeWithConfig(ctx, cfg)
	if err = instantiateHost(ctx, e.runtime); err != nil {
		return e, fmt.Errorf("start host of resvg: %w", err)
	}
	if e.compiled, err = e.runtime.CompileModule(ctx, module); err != nil {
		return e, fmt.Errorf("compile resvg: %w", err)
	}
	return e, nil
}

func (e *engine) close(ctx context.Context) error {
	var errs []error
	if e.runtime != nil {
		errs = append(errs, e.runtime.Close(ctx))
	}
	if e.cache != nil {
		errs = append(errs, e.cache.Close(ctx))
	}
	return errors.Join(errs...)
}

// drawing is one instance of the module and its host. Handles of the module's objects are not freed,
// because the instance ends with the image.
type drawing struct {
	ctx    context.Context
	module api.Module
	host   *host
}

// draw draws one image with at most the given quanta of steps.
func (e *engine) draw(ctx context.Context, mem *memory, svg []byte, side int,
	quanta int64) (img *image.NRGBA, err error) {
	d := drawing{host: &host{limit: int(mem.limit), quanta: quanta}}
	d.ctx = context.WithValue(ctx, hostKey{}, d.host)
	defer func() {
		if d.module != nil {
			_ = d.module.Close(ctx) // it has no files or other resources whose release could fail
		}
		if p := recover(); p != nil {
			img, err = nil, recovered(p)
		}
	}()
	starting := experimental.WithMemoryAllocator(d.ctx,
		experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return mem }))
	// An empty name allows several instances.
	d.module, err = e.runtime.InstantiateModule(starting, e.compiled, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return nil, errors.New(firstLine(err))
	}
	tree, wide, err := d.load(svg, side)
	if err != nil {
		return nil, err
	}
	img, err = d.render(tree, side)
	if errors.Is(err, errLonger) {
		if tree, err = d.parse(svg, !wide, side); err == nil {
			img, err = d.render(tree, side)
		}
	}
	return img, err
}

// errLonger means that the wrong side was assumed to be the longer one.
var errLonger = errors.New("the image is larger than requested")

// recovered converts a panic to an error: one of the host's own, or an unexpected one.
func recovered(p any) error {
	if err, ok := p.(error); ok && errors.Is(err, errFuel) {
		return fmt.Errorf("%w: %s", errFuel, firstLine(err))
	}
	return fmt.Errorf("panic: %v", p)
}

// load parses the SVG for an image whose longer side is side. It returns the module's handle, and whether it assumed
// that the width is the longer side. The module must be given a width or a height, but which side is longer is known
// only after parsing. So load asks wider, and parses a second time if its guess was wrong. The module returns rounded
// sides: if both are equal the guess may still be wrong, and then errLonger is returned later.
func (d *drawing) load(svg []byte, side int) (tree uint64, wide bool, err error) {
	wide = wider(svg)
	for range 2 {
		if tree, err = d.parse(svg, wide, side); err != nil {
			return 0, false, err
		}
		sides, err := d.ask(tree, "resvg_width", "resvg_height")
		if err != nil {
			return 0, false, err
		}
		width, height := math.Float64frombits(sides[0]), math.Float64frombits(sides[1])
		if !(width >= 0) || !(height >= 0) { // NaN fails, too; 0 means less than half a pixel
			return 0, false, fmt.Errorf("the image has a size of %v×%v", width, height)
		}
		if width == height || wide == (width > height) {
			return tree, wide, nil
		}
		wide = !wide
	}
	return 0, false, errors.New("the size of the image changes between attempts")
}

// options are the options of the module that are not left at their defaults.
type options struct {
	DPI float64 `json:"dpi"` // pixels per inch, which is 96 in CSS
	Fit fit     `json:"fitTo"`
}

type fit struct {
	Mode  string `json:"mode"`
	Value int    `json:"value"`
}

func (d *drawing) parse(svg []byte, wide bool, side int) (uint64, error) {
	o := options{DPI: 96, Fit: fit{"height", side}}
	if wide {
		o.Fit.Mode = "width"
	}
	text, err := json.Marshal(o)
	if err != nil {
		return 0, err
	}
	const noFonts = 0
	return d.result("resvg_new", uint64(d.host.add(svg)), uint64(place(d.ctx, d.module, text)),
		uint64(len(text)), noFonts)
}

func (d *drawing) render(tree uint64, side int) (*image.NRGBA, error) {
	picture, err := d.result("resvg_render", tree)
	if err != nil {
		return nil, err
	}
	results, err := d.ask(picture, "renderedimage_width", "renderedimage_height", "renderedimage_pixels")
	if err != nil {
		return nil, err
	}
	w, h := results[0], results[1]
	pix, _ := d.host.take(uint32(results[2])).([]byte)
	if max(w, h) > uint64(side) {
		return nil, fmt.Errorf("%w: %d×%d pixels", errLonger, w, h)
	}
	if w < 1 || h < 1 || uint64(len(pix)) != 4*w*h {
		return nil, fmt.Errorf("an image of %d×%d pixels has %d bytes", w, h, len(pix))
	}
	return imaging.Straight(&image.RGBA{Pix: pix, Stride: 4 * int(w), Rect: image.Rect(0, 0, int(w), int(h))}), nil
}

// result calls a function that returns a handle or an error object. The function writes both, and
// whether it failed, to an address on its stack, which is its first argument.
func (d *drawing) result(name string, args ...uint64) (uint64, error) {
	const (
		room = 16 // bytes, the alignment of the stack
		down = uint64(math.MaxUint32 - room + 1)
	)
	at, err := d.call("__wbindgen_add_to_stack_pointer", down)
	if err != nil {
		return 0, err
	}
	if _, err = d.call(name, append([]uint64{at}, args...)...); err != nil {
		return 0, err
	}
	m := d.module.Memory()
	handle, _ := m.ReadUint32Le(uint32(at))
	problem, _ := m.ReadUint32Le(uint32(at) + 4)
	failed, ok := m.ReadUint32Le(uint32(at) + 8)
	if _, err = d.call("__wbindgen_add_to_stack_pointer", room); err != nil {
		return 0, err
	}
	switch {
	case !ok:
		return 0, errors.New("the module's stack is outside of memory")
	case failed != 0:
		if text, ok := d.host.take(problem).(failure); ok {
			return 0, errors.New(firstLine(text))
		}
		return 0, fmt.Errorf("%s failed", name)
	}
	return uint64(handle), nil
}

// ask calls functions of the module with the handle of an object, and returns the number of each.
func (d *drawing) ask(object uint64, names ...string) (results []uint64, err error) {
	for _, name := range names {
		result, err := d.call(name, object)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

// call calls a function of the module that returns one number, or none.
func (d *drawing) call(name string, args ...uint64) (uint64, error) {
	results, err := d.module.ExportedFunction(name).Call(d.ctx, args...)
	switch {
	case err == nil:
	case errors.Is(err, errFuel), strings.Contains(err.Error(), "stack overflow"):
		return 0, fmt.Errorf("%w: %s", errFuel, firstLine(err))
	default:
		return 0, errors.New(firstLine(err))
	}
	if len(results) == 0 {
		return 0, nil
	}
	return results[0], nil
}

var (
	rootTag  = regexp.MustCompile(`<svg\s[^>]*>`)
	rootSize = regexp.MustCompile(`\s(width|height)="([0-9.]+)(?:px)?"`)
	rootView = regexp.MustCompile(`\sviewBox="\s*[-+0-9.eE]+[\s,]+[-+0-9.eE]+[\s,]+([0-9.]+)[\s,]+([0-9.]+)\s*"`)
)

// wider guesses from the first tag whether a drawing is at least as wide as it is high. A wrong guess only costs time.
func wider(svg []byte) bool {
	const window = 4 << 10
	tag := rootTag.Find(svg[:min(len(svg), window)])
	size := map[string]float64{}
	for _, m := range rootSize.FindAllSubmatch(tag, 4) {
		size[string(m[1])], _ = strconv.ParseFloat(string(m[2]), 64)
	}
	if w, h := size["width"], size["height"]; w > 0 && h > 0 {
		return w >= h
	}
	if m := rootView.FindSubmatch(tag); m != nil {
		w, _ := strconv.ParseFloat(string(m[1]), 64)
		h, _ := strconv.ParseFloat(string(m[2]), 64)
		return w >= h
	}
	return true
}

// wazero verifies a checksum of the code in its cache but trusts the lengths that precede it. A wrong
// length makes it request more memory than the machine has, which crashes the process. So a checksum of
// the whole folder is stored next to the folder.

// maxCacheBytes limits how much of a cache is read. A compiled module is about 8 MiB.
const maxCacheBytes = 128 << 20

// sealOf returns the path of the file with the checksum of a folder.
func sealOf(dir string) string { return dir + ".sha256" }

// intact reports whether a cache has not changed since seal. A missing cache is not intact.
func intact(dir string) bool {
	want, err := os.ReadFile(sealOf(dir))
	if err != nil {
		return false
	}
	got, err := checksum(dir)
	return err == nil && got == string(want)
}

// seal stores a cache's checksum. It ignores failures, because without a checksum the next start compiles again.
func seal(dir string) {
	sum, err := checksum(dir)
	if err != nil {
		return
	}
	if have, err := os.ReadFile(sealOf(dir)); err == nil && string(have) == sum {
		return
	}
	_ = disk.WriteText(sealOf(dir), sum)
}

// checksum returns a checksum of the names and contents of all files in a folder. It fails if they cannot be read or
// exceed maxCacheBytes.
func checksum(dir string) (string, error) {
	names, err := dirhash.DirFiles(dir, "")
	if err != nil {
		return "", err
	}
	left := int64(maxCacheBytes)
	return dirhash.Hash1(names, func(name string) (io.ReadCloser, error) {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil {
			return nil, err
		}
		if left -= info.Size(); left < 0 || !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a file, or the cache has more than %d bytes", path, maxCacheBytes)
		}
		return os.Open(path)
	})
}
