// Package metering makes WebAssembly modules count their work.
//
// wazero can stop a module only by a check at the head of each loop, which leaves the compiled code each time and makes
// logos take five times as long. Instead, Rewrite changes the module: at the head of each loop and function it
// decrements a counter, and only when the counter reaches zero it calls the host, which counts these calls and may stop
// the module. Copying or filling memory decrements it by the number of bytes. The host's function is one that the
// module imports anyway, so that no function index changes.
//
// Unlike the time, the count is the same on every machine and under any load.
package metering

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Quantum is the number of steps (loop iterations and calls) between two calls of the host. They take 5 to 10 ms.
const Quantum = 1 << 18

// stepBytes is the binary logarithm of the bytes that are copied or filled for one step.
const stepBytes = 8

// ErrForm means that the module has a form that Rewrite does not support.
var ErrForm = errors.New("module cannot be metered")

// Checkpoint is the function that the module calls after each quantum: an import that returns one number, which is
// ignored.
type Checkpoint struct {
	Name string   // unique among the imports
	Args []uint32 // constant arguments, below 1<<31, by which the host can recognize these calls
}

// Sections of a module, from the WebAssembly core specification 2.0, chapter 5.5.
const (
	wasmHeader    = 8
	sectionImport = 2
	sectionGlobal = 6
	sectionCode   = 10
)

// Opcodes that are searched or written; chapter 5.4.
const (
	opLoop      = 0x03
	opIf        = 0x04
	opElse      = 0x05
	opEnd       = 0x0b
	opCall      = 0x10
	opDrop      = 0x1a
	opGlobalGet = 0x23
	opGlobalSet = 0x24
	opI32Const  = 0x41
	opI32Eqz    = 0x45
	opI32LtU    = 0x49
	opI32Sub    = 0x6b
	opI32ShrU   = 0x76
	opMore      = 0xfc // before the number of an operation
	memoryCopy  = 10
	memoryFill  = 11
	noType      = 0x40 // of a block without a result
	typeI32     = 0x7f
)

// Rewrite returns the module with a counter. It rejects constructs that the embedded modules do not contain, with
// ErrForm.
func Rewrite(module []byte, c Checkpoint) (out []byte, err error) {
	if len(module) < wasmHeader {
		return nil, ErrForm
	}
	defer func() { // reader panics beyond the end
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("%w: %v", ErrForm, p)
		}
	}()
	out = append(out, module[:wasmHeader]...)
	var globals, checkpoint uint32
	found := false
	for r := (reader{module[wasmHeader:]}); len(r.rest) > 0; {
		id := r.byte()
		body := r.take(r.u32())
		switch id {
		case sectionImport:
			if checkpoint, found = findImport(body, c.Name); !found {
				return nil, fmt.Errorf("%w: no import %s", ErrForm, c.Name)
			}
		case sectionGlobal:
			globals = (&reader{body}).u32()
			body = addGlobals(body)
		case sectionCode:
			if body, err = meterCode(body, newMeter(globals, checkpoint, c.Args)); err != nil {
				return nil, err
			}
		}
		out = append(out, id)
		out = appendU32(out, uint32(len(body)))
		out = append(out, body...)
	}
	if globals == 0 || !found {
		return nil, fmt.Errorf("%w: no globals or imports", ErrForm)
	}
	return out, nil
}

// findImport returns the index of the function to call. It panics if an import is not a function, because the indexes
// of variables would then begin with the imported ones.
func findImport(section []byte, wanted string) (number uint32, found bool) {
	r := reader{section}
	for i := range r.u32() {
		r.take(r.u32()) // module
		name := string(r.take(r.u32()))
		if kind := r.byte(); kind != 0 {
			panic(fmt.Sprintf("import of kind %d", kind))
		}
		r.u32() // type
		if name == wanted {
			number, found = i, true
		}
	}
	return number, found
}

// addGlobals appends two global variables: the counter, initialized with the quantum, and the length of a block of
// memory.
func addGlobals(section []byte) []byte {
	const mutable = 1
	r := reader{section}
	out := appendU32(nil, r.u32()+2)
	out = append(out, r.rest...)
	for _, value := range []uint32{Quantum, 0} {
		out = append(appendS32(append(out, typeI32, mutable, opI32Const), value), opEnd)
	}
	return out
}

// meter is the code that is inserted.
type meter struct {
	step  []byte // in functions and loops
	block []byte // before a block of memory is copied or filled, whose length is on the stack
}

