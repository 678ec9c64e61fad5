// Package avif decodes AVIF images with libavif, compiled to WebAssembly and run by wazero. Each image has its own
// instance with limits on memory and steps, so that even a hostile file cannot use more or access anything outside its
// instance. Whether an image exceeds these limits depends only on the file.
//
// README.md describes the module, its source and its licenses.
package avif

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"letterhead/internal/metering"
)

//go:embed decode.wasm.gz
var packed []byte

const (
	// maxModule limits the module, in bytes, when it is unpacked. It has about 800 KiB.
	maxModule = 4 << 20
	// baseMemory and pixelMemory are the memory of an instance, in bytes: for any image, and for each pixel. Of the
	// files measured, the one that needed most took 4 MiB and 50 bytes a pixel: planes of 10 bits, and pixels of 16
	// bits twice.
	baseMemory  = 8 << 20
	pixelMemory = 56
	// baseSteps and pixelSteps limit the loops and calls of an image; see package metering. Drawings need 15 to 35
	// steps a pixel, photographs up to 70. Noise without loss needs 330, and is rejected: it would take several
	// seconds.
	baseSteps  = 16 * metering.Quantum
	pixelSteps = 100
)

// Errors of Decode.
var (
	// ErrMalformed means that the file is not an AVIF image, or that it is damaged.
	ErrMalformed = errors.New("not a valid AVIF image")
	// ErrTooLarge means that the image needs more memory or steps than an image of its size may need.
	ErrTooLarge = errors.New("the image takes too much to decode")
)

// Memory returns the most memory, in bytes, that Decode uses for an image of a size, without the file.
func Memory(width, height int) int64 {
	return baseMemory + (pixelMemory+4)*int64(width)*int64(height)
}

// engine is the compiled module with its runtime. It is compiled when the first image is decoded, which takes half a
// second, and is never closed.
type engine struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
}

var compiled = sync.OnceValues(compile)

func compile() (*engine, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the AVIF decoder: %w", err)
	}
	module, err := io.ReadAll(io.LimitReader(r, maxModule))
	if err != nil {
		return nil, fmt.Errorf("unpack the AVIF decoder: %w", err)
	}
	if module, err = metering.Rewrite(module, metering.Checkpoint{Name: "fd_close", Args: []uint32{tick}}); err != nil {
		return nil, fmt.Errorf("compile the AVIF decoder: %w", err)
	}
	ctx := context.Background()
	e := &engine{runtime: wazero.NewRuntime(ctx)}
	if err := instantiateHost(ctx, e.runtime); err != nil {
		return nil, fmt.Errorf("compile the AVIF decoder: %w", err)
	}
	if e.compiled, err = e.runtime.CompileModule(ctx, module); err != nil {
		return nil, fmt.Errorf("compile the AVIF decoder: %w", err)
	}
	return e, nil
}

// Decode decodes the first image of a file, with colors multiplied by alpha. Width and height are as in Probe; it
// does not turn the image. Errors: ErrMalformed, ErrTooLarge, or why the decoder cannot be compiled here.
func Decode(data []byte, width, height int) (*image.RGBA, error) {
	pixels := int64(width) * int64(height)
	return decodeWithin(data, width, height, baseMemory+pixelMemory*pixels,
		(baseSteps+pixelSteps*pixels)/metering.Quantum)
}

// decodeWithin is Decode with limits: bytes of memory, and quanta of steps.
func decodeWithin(data []byte, width, height int, bytes, quanta int64) (img *image.RGBA, err error) {
	e, err := compiled()
	if err != nil {
		return nil, err
	}
	mem := &memory{limit: uint64(bytes)}
	work := &work{quanta: quanta}
	ctx := context.WithValue(context.Background(), workKey{}, work)
	starting := experimental.WithMemoryAllocator(ctx,
		experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return mem }))
	// An empty name allows several instances.
	module, err := e.runtime.InstantiateModule(starting, e.compiled,
		wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"))
	if err == nil {
		defer module.Close(ctx) // it has no files or other resources whose release could fail
		img, err = (&decoding{ctx, module}).decode(data, width, height)
	}
	switch {
	case mem.refused || errors.Is(err, errSteps):
		return nil, ErrTooLarge
	case err == nil:
		return img, nil
	}
	line, _, _ := strings.Cut(err.Error(), "\n") // without wazero's stack trace
	return nil, fmt.Errorf("%w: %s", ErrMalformed, line)
}

type decoding struct {
	ctx    context.Context
	module api.Module
}

// Offsets of the results of the module's decode, and their size, in bytes.
const (
	atWidth, atHeight, atDepth, atCount, atDelay = 0, 4, 8, 12, 16
	resultBytes                                  = 24
)

