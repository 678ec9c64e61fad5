package resvg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// The module was built for JavaScript. Its strings, byte arrays and errors are objects of the host: the module refers
// to them by number and calls the host to create, read and drop them. This file implements that host. The functions and
// their behavior follow from the module's imports and the names that wasm-bindgen gave them.
//
// The host reads no files, clocks or sockets, so the module cannot access any.

// checkpointName is the import that metered code calls. It has no arguments.
const checkpointName = "__wbindgen_memory"

// Object numbers. The fixed ones are in the module's code.
const (
	theMemory   = 1 // chosen here; the module uses no number below 128
	isTrue      = 130
	isFalse     = 131
	firstObject = 132
	// maxObjects limits the objects that one image keeps in the host.
	maxObjects = 1 << 12
)

// Kinds of objects, in addition to failure.
type (
	wholeMemory struct{}
	// view is a byte array that refers to part of the module's memory.
	view struct{ at, length uint32 }
	// array is a list; iterator iterates over one, and step is the result of each iteration.
	array    struct{ items []any }
	iterator struct{ rest []any }
	step     struct {
		value any
		done  bool
	}
)

// failure is an error that the module created or threw.
type failure string

func (f failure) Error() string { return string(f) }

// host holds the objects of one instance. It is not safe for concurrent use.
type host struct {
	objects []any
	free    []uint32
	bytes   int   // total size of all arrays copied into the host
	limit   int   // of bytes
	quanta  int64 // quanta of steps that are left, see package metering
}

type hostKey struct{}

// fault aborts a call from a host function, as wazero requires; call in engine.go recovers it.
func fault(err error) { panic(err) }

func (h *host) add(object any) uint32 {
	if n := len(h.free); n > 0 {
		number := h.free[n-1]
		h.free = h.free[:n-1]
		h.objects[number-firstObject] = object
		return number
	}
	if len(h.objects) >= maxObjects {
		fault(fmt.Errorf("%w: %d objects", errFuel, len(h.objects)))
	}
	h.objects = append(h.objects, object)
	return firstObject + uint32(len(h.objects)) - 1
}

func (h *host) get(number uint32) any {
	switch {
	case number == theMemory:
		return wholeMemory{}
	case number == isTrue:
		return true
	case number == isFalse:
		return false
	case number < firstObject || number-firstObject >= uint32(len(h.objects)):
		return nil
	}
	return h.objects[number-firstObject]
}

func (h *host) drop(number uint32) {
	if number < firstObject || number-firstObject >= uint32(len(h.objects)) {
		return
	}
	h.objects[number-firstObject] = nil
	h.free = append(h.free, number)
}

func (h *host) take(number uint32) any {
	object := h.get(number)
	h.drop(number)
	return object
}

// read returns a copy of part of the module's memory.
func (h *host) read(mem api.Memory, at, length uint32) []byte {
	if h.bytes += int(length); h.bytes > h.limit {
		fault(fmt.Errorf("%w: %d bytes", errFuel, h.bytes))
	}
	part, ok := mem.Read(at, length)
	if !ok {
		fault(errors.New("address outside of memory"))
	}
	return append(make([]byte, 0, len(part)), part...)
}

// contents returns the bytes of an array, in the module or the host, without copying.
func (h *host) contents(mem api.Memory, object any) []byte {
	switch o := object.(type) {
	case []byte:
		return o
	case view:
		part, ok := mem.Read(o.at, o.length)
		if !ok {
			fault(errors.New("address outside of memory"))
		}
		return part
	}
	fault(fmt.Errorf("bytes of a %T", object))
	return nil
}

// call is one call of a host function: its arguments, and where to store its result.
type call struct {
	host   *host
	module api.Module
	stack  []uint64
}

func (c call) arg(i int) uint32    { return uint32(c.stack[i]) }
func (c call) object(i int) any    { return c.host.get(c.arg(i)) }
func (c call) text(i int) string   { return string(c.host.read(c.module.Memory(), c.arg(i), c.arg(i+1))) }
func (c call) returns(n uint32)    { c.stack[0] = uint64(n) }
func (c call) returnsNew(o any)    { c.returns(c.host.add(o)) }
func (c call) returnsBool(is bool) { c.returns(map[bool]uint32{true: 1}[is]) }

// function is an import of the module: the number of its arguments, whether it has a result, and its implementation.
type function struct {
	name    string
	takes   int
	returns bool
	do      func(context.Context, call)
}

