package lookup

import "testing"

func TestHashRequest_DifferentParts_DifferentHashes(t *testing.T) {
	seen := map[[32]byte][]string{}
	for _, parts := range [][]string{
		{"lookup"}, {"lookup", ""}, {"lookup", "", ""}, {"lookup", "a", "bc"}, {"lookup", "ab", "c"}, {"lookup", "abc"}, {"lookup", "c", "ab"}, {"lookupa", "bc"},
	} {
		sum := hashRequest(parts[0], parts[1:]...)
		if other, taken := seen[sum]; taken {
			t.Errorf("%q and %q have one hash", parts, other)
		}
		seen[sum] = parts
		if again := hashRequest(parts[0], parts[1:]...); again != sum {
			t.Errorf("%q has two hashes", parts)
		}
	}
}
