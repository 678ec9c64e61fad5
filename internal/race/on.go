//go:build race

package race

// Enabled says whether the race detector is in this program.
const Enabled = true
