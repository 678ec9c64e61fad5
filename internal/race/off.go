//go:build !race

// Package race reports whether the race detector is enabled: it uses additional memory and makes
// everything slower, so measurements with it are meaningless. It is for tests only.
package race

// Enabled reports whether the race detector is enabled.
const Enabled = false
