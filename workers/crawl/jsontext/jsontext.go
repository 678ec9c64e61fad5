// Package jsontext checks JSON before it is decoded: a decoder's stack grows with the nesting of untrusted input.
package jsontext

// Depth returns the greatest nesting of brackets outside of strings, or at
// least limit+1 if it exceeds the limit. The text need not be valid.
func Depth(text []byte, limit int) int {
	depth, most, quoted := 0, 0, false
	for i := 0; i < len(text) && most <= limit; i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			most = max(most, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return most
}
