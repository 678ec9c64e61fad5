//go:build race

package kurrent_test

import "time"

const raceDetector = true

// shortCall is the CallTimeout of tests in which answers stay away. The client looks at an append's trailers
// unsynchronized when the append's time ends while it is still sending; on a loaded machine, under the race
// detector, sending may take longer than the time that the tests allow otherwise.
const shortCall = 3 * time.Second