var functions = []function{
	{"__wbg_new_28c511d9baebfa89", 2, true, func(_ context.Context, c call) { c.returnsNew(failure(c.text(0))) }},
	{"__wbindgen_string_new", 2, true, func(_ context.Context, c call) { c.returnsNew(c.text(0)) }},
	{"__wbindgen_string_get", 2, false, stringGet},
	{"__wbindgen_throw", 2, false, func(_ context.Context, c call) { fault(failure(c.text(0))) }},
	{"__wbindgen_object_drop_ref", 1, false, func(_ context.Context, c call) { c.host.drop(c.arg(0)) }},

	{checkpointName, 0, true, checkpoint},
	{"__wbg_buffer_12d079cc21e14bdb", 1, true, func(_ context.Context, c call) { c.returnsNew(c.object(0)) }},
	{"__wbg_newwithbyteoffsetandlength_aa4a17c33a06e5cb", 3, true, newView},
	{"__wbg_new_63b92bc8671ed464", 1, true, newBytes},
	{"__wbg_set_a47bac70306a19a7", 3, false, setBytes},
	{"__wbg_length_c20a40f15020d68a", 1, true, func(_ context.Context, c call) {
		c.returns(uint32(len(c.host.contents(c.module.Memory(), c.object(0)))))
	}},
	{"__wbg_instanceof_Uint8Array_2b3bbecd033d19f6", 1, true, func(_ context.Context, c call) {
		switch c.object(0).(type) {
		case []byte, view:
			c.returnsBool(true)
		default:
			c.returnsBool(false)
		}
	}},

	{"__wbg_new_16b304a2cfa7ff4a", 0, true, func(_ context.Context, c call) { c.returnsNew(&array{}) }},
	{"__wbg_push_a5b05aedc7234f9f", 2, true, push},
	{"__wbg_values_839f3396d5aac002", 1, true, func(_ context.Context, c call) {
		list, _ := c.object(0).(*array)
		c.returnsNew(&iterator{rest: cmp.Or(list, &array{}).items})
	}},
	{"__wbg_next_196c84450b364254", 1, true, next},
	{"__wbg_done_298b57d23c0fc80c", 1, true, func(_ context.Context, c call) {
		s, ok := c.object(0).(step)
		c.returnsBool(!ok || s.done)
	}},
	{"__wbg_value_d93c65011f51a456", 1, true, func(_ context.Context, c call) {
		s, _ := c.object(0).(step)
		c.returnsNew(s.value)
	}},
}

// checkpoint returns the whole memory as an object. Metered code also calls it after each quantum of steps, so it
// always returns the same number, which is never dropped. It aborts the call when the steps are used up or the context
// has ended. The few calls by the module itself count as a quantum each; their number depends only on the file.
func checkpoint(ctx context.Context, c call) {
	if c.host.quanta--; c.host.quanta < 0 {
		fault(fmt.Errorf("%w: steps", errFuel))
	}
	if err := ctx.Err(); err != nil {
		fault(err)
	}
	c.returns(theMemory)
}

// stringGet copies a string to memory from the module's allocator, and writes the address and length of the copy to the
// address in the first argument. If the object is not a string, it writes the address 0.
func stringGet(ctx context.Context, c call) {
	to := c.arg(0)
	var at, length uint32
	if text, ok := c.object(1).(string); ok {
		at, length = place(ctx, c.module, []byte(text)), uint32(len(text))
	}
	if m := c.module.Memory(); !m.WriteUint32Le(to, at) || !m.WriteUint32Le(to+4, length) {
		fault(errors.New("address outside of memory"))
	}
}

// place copies bytes into the module's memory, using its allocator.
func place(ctx context.Context, m api.Module, data []byte) uint32 {
	const alignment = 1
	results, err := m.ExportedFunction("__wbindgen_malloc").Call(ctx, uint64(len(data)), alignment)
	if err != nil {
		fault(err)
	}
	at := uint32(results[0])
	if !m.Memory().Write(at, data) {
		fault(errors.New("address outside of memory"))
	}
	return at
}

func newView(_ context.Context, c call) {
	if _, ok := c.object(0).(wholeMemory); !ok {
		fault(fmt.Errorf("a view of a %T", c.object(0)))
	}
	c.returnsNew(view{c.arg(1), c.arg(2)})
}

// newBytes creates a byte array as JavaScript does: a view if the argument is memory, a copy if it is an array.
func newBytes(_ context.Context, c call) {
	switch o := c.object(0).(type) {
	case wholeMemory:
		c.returnsNew(view{0, c.module.Memory().Size()})
	case view:
		c.returnsNew(c.host.read(c.module.Memory(), o.at, o.length))
	default:
		c.returnsNew(append([]byte(nil), c.host.contents(c.module.Memory(), o)...))
	}
}

// setBytes copies the second array into the first, starting at an offset.
func setBytes(_ context.Context, c call) {
	to, from := c.host.contents(c.module.Memory(), c.object(0)), c.host.contents(c.module.Memory(), c.object(1))
	if at := uint64(c.arg(2)); at+uint64(len(from)) <= uint64(len(to)) {
		copy(to[at:], from)
		return
	}
	fault(errors.New("bytes beyond the end of an array"))
}

