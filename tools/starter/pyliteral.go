package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxNested limits the nesting of a Python literal.
const maxNested = 32

// parsePython reads a Python literal of dictionaries with string keys, lists, strings, numbers, None, True and
// False. It returns map[string]any, []any, string, float64, nil and bool.
func parsePython(text string) (any, error) {
	p := &pythonReader{rest: text}
	v, err := p.value(0)
	if err != nil {
		return nil, fmt.Errorf("%d bytes before the end: %w", len(p.rest), err)
	}
	if p.space(); p.rest != "" {
		return nil, fmt.Errorf("%d bytes follow the literal", len(p.rest))
	}
	return v, nil
}

type pythonReader struct{ rest string }

func (p *pythonReader) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// take removes a mark, such as a comma, from the front. It reports whether it was there.
func (p *pythonReader) take(mark string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, mark)
	p.rest = rest
	return ok
}

func (p *pythonReader) value(depth int) (any, error) {
	if depth > maxNested {
		return nil, fmt.Errorf("more than %d levels", maxNested)
	}
	switch {
	case p.take("{"):
		return p.dict(depth)
	case p.take("["):
		return p.list(depth)
	case strings.HasPrefix(p.rest, "'"), strings.HasPrefix(p.rest, `"`):
		return p.text()
	}
	word := p.rest
	if i := strings.IndexAny(word, ",:]} \n"); i >= 0 {
		word = word[:i]
	}
	p.rest = p.rest[len(word):]
	switch word {
	case "None":
		return nil, nil
	case "True", "False":
		return word == "True", nil
	}
	n, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return nil, fmt.Errorf("unknown value %.20q", word)
	}
	return n, nil
}

func (p *pythonReader) dict(depth int) (any, error) {
	out := map[string]any{}
	for !p.take("}") {
		key, err := p.text()
		if err != nil {
			return nil, err
		}
		if !p.take(":") {
			return nil, fmt.Errorf("no colon after the key %.20q", key)
		}
		if out[key], err = p.value(depth + 1); err != nil {
			return nil, err
		}
		if !p.take(",") && !strings.HasPrefix(p.rest, "}") {
			return nil, fmt.Errorf("no comma after the value of %.20q", key)
		}
	}
	return out, nil
}

func (p *pythonReader) list(depth int) (any, error) {
	out := []any{}
	for !p.take("]") {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if !p.take(",") && !strings.HasPrefix(p.rest, "]") {
			return nil, fmt.Errorf("no comma after the element %d", len(out))
		}
	}
	return out, nil
}

// text reads a string literal. It accepts the escapes that Go shares with Python, and either quote escaped in both
// kinds; others are errors.
func (p *pythonReader) text() (string, error) {
	p.space()
	if p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		return "", errors.New("a string was expected")
	}
	quote := p.rest[0]
	p.rest = p.rest[1:]
	var b strings.Builder
	for p.rest != "" {
		switch {
		case p.rest[0] == quote:
			p.rest = p.rest[1:]
			return b.String(), nil
		case strings.HasPrefix(p.rest, `\'`), strings.HasPrefix(p.rest, `\"`):
			b.WriteByte(p.rest[1])
			p.rest = p.rest[2:]
		case p.rest[0] == '\\':
			r, _, tail, err := strconv.UnquoteChar(p.rest, 0)
			if err != nil {
				return "", fmt.Errorf("escape %.4q: %w", p.rest, err)
			}
			b.WriteRune(r)
			p.rest = tail
		default:
			_, n := utf8.DecodeRuneInString(p.rest)
			b.WriteString(p.rest[:n])
			p.rest = p.rest[n:]
		}
	}
	return "", errors.New("the string is not terminated")
}
