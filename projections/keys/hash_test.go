package keys

import (
	"encoding/hex"
	"strings"
	"testing"
)

func FuzzParseHash(f *testing.F) {
	for _, s := range []string{"", "zz", strings.Repeat("ab", 32), strings.Repeat("AB", 32), strings.Repeat("ab", 33), strings.Repeat("g", 64)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHash(s)
		if err == nil && !strings.EqualFold(hex.EncodeToString(h[:]), s) {
			t.Errorf("ParseHash(%q) = %x, want an error", s, h)
		}
		if _, herr := hex.DecodeString(s); err != nil && herr == nil && len(s) == 64 {
			t.Errorf("ParseHash(%q) failed: %v", s, err)
		}
	})
}