func push(_ context.Context, c call) {
	list, ok := c.object(0).(*array)
	if !ok || len(list.items) >= maxObjects {
		fault(fmt.Errorf("%w: a list", errFuel))
	}
	list.items = append(list.items, c.object(1))
	c.returns(uint32(len(list.items)))
}

func next(_ context.Context, c call) {
	it, ok := c.object(0).(*iterator)
	if !ok || len(it.rest) == 0 {
		c.returnsNew(step{done: true})
		return
	}
	value := it.rest[0]
	it.rest = it.rest[1:]
	c.returnsNew(step{value: value})
}

// instantiateHost makes the functions available to every instance of the module.
func instantiateHost(ctx context.Context, runtime wazero.Runtime) error {
	builder := runtime.NewHostModuleBuilder("wbg")
	for _, f := range functions {
		takes := slices.Repeat([]api.ValueType{api.ValueTypeI32}, f.takes)
		var gives []api.ValueType
		if f.returns {
			gives = []api.ValueType{api.ValueTypeI32}
		}
		do := f.do
		run := api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
			do(ctx, call{host: ctx.Value(hostKey{}).(*host), module: m, stack: stack})
		})
		builder = builder.NewFunctionBuilder().WithGoModuleFunction(run, takes, gives).Export(f.name)
	}
	_, err := builder.Instantiate(ctx)
	return err
}

// keptMemory is how many bytes of memory are kept for the next image. Most logos need less. The
// additional memory of a hostile file is released.
const keptMemory = 16 << 20

// memory is the linear memory of one instance. It refuses to grow beyond its limit and records the
// refusal, because in the module images that are too large and broken images end in the same trap.
//
// Memories are zeroed and reused, because otherwise allocating and collecting a few MiB would take most
// of the time for a small image.
type memory struct {
	bytes   []byte // all zero beyond its length
	limit   uint64
	refused bool

	// large is a semaphore: only one memory at a time may be larger than keptMemory.
	large   chan struct{}
	has     bool // this memory holds the semaphore
	crowded bool // another memory held the semaphore for too long
	turn    *turn
}

// turn is the time limit of one image. Waiting for another image's memory does not count.
type turn struct {
	ctx     context.Context // ends when the time is up
	wait    time.Duration   // the longest wait for the large memory
	left    time.Duration   // when the timer was last started
	started time.Time
	timer   *time.Timer
	end     context.CancelCauseFunc
}

// newTurn starts the timer of an image. The caller must call stop.
func newTurn(ctx context.Context, cfg Config) *turn {
	t := &turn{wait: cfg.Wait, left: cfg.Timeout, started: time.Now()}
	t.ctx, t.end = context.WithCancelCause(ctx)
	t.timer = time.AfterFunc(t.left, func() { t.end(context.DeadlineExceeded) })
	return t
}

func (t *turn) stop() {
	t.timer.Stop()
	t.end(nil)
}

// await acquires the semaphore large, with the image's timer stopped, and reports whether it succeeded.
func (t *turn) await(large chan<- struct{}) bool {
	if !t.timer.Stop() {
		<-t.ctx.Done() // the time is up
		return false
	}
	t.left -= time.Since(t.started)
	enough := time.NewTimer(t.wait)
	defer enough.Stop()
	got := false
	select {
	case large <- struct{}{}:
		got = true
	case <-enough.C:
	case <-t.ctx.Done():
	}
	t.started = time.Now()
	t.timer.Reset(t.left)
	return got
}

// Reallocate implements experimental.LinearMemory. It returns nil if it refuses to grow.
func (m *memory) Reallocate(size uint64) []byte {
	if m.crowded { // whether later requests succeed would depend on the load, not on the file
		return nil
	}
	if size > m.limit {
		m.refused = true
		return nil
	}
	if size > keptMemory && !m.has {
		if m.has = m.turn.await(m.large); !m.has {
			m.crowded = true
			return nil
		}
	}
	if size > uint64(cap(m.bytes)) {
		grown := make([]byte, size, min(max(size, 2*uint64(cap(m.bytes))), m.limit))
		copy(grown, m.bytes)
		m.bytes = grown
	}
	m.bytes = m.bytes[:size]
	return m.bytes
}

// Free implements experimental.LinearMemory. It does nothing, because keepMemory reuses the memory
// after the instance has ended.
func (m *memory) Free() {}

func (r *Renderer) takeMemory(t *turn) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.spares); n > 0 {
		m := r.spares[n-1]
		r.spares = r.spares[:n-1]
		m.turn = t
		return m
	}
	return &memory{limit: uint64(r.cfg.Memory), large: r.large, turn: t}
}

// keepMemory zeroes a memory and keeps it for the next image.
func (r *Renderer) keepMemory(m *memory) {
	if m.has {
		<-m.large
		m.has = false
	}
	m.turn = nil
	if cap(m.bytes) > keptMemory {
		return
	}
	clear(m.bytes)
	m.bytes, m.refused, m.crowded = m.bytes[:0], false, false
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spares = append(r.spares, m)
}
