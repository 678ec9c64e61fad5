//go:build !race

// Package race says whether the race detector is in a test program: it has memory of its own and makes
// everything slower, so that what is measured under it says nothing. It is for tests only.
package race

// Enabled says whether the race detector is in this program.
const Enabled = false
