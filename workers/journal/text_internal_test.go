package journal

import (
	"strings"
	"testing"

	"letterhead/domain/books"
)

// FuzzAppendCell: a cell is written as RFC 4180 and books.SafeCell say.
func FuzzAppendCell(f *testing.F) {
	for _, text := range []string{"", "acme.com", "-1", "a-b", "=1", "a;-b", "a,b", "a\"b", "a\nb", "\ta", "+", "a@b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := books.SafeCell(text)
		if strings.ContainsAny(want, ",\"\r\n") {
			want = `"` + strings.ReplaceAll(want, `"`, `""`) + `"`
		}
		if got := string(appendCell(nil, text)); got != want {
			t.Errorf("%q is written as %q, want %q", text, got, want)
		}
	})
}
