package books

import "strings"

// SafeCell keeps spreadsheets from reading a text, or a part of it after a separator, as a formula
// (https://owasp.org/www-community/attacks/CSV_Injection): it puts an apostrophe before what could be one.
func SafeCell(text string) string {
	safe := 0 // bytes of text that are in b
	var b []byte
	for i := range len(text) {
		if beginsFormula(text, i) {
			b = append(append(b, text[safe:i]...), '\'')
			safe = i
		}
	}
	if b == nil {
		return text
	}
	return string(append(b, text[safe:]...))
}

// beginsFormula reports whether a spreadsheet could read what begins at i as a formula.
func beginsFormula(text string, i int) bool {
	switch text[i] {
	case '=', '+', '-', '@':
		return i == 0 || strings.IndexByte(";,\t\r\n", text[i-1]) >= 0
	case '\t', '\r', '\n':
		return i == 0
	}
	return false
}