func (d *decoding) decode(data []byte, width, height int) (*image.RGBA, error) {
	mem := d.module.Memory()
	file, err := d.allocate(len(data))
	if err != nil {
		return nil, err
	}
	results, err := d.allocate(resultBytes)
	if err != nil {
		return nil, err
	}
	if !mem.Write(file, data) {
		return nil, errOutside
	}
	const onlyHeader, firstImage, nowhere = 1, 0, 0
	if err := d.run(file, len(data), onlyHeader, results, nowhere); err != nil {
		return nil, err
	}
	head, ok := mem.Read(results, resultBytes)
	if !ok {
		return nil, errOutside
	}
	w, h, depth := binary.LittleEndian.Uint32(head[atWidth:]), binary.LittleEndian.Uint32(head[atHeight:]),
		binary.LittleEndian.Uint32(head[atDepth:])
	if w != uint32(width) || h != uint32(height) {
		return nil, fmt.Errorf("it has %d×%d pixels, and not %d×%d", w, h, width, height)
	}
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	bytesPerChannel := 1
	if depth > 8 {
		bytesPerChannel = 2
	}
	out, err := d.allocate(bytesPerChannel * len(img.Pix))
	if err != nil {
		return nil, err
	}
	// The module reports success even if it cannot decode the image, but then writes no delay.
	const noDelay = math.MaxUint64
	if !mem.WriteUint64Le(results+atDelay, noDelay) {
		return nil, errOutside
	}
	if err := d.run(file, len(data), firstImage, results, out); err != nil {
		return nil, err
	}
	if delay, ok := mem.ReadUint64Le(results + atDelay); !ok || delay == noDelay {
		return nil, errRejected
	}
	pix, ok := mem.Read(out, uint32(bytesPerChannel*len(img.Pix)))
	if !ok {
		return nil, errOutside
	}
	for i := range img.Pix {
		img.Pix[i] = pix[i*bytesPerChannel+bytesPerChannel-1] // the more significant byte comes last
	}
	return img, nil
}

var (
	errOutside  = errors.New("an address is outside of memory")
	errRejected = errors.New("libavif rejects it")
)

// run calls decode of the module. The size of the file's image is written to results, and its pixels to out.
func (d *decoding) run(file uint32, length int, onlyHeader uint64, results, out uint32) error {
	const onlyFirst = 0
	done, err := d.module.ExportedFunction("decode").Call(d.ctx, uint64(file), uint64(length), onlyHeader, onlyFirst,
		uint64(results+atWidth), uint64(results+atHeight), uint64(results+atDepth), uint64(results+atCount),
		uint64(results+atDelay), uint64(out))
	if err == nil && done[0] == 0 {
		err = errRejected
	}
	return err
}

// allocate returns the address of new memory of the module.
func (d *decoding) allocate(size int) (uint32, error) {
	at, err := d.module.ExportedFunction("malloc").Call(d.ctx, uint64(size))
	if err == nil && at[0] == 0 {
		err = errOutside
	}
	if err != nil {
		return 0, err
	}
	return uint32(at[0]), nil
}

// tick is the number of a file, which the module never opens, by which metered code calls fd_close.
const tick = 1 << 30

// work counts what an instance may still do.
type work struct{ quanta int64 }

type workKey struct{}

// errSteps means that the image has used up its steps.
var errSteps = errors.New("out of steps")

// badFile is EBADF of WASI.
const badFile = 8

// instantiateHost makes the functions that the module imports from WASI available to its instances. None of them
// reaches a file, and the module gets no arguments, variables or clocks.
func instantiateHost(ctx context.Context, runtime wazero.Runtime) error {
	const i32, i64 = api.ValueTypeI32, api.ValueTypeI64
	builder := runtime.NewHostModuleBuilder("wasi_snapshot_preview1")
	for name, takes := range map[string][]api.ValueType{
		"fd_prestat_get": {i32, i32}, "fd_prestat_dir_name": {i32, i32, i32}, "fd_seek": {i32, i64, i32, i32},
		"fd_write": {i32, i32, i32, i32},
	} {
		builder = builder.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) {
			stack[0] = badFile
		}), takes, []api.ValueType{i32}).Export(name)
	}
	builder = builder.NewFunctionBuilder().WithGoFunction(api.GoFunc(closeFile), []api.ValueType{i32},
		[]api.ValueType{i32}).Export("fd_close")
	// as wazero requires
	exit := api.GoFunc(func(context.Context, []uint64) { panic(errors.New("the decoder ends itself")) })
	builder = builder.NewFunctionBuilder().WithGoFunction(exit, []api.ValueType{i32}, nil).Export("proc_exit")
	_, err := builder.Instantiate(ctx)
	return err
}

// closeFile is called after each quantum of steps, and stops the module when there is none left.
func closeFile(ctx context.Context, stack []uint64) {
	if uint32(stack[0]) == tick {
		w := ctx.Value(workKey{}).(*work)
		if w.quanta--; w.quanta < 0 {
			panic(errSteps)
		}
	}
	stack[0] = badFile
}

// memory is the linear memory of one instance. It refuses to grow beyond its limit, and records the refusal.
type memory struct {
	bytes   []byte
	limit   uint64
	refused bool
}

