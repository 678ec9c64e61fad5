package metering_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"letterhead/internal/metering"
	"letterhead/internal/metering/meteringtest"
	"letterhead/internal/testmust"
)

func TestRewrite_LoopCallsHost(t *testing.T) {
	ctx := t.Context()
	code, err := metering.Rewrite(meteringtest.Spinning, meteringtest.Checkpoint)
	testmust.Succeed(t, err)
	runtime := wazero.NewRuntime(ctx)
	defer runtime.Close(ctx)
	asked, stop := 0, errors.New("enough")
	_, err = runtime.NewHostModuleBuilder("wbg").NewFunctionBuilder().WithGoFunction(api.GoFunc(func(context.Context, []uint64) {
		if asked++; asked == 3 {
			panic(stop)
		}
	}), nil, []api.ValueType{api.ValueTypeI32}).Export(meteringtest.Checkpoint.Name).Instantiate(ctx)
	testmust.Succeed(t, err)
	m := testmust.Get(runtime.Instantiate(ctx, code))(t)
	if _, err := m.ExportedFunction("spin").Call(ctx); !errors.Is(err, stop) || asked != 3 {
		t.Errorf("the host was called %d times: %v; want 3 and %v", asked, err, stop)
	}
}

// filling is a module with one function, which fills 64 KiB of memory as often as its argument says.
var filling = slices.Concat(
	[]byte("\x00asm\x01\x00\x00\x00"),
	[]byte("\x01\x09\x02\x60\x00\x01\x7f\x60\x01\x7f\x00"), // types: () to i32, i32 to nothing
	[]byte("\x02\x19\x01\x03wbg\x11__wbindgen_memory\x00\x00"),
	[]byte("\x03\x02\x01\x01"),
	[]byte("\x05\x03\x01\x00\x01"), // 64 KiB of memory
	[]byte("\x06\x06\x01\x7f\x01\x41\x00\x0b"),
	[]byte("\x07\x08\x01\x04fill\x00\x01"),
	[]byte("\x0a\x1b\x01\x19\x00\x03\x40"+ // loop
		"\x41\x00\x41\x00\x41\x80\x80\x04\xfc\x0b\x00"+ // fill
		"\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b\x0b"), // subtract one from the argument, again unless it is zero
)

func TestRewrite_BlockOfMemory_TakesStepsByItsLength(t *testing.T) {
	ctx := t.Context()
	code, err := metering.Rewrite(filling, meteringtest.Checkpoint)
	testmust.Succeed(t, err)
	runtime := wazero.NewRuntime(ctx)
	defer runtime.Close(ctx)
	calls := 0
	_, err = runtime.NewHostModuleBuilder("wbg").NewFunctionBuilder().WithGoFunction(api.GoFunc(func(context.Context, []uint64) { calls++ }),
		nil, []api.ValueType{api.ValueTypeI32}).Export(meteringtest.Checkpoint.Name).Instantiate(ctx)
	testmust.Succeed(t, err)
	m := testmust.Get(runtime.Instantiate(ctx, code))(t)
	const stepsEach = 64<<10>>8 + 1 // of the block and of the loop
	for _, quanta := range []int{1, 5} {
		calls = 0
		if _, err := m.ExportedFunction("fill").Call(ctx, uint64(quanta*metering.Quantum/stepsEach)); err != nil || calls < quanta-1 || calls > quanta+1 {
			t.Errorf("%d quanta of blocks call the host %d times, %v", quanta, calls, err)
		}
	}
}

func TestRewrite_UnknownConstruct_IsRejected(t *testing.T) {
	replace := func(old, new string) []byte { return bytes.Replace(meteringtest.Spinning, []byte(old), []byte(new), 1) }
	for name, module := range map[string][]byte{
		"nothing":           nil,
		"cut off":           meteringtest.Spinning[:len(meteringtest.Spinning)-3],
		"another import":    replace("__wbindgen_memory", "__wbindgen_MEMORY"),
		"a memory import":   replace("memory\x00\x00", "memory\x02\x00"),
		"a global import":   replace("\x02\x19\x01\x03wbg\x11__wbindgen_memory\x00\x00", "\x02\x20\x02\x03wbg\x11__wbindgen_memory\x00\x00\x01a\x01b\x03\x7f\x00"),
		"blocks of tables":  replace("\x03\x40\x0c\x00", "\xfc\x0e\x00\x00"),
		"an unknown opcode": replace("\x03\x40\x0c\x00", "\xfd\x40\x0c\x00"),
	} {
		if code, err := metering.Rewrite(module, meteringtest.Checkpoint); !errors.Is(err, metering.ErrForm) || code != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzRewrite(f *testing.F) {
	f.Add(meteringtest.Spinning)
	f.Add(meteringtest.Spinning[:len(meteringtest.Spinning)-3])
	f.Fuzz(func(t *testing.T, module []byte) {
		code, err := metering.Rewrite(module, meteringtest.Checkpoint)
		if (err == nil) != (len(code) > len(module)) || err != nil && !errors.Is(err, metering.ErrForm) {
			t.Errorf("%d bytes of %d: %v", len(code), len(module), err)
		}
	})
}
