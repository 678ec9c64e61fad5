package imaging

import (
	"math"
	"testing"
)

// TestCIEDE2000 uses pairs of the table by Sharma, Wu and Dalal for detecting wrong implementations: hue means across
// 0°, greys, and the rotation term. Public colors cannot express them.
func TestCIEDE2000(t *testing.T) {
	for _, c := range []struct {
		a, b lab
		want float64
	}{
		{lab{50, 2.6772, -79.7751}, lab{50, 0, -82.7485}, 2.0425},
		{lab{50, 3.1571, -77.2803}, lab{50, 0, -82.7485}, 2.8615},
		{lab{50, 2.8361, -74.0200}, lab{50, 0, -82.7485}, 3.4412},
		{lab{50, -1.3802, -84.2814}, lab{50, 0, -82.7485}, 1.0000},
		{lab{50, 0, 0}, lab{50, -1, 2}, 2.3669},
		{lab{50, 2.4900, -0.0010}, lab{50, -2.4900, 0.0009}, 7.1792},
		{lab{50, -0.0010, 2.4900}, lab{50, 0.0009, -2.4900}, 4.8045},
		{lab{50, 2.5, 0}, lab{50, 0, -2.5}, 4.3065},
		{lab{50, 2.5, 0}, lab{73, 25, -18}, 27.1492},
		{lab{50, 2.5, 0}, lab{61, -5, 29}, 22.8977},
		{lab{50, 2.5, 0}, lab{56, -27, -3}, 31.9030},
		{lab{50, 2.5, 0}, lab{58, 24, 15}, 19.4535},
		{lab{60.2574, -34.0099, 36.2677}, lab{60.4626, -34.1751, 39.4387}, 1.2644},
		{lab{2.0776, 0.0795, -1.1350}, lab{0.9033, -0.0636, -0.5514}, 0.9082},
	} {
		for _, got := range []float64{ciede2000(c.a, c.b), ciede2000(c.b, c.a)} {
			if math.Abs(got-c.want) > 0.0001 {
				t.Errorf("%v and %v: %.4f, want %.4f", c.a, c.b, got, c.want)
			}
		}
	}
	if got := DeltaE(White, Black); math.Abs(got-100) > 0.01 {
		t.Errorf("black and white differ by %.3f", got)
	}
}