// Reallocate implements experimental.LinearMemory. It returns nil if it refuses to grow.
func (m *memory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.refused = true
		return nil
	}
	if m.bytes == nil {
		m.bytes = make([]byte, 0, m.limit) // at once, because growing would need twice the memory
	}
	m.bytes = m.bytes[:size]
	return m.bytes
}

// Free implements experimental.LinearMemory. The memory is collected as garbage.
func (m *memory) Free() {}

// Header is what the boxes of a file state about its primary image (ISO/IEC 23008-12, HEIF, and 23000-22).
type Header struct {
	Width, Height int // pixels, before the image is turned
	// Turns is the number of quarter turns counterclockwise by which the image is turned, from 0 to 3; then it is
	// mirrored.
	Turns  int
	Mirror Mirror
}

// Mirror is how an image is mirrored.
type Mirror int

// The values are the property's, imir, plus one.
const (
	NoMirror   Mirror = iota
	UpsideDown        // top and bottom are exchanged
	LeftRight         // left and right are exchanged
)

// Limits of boxes that are read.
const (
	maxBoxes      = 1024 // in one box
	maxProperties = 64   // of the primary image
)

// Probe returns the header of a file. It reads no pixels. Errors: ErrMalformed.
func Probe(data []byte) (h Header, err error) {
	defer func() { // reader panics beyond the end
		if p := recover(); p != nil {
			h, err = Header{}, fmt.Errorf("%w: %v", ErrMalformed, p)
		}
	}()
	meta := reader(child(data, "meta"))
	meta.full()
	pitm := reader(child(meta, "pitm"))
	var primary uint32
	if version, _ := pitm.full(); version == 0 {
		primary = uint32(pitm.u16())
	} else {
		primary = pitm.u32()
	}
	iprp := child(meta, "iprp")
	var properties []box
	for b := range boxes(child(iprp, "ipco")) {
		properties = append(properties, b)
	}
	for b := range boxes(iprp) {
		if b.kind != "ipma" {
			continue
		}
		for _, index := range associated(b.body, primary) {
			if index < 1 || index > len(properties) {
				continue // 0 means none
			}
			switch p := properties[index-1]; p.kind {
			case "ispe":
				r := reader(p.body)
				r.full()
				h.Width, h.Height = int(r.u32()), int(r.u32())
			case "irot":
				r := reader(p.body)
				h.Turns = int(r.u8() & 3)
			case "imir":
				r := reader(p.body)
				h.Mirror = UpsideDown + Mirror(r.u8()&1)
			}
		}
	}
	if h.Width < 1 || h.Height < 1 {
		return Header{}, fmt.Errorf("%w: the primary image has no size", ErrMalformed)
	}
	return h, nil
}

// associated returns the numbers of an item's properties, from 1, according to a box ipma.
func associated(body []byte, item uint32) (indexes []int) {
	r := reader(body)
	version, flags := r.full()
	for range r.u32() {
		var id uint32
		if version == 0 {
			id = uint32(r.u16())
		} else {
			id = r.u32()
		}
		for range r.u8() {
			index := int(r.u8() & 0x7f) // the first bit means that it is essential
			if flags&1 == 1 {
				index = index<<8 | int(r.u8())
			}
			if id == item && len(indexes) < maxProperties {
				indexes = append(indexes, index)
			}
		}
	}
	return indexes
}

// box is a part of a file with a type.
type box struct {
	kind string
	body []byte
}

// boxes yields the boxes that follow each other in data.
func boxes(data []byte) func(yield func(box) bool) {
	return func(yield func(box) bool) {
		r := reader(data)
		for range maxBoxes {
			if len(r) == 0 {
				return
			}
			rest := uint64(len(r))
			size, kind := uint64(r.u32()), string(r.take(4))
			header := uint64(8)
			switch size {
			case 0: // to the end of the file
				size = rest
			case 1:
				size, header = r.u64(), 16
			}
			if size < header || size > rest {
				panic(fmt.Sprintf("a box %q of %d bytes", kind, size))
			}
			if !yield(box{kind, r.take(size - header)}) {
				return
			}
		}
	}
}

// child returns the content of the first box of a type. It panics if there is none.
func child(data []byte, kind string) []byte {
	for b := range boxes(data) {
		if b.kind == kind {
			return b.body
		}
	}
	panic("no box " + kind)
}

// reader reads numbers. It panics beyond the end; Probe recovers.
type reader []byte

// take returns the next bytes. The second slice panics if there are fewer, although the first may reach the capacity.
func (r *reader) take(n uint64) []byte {
	taken := (*r)[:n]
	*r = (*r)[n:]
	return taken
}

func (r *reader) u8() byte    { return r.take(1)[0] }
func (r *reader) u16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

// full reads the version and flags of a full box.
func (r *reader) full() (version byte, flags uint32) {
	v := r.u32()
	return byte(v >> 24), v & 0xffffff
}
