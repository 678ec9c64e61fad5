//go:build race

package crawl_test

// raceEnabled: the detector multiplies what everything costs.
const raceEnabled = true
