//go:build !race

package kurrent_test

import "time"

const raceDetector = false

// shortCall is the CallTimeout of tests in which answers stay away.
const shortCall = time.Second
