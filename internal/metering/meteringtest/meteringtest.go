// Package meteringtest has a module for tests of package metering and of what it is used for.
package meteringtest

import (
	"slices"

	"letterhead/internal/metering"
)

// Spinning is a module with one function, spin, an endless empty loop.
var Spinning = slices.Concat(
	[]byte("\x00asm\x01\x00\x00\x00"),
	[]byte("\x01\x08\x02\x60\x00\x01\x7f\x60\x00\x00"),         // types: () to i32, () to nothing
	[]byte("\x02\x19\x01\x03wbg\x11__wbindgen_memory\x00\x00"), // one import
	[]byte("\x03\x02\x01\x01"),                                 // one function
	[]byte("\x06\x06\x01\x7f\x01\x41\x00\x0b"),                 // one variable
	[]byte("\x07\x08\x01\x04spin\x00\x01"),                     // its name
	[]byte("\x0a\x09\x01\x07\x00\x03\x40\x0c\x00\x0b\x0b"),     // loop, branch to its head
)

// Checkpoint is the import of Spinning.
var Checkpoint = metering.Checkpoint{Name: "__wbindgen_memory"}
