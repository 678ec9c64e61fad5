package extract

import "math"

// Round2 rounds to two digits, so that records and evidence do not differ in the noise.
func Round2(v float64) float64 { return math.Round(v*100) / 100 }
