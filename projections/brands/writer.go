package brands

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// writer writes JSON without spaces, in the order of the calls. encoding/json cannot write the mark of
// the base URL, and rendering dominates the time of a replay of brands.
type writer struct {
	b []byte
	// after reports whether a value precedes at this level, so that a comma comes next.
	after bool
}

func (w *writer) value() {
	if w.after {
		w.b = append(w.b, ',')
	}
	w.after = true
}

func (w *writer) open(bracket byte) {
	w.value()
	w.b = append(w.b, bracket)
	w.after = false
}

func (w *writer) close(bracket byte) {
	w.b = append(w.b, bracket)
	w.after = true
}

func (w *writer) key(name string) *writer {
	w.string(name)
	w.b = append(w.b, ':')
	w.after = false
	return w
}

func (w *writer) null() {
	w.value()
	w.b = append(w.b, "null"...)
}

func (w *writer) bool(v bool) {
	w.value()
	w.b = strconv.AppendBool(w.b, v)
}

func (w *writer) int(v int64) {
	w.value()
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *writer) optionalInt(v *int) {
	if v == nil {
		w.null()
		return
	}
	w.int(int64(*v))
}

// float writes the shortest decimal that reads back as v. JSON cannot represent non-finite numbers; no
// value decoded from JSON is one, and a score that is not a number is written as 0.
func (w *writer) float(v float64) {
	w.value()
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	w.b = strconv.AppendFloat(w.b, v, 'f', -1, 64)
}

func (w *writer) string(s string) {
	w.value()
	w.b = append(w.b, '"')
	w.b = appendEscaped(w.b, s)
	w.b = append(w.b, '"')
}

func (w *writer) optional(s *string) {
	if s == nil {
		w.null()
		return
	}
	w.string(*s)
}

func (w *writer) strings(all []string) {
	list(w, all, func(w *writer, s *string) { w.string(*s) })
}

func list[T any](w *writer, all []T, each func(*writer, *T)) {
	w.open('[')
	for i := range all {
		each(w, &all[i])
	}
	w.close(']')
}

// appendEscaped appends the inside of a JSON string. Bytes that are not UTF-8 become an escaped U+FFFD; U+2028 and
// U+2029 are escaped because old JavaScript treats them as line ends.
func appendEscaped(dst []byte, s string) []byte {
	for s != "" {
		at := strings.IndexFunc(s, mayEscape)
		if at < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:at]...)
		r, size := utf8.DecodeRuneInString(s[at:])
		switch short := strings.IndexRune("\"\\\b\f\n\r\t", r); {
		case short >= 0:
			dst = append(dst, '\\', `"\bfnrt`[short])
		case r == utf8.RuneError && size > 1: // U+FFFD itself
			dst = append(dst, s[at:at+size]...)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
		s = s[at+size:]
	}
	return dst
}

func mayEscape(r rune) bool {
	return r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError || r == '\u2028' || r == '\u2029'
}