func newMeter(counter, checkpoint uint32, args []uint32) meter {
	get, set := appendU32([]byte{opGlobalGet}, counter), appendU32([]byte{opGlobalSet}, counter)
	length, setLength := appendU32([]byte{opGlobalGet}, counter+1), appendU32([]byte{opGlobalSet}, counter+1)
	var call []byte
	for _, arg := range args {
		call = appendS32(append(call, opI32Const), arg)
	}
	call = append(appendU32(append(call, opCall), checkpoint), opDrop)
	call = slices.Concat(call, appendS32([]byte{opI32Const}, Quantum), set)
	steps := slices.Concat(length, []byte{opI32Const, stepBytes, opI32ShrU})
	return meter{
		// If the counter is zero, call the host and reset it; decrement it.
		step: slices.Concat(
			get, []byte{opI32Eqz, opIf, noType}, call, []byte{opEnd},
			get, []byte{opI32Const, 1, opI32Sub}, set,
		),
		// If the counter is less than the steps, call the host and reset it; otherwise subtract them.
		block: slices.Concat(
			setLength,
			get, steps, []byte{opI32LtU, opIf, noType}, call, []byte{opElse},
			get, steps, []byte{opI32Sub}, set, []byte{opEnd},
			length,
		),
	}
}

func meterCode(section []byte, m meter) ([]byte, error) {
	r := reader{section}
	count := r.u32()
	out := appendU32(nil, count)
	for range count {
		body, err := meterFunction(r.take(r.u32()), m)
		if err != nil {
			return nil, err
		}
		out = appendU32(out, uint32(len(body)))
		out = append(out, body...)
	}
	return out, nil
}

// meterFunction inserts a step after the declarations of local variables and after each loop's head, and the code for
// blocks.
func meterFunction(body []byte, m meter) ([]byte, error) {
	r := reader{body}
	for range r.u32() {
		r.u32() // number of variables
		r.byte()
	}
	out := append(slices.Clone(body[:len(body)-len(r.rest)]), m.step...)
	from := r.rest
	for len(r.rest) > 0 {
		at := r.rest
		op := r.byte()
		if err := r.skipImmediates(op); err != nil {
			return nil, err
		}
		switch {
		case op == opLoop:
			out = append(out, from[:len(from)-len(r.rest)]...)
			out = append(out, m.step...)
			from = r.rest
		case op == opMore && (at[1] == memoryCopy || at[1] == memoryFill):
			out = append(out, from[:len(from)-len(at)]...)
			out = append(out, m.block...)
			from = at
		}
	}
	return append(out, from...), nil
}

// skipImmediates skips the immediates of an opcode. It rejects instructions that the modules do not contain. Those on
// blocks of memory or tables that newMeter does not count must remain rejected, because they could take long within one
// step.
func (r *reader) skipImmediates(op byte) error {
	switch {
	case op >= 0x02 && op <= 0x04: // block, loop, if: a type
		r.leb()
	case op == 0x0c, op == 0x0d, op == opCall, op >= 0x20 && op <= 0x24: // branches, calls, variables: a number
		r.leb()
	case op == 0x0e: // br_table: a list of labels and a default label
		for range r.u32() {
			r.leb()
		}
		r.leb()
	case op == 0x11, op >= 0x28 && op <= 0x3e: // call_indirect: type and table; loads and stores: alignment and offset
		r.leb()
		r.leb()
	case op == 0x3f, op == 0x40: // memory.size, memory.grow
		r.byte()
	case op == opI32Const, op == 0x42:
		r.leb()
	case op == 0x43:
		r.take(4)
	case op == 0x44:
		r.take(8)
	case op == opMore:
		switch sub := r.byte(); sub {
		case 0, 1, 2, 3, 4, 5, 6, 7: // saturating conversions
		case memoryCopy: // two memories
			r.take(2)
		case memoryFill:
			r.take(1)
		default:
			return fmt.Errorf("%w: opcode fc %d", ErrForm, sub)
		}
	case op <= 0x01, op == opElse, op == opEnd, op == 0x0f, op == opDrop, op == 0x1b, op >= opI32Eqz && op <= 0xc4:
	default:
		return fmt.Errorf("%w: opcode %x", ErrForm, op)
	}
	return nil
}

// reader parses a module. It panics beyond the end; Rewrite recovers.
type reader struct{ rest []byte }

func (r *reader) byte() byte { return r.take(1)[0] }

func (r *reader) take(n uint32) []byte {
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) u32() uint32 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > 1<<32-1 {
		panic("a number out of range")
	}
	r.rest = r.rest[n:]
	return uint32(v)
}

// leb skips a signed or unsigned number.
func (r *reader) leb() {
	for r.byte()&0x80 != 0 {
	}
}

func appendU32(out []byte, v uint32) []byte { return binary.AppendUvarint(out, uint64(v)) }

// appendS32 appends a non-negative number in the signed encoding, whose last byte has a sign bit.
func appendS32(out []byte, v uint32) []byte {
	for v >= 0x40 {
		out = append(out, byte(v)|0x80)
		v >>= 7
	}
	return append(out, byte(v))
}
