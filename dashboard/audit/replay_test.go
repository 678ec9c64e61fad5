package audit

import (
	"testing"
	"time"
)

// A time that is accepted is the same in the form that the page writes.
func FuzzParseTime(f *testing.F) {
	for _, text := range []string{"2026-06-30T23:59:59Z", "2026-06-30T23:59:59.9999999+02:00", "2026-06-30T23:59", "2026-06-30T23:59:59", "2024-02-29", "2026-11", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-02-29", "x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at := parseTime(text)
		if at == nil || at.Year() < 0 || at.Year() > 9999 {
			return
		}
		written := at.Format(time.RFC3339Nano)
		if again := parseTime(written); again == nil || !again.Equal(*at) {
			t.Errorf("%q is %s, which is read as %v", text, written, again)
		}
	})
}
