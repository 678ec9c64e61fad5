package extract

import "math"

// Round2 rounds to two decimals, to keep noise out of records and evidence.
func Round2(v float64) float64 { return math.Round(v*100) / 100 }
