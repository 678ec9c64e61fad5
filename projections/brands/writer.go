package brands

import (
	"math"
	"strconv"
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

const hexDigits = "0123456789abcdef"

// appendEscaped appends the inside of a JSON string, as encoding/json writes it with SetEscapeHTML(false). Bytes that
// are not UTF-8 become U+FFFD; U+2028 and U+2029 are escaped because old JavaScript treats them as line ends.
func appendEscaped(dst []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendControl(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[r&0xf])
			start = i + size
		}
		i += size
	}
	return append(dst, s[start:]...)
}

func appendControl(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
	}
}
