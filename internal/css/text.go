package css

import (
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"
)

// closing returns the position at which the bracket at a position closes, or
// the length of the text if it does not. Strings are skipped.
func closing(text string, open int) int {
	nest := 0
	for i := open; i < len(text); i = after(text, i) {
		switch text[i] {
		case '(', '[', '{':
			nest++
		case ')', ']', '}':
			if nest--; nest <= 0 {
				return i
			}
		}
	}
	return len(text)
}

// after returns the position after the escape, string or single byte at a position.
func after(text string, i int) int {
	switch text[i] {
	case '\\':
		return i + 2
	case '"', '\'':
		return stringEnd(text, i)
	}
	return i + 1
}

// stringEnd returns the position after the string that begins at a position.
func stringEnd(text string, start int) int {
	quote := text[start]
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case quote:
			return i + 1
		case '\n':
			return i // a string ends with its line
		}
	}
	return len(text)
}

// Split yields the parts of a text between separators outside of brackets and strings.
func Split(text string, separator byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		start := 0
		for i := 0; i < len(text); i = after(text, i) {
			switch text[i] {
			case '(', '[', '{':
				i = min(closing(text, i), len(text)-1)
			case separator:
				if !yield(text[start:i]) {
					return
				}
				start = i + 1
			}
		}
		yield(text[start:])
	}
}

// words splits a value at white space outside of brackets and strings, and around slashes.
func words(value string) []string {
	var out []string
	start := -1
	flush := func(end int) {
		if start >= 0 {
			out = append(out, value[start:end])
		}
		start = -1
	}
	for i := 0; i < len(value); i = after(value, i) {
		switch c := value[i]; {
		case isSpace(c):
			flush(i)
			continue
		case c == '/':
			flush(i)
			out = append(out, "/")
			continue
		case start < 0:
			start = i
		}
		if strings.IndexByte("([{", value[i]) >= 0 {
			i = min(closing(value, i), len(value)-1)
		}
	}
	flush(len(value))
	return out
}

// unquote removes the quotes of a string, if any, and resolves escapes.
func unquote(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > 0 && (text[0] == '"' || text[0] == '\'') {
		quote := text[:1]
		text = strings.TrimSuffix(text[1:], quote)
	}
	return unescape(text)
}

// unescape resolves the escapes of an identifier or string (CSS Syntax 3, section 4.3.7).
func unescape(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			out.WriteByte(text[i])
			continue
		}
		end := i + 1
		for end < len(text) && end < i+7 && isHex(text[end]) {
			end++
		}
		switch {
		case end > i+1:
			code, _ := strconv.ParseInt(text[i+1:end], 16, 32) // at most six hex digits
			if r := rune(code); r != 0 && utf8.ValidRune(r) {
				out.WriteRune(r)
			} else {
				out.WriteRune(utf8.RuneError)
			}
			i = end - 1
			if end < len(text) && isSpace(text[end]) {
				i++
			}
		case end < len(text) && text[end] == '\n': // a string continues on the next line
			i = end
		case end < len(text):
			out.WriteByte(text[end])
			i = end
		}
	}
	return out.String()
}

func isHex(b byte) bool { return b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F' }

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' || b == '\f' }

// isName reports whether a byte is allowed in an identifier.
func isName(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_' || b >= 0x80
}

// nameEnd returns the end of the identifier that begins at a position.
func nameEnd(text string, start int) int {
	i := start
	for i < len(text) {
		switch {
		case isName(text[i]):
			i++
		case text[i] == '\\' && i+1 < len(text):
			i += 2
			// A hexadecimal escape ends with a space, which belongs to it.
			if isHex(text[i-1]) {
				for end := i + 5; i < end && i < len(text) && isHex(text[i]); {
					i++
				}
				if i < len(text) && isSpace(text[i]) {
					i++
				}
			}
		default:
			return i
		}
	}
	return min(i, len(text))
}

// indexFunction returns the start of a function call in a value, or -1. It ignores longer names with that suffix.
func indexFunction(value, name string) int {
	for from := 0; from < len(value); {
		i := indexFold(value[from:], name)
		if i < 0 {
			return -1
		}
		if i += from; i == 0 || !isName(value[i-1]) {
			return i
		}
		from = i + len(name)
	}
	return -1
}

// indexFold finds a lower-case ASCII word that ends in a parenthesis.
func indexFold(text, word string) int {
	for from := 0; ; {
		i := strings.IndexByte(text[from:], '(')
		if i < 0 {
			return -1
		}
		i += from
		if start := i + 1 - len(word); start >= 0 && strings.EqualFold(text[start:i+1], word) {
			return start
		}
		from = i + 1
	}
}

func indexURL(value string) int { return indexFunction(value, "url(") }
