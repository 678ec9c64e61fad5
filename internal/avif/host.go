package avif

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

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
