package levenshtein_test

import (
	"testing"

	"letterhead/internal/levenshtein"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0},
		{"BASEURL", "BASE_URL", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 2},
	} {
		if got := levenshtein.Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
