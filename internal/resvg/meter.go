package resvg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// wazero can stop a module only by a check at the head of each loop, which leaves the compiled code
// each time and makes logos take five times as long. Instead, metered rewrites the module: at the head
// of each loop and function it decrements a counter, and only when the counter reaches zero it calls
// the host, which counts these calls and checks the context (checkpoint in host.go). It calls a
// function that the module imports anyway, so that no function index changes.
//
// Unlike the time, the count is the same on every machine and under any load. So the count decides
// whether an image is too expensive, and the context only limits how long the caller waits.

// quantum is the number of steps (loop iterations and calls) between two calls of the host. They take 5
// to 10 ms.
const quantum = 1 << 18

// checkpointName is the import that metered code calls. It has no arguments and returns a number.
const checkpointName = "__wbindgen_memory"

// errMeter means that the module has a form that metered does not support.
var errMeter = errors.New("resvg module cannot be metered")

// Sections of a module, from the WebAssembly core specification 2.0, chapter 5.5.
const (
	wasmHeader    = 8
	sectionImport = 2
	sectionGlobal = 6
	sectionCode   = 10
)

// Opcodes that are searched or written; chapter 5.4.
const (
	opIf        = 0x04
	opLoop      = 0x03
	opEnd       = 0x0b
	opCall      = 0x10
	opDrop      = 0x1a
	opGlobalGet = 0x23
	opGlobalSet = 0x24
	opI32Const  = 0x41
	opI32Eqz    = 0x45
	opI32Sub    = 0x6b
	noType      = 0x40 // of a block without a result
	typeI32     = 0x7f
)

// metered returns the module with a counter. It only has to support the embedded module, and rejects
// constructs that this module does not contain.
func metered(module []byte) (out []byte, err error) {
	if len(module) < wasmHeader {
		return nil, errMeter
	}
	defer func() { // reader panics beyond the end
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("%w: %v", errMeter, p)
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
			if checkpoint, found = findImport(body); !found {
				return nil, fmt.Errorf("%w: no import %s", errMeter, checkpointName)
			}
		case sectionGlobal:
			globals = (&reader{body}).u32()
			body = addGlobal(body)
		case sectionCode:
			if body, err = meterCode(body, meterStep(globals, checkpoint)); err != nil {
				return nil, err
			}
		}
		out = append(out, id)
		out = appendU32(out, uint32(len(body)))
		out = append(out, body...)
	}
	if globals == 0 || !found {
		return nil, fmt.Errorf("%w: no globals or imports", errMeter)
	}
	return out, nil
}

// findImport returns the index of the function to call. All imports are functions.
func findImport(section []byte) (number uint32, found bool) {
	r := reader{section}
	for i := range r.u32() {
		r.take(r.u32()) // module
		name := string(r.take(r.u32()))
		if kind := r.byte(); kind != 0 {
			panic(fmt.Sprintf("import of kind %d", kind))
		}
		r.u32() // type
		if name == checkpointName {
			return i, true
		}
	}
	return 0, false
}

// addGlobal appends a global variable, initialized with the quantum.
func addGlobal(section []byte) []byte {
	const mutable = 1
	r := reader{section}
	out := appendU32(nil, r.u32()+1)
	out = append(out, r.rest...)
	out = append(out, typeI32, mutable, opI32Const)
	return append(appendS32(out, quantum), opEnd)
}

// meterStep returns the code: if the counter is zero, call the host and reset it; decrement it.
func meterStep(counter, checkpoint uint32) []byte {
	get, set := appendU32([]byte{opGlobalGet}, counter), appendU32([]byte{opGlobalSet}, counter)
	return slices.Concat(
		get, []byte{opI32Eqz, opIf, noType},
		appendU32([]byte{opCall}, checkpoint), []byte{opDrop},
		appendS32([]byte{opI32Const}, quantum), set,
		[]byte{opEnd},
		get, []byte{opI32Const, 1, opI32Sub}, set,
	)
}

func meterCode(section, step []byte) ([]byte, error) {
	r := reader{section}
	count := r.u32()
	out := appendU32(nil, count)
	for range count {
		body, err := meterFunction(r.take(r.u32()), step)
		if err != nil {
			return nil, err
		}
		out = appendU32(out, uint32(len(body)))
		out = append(out, body...)
	}
	return out, nil
}

// meterFunction inserts the step after the declarations of local variables and after each loop's head.
func meterFunction(body, step []byte) ([]byte, error) {
	r := reader{body}
	for range r.u32() {
		r.u32() // number of variables
		r.byte()
	}
	out := append(slices.Clone(body[:len(body)-len(r.rest)]), step...)
	from := r.rest
	for len(r.rest) > 0 {
		op := r.byte()
		if err := r.skipImmediates(op); err != nil {
			return nil, err
		}
		if op == opLoop {
			out = append(out, from[:len(from)-len(r.rest)]...)
			out = append(out, step...)
			from = r.rest
		}
	}
	return append(out, from...), nil
}

// skipImmediates skips the immediates of an opcode. It rejects instructions that the module does not
// contain. Bulk memory operations such as memory.fill must remain rejected, because they could take
// long within one step.
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
	case op == 0xfc: // saturating conversions have no immediates; the others are bulk memory operations
		if sub := r.u32(); sub > 7 {
			return fmt.Errorf("%w: opcode fc %d", errMeter, sub)
		}
	case op <= 0x01, op == 0x05, op == opEnd, op == 0x0f, op == opDrop, op == 0x1b, op >= opI32Eqz && op <= 0xc4:
	default:
		return fmt.Errorf("%w: opcode %x", errMeter, op)
	}
	return nil
}

// reader parses a module. It panics beyond the end; metered recovers.
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
