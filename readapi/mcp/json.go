package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of the JSON that is read. All of it has MaxBody bytes at most.
const (
	// maxDepth bounds how deep objects and arrays lie in each other. Messages of the protocol need less than 10;
	// what clients put into capabilities and _meta is theirs.
	maxDepth = 64
	// maxExponentDigits bounds an exponent as a double has it (308). Arithmetic with numbers beyond costs time
	// and memory by the value of the exponent, which has nothing to do with the size of the body.
	maxExponentDigits = 3
)

// readJSON reads one JSON text (RFC 8259) more strictly than encoding/json does: UTF-8 only, no name twice in
// an object, no deeper than maxDepth, numbers within the range of a double. What two readers may read
// differently is refused, because a proxy that checks requests may be the other one. Numbers are
// json.Number, in the caller's own spelling.
func readJSON(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("the body is not UTF-8")
	}
	// The token reader below is lenient about commas; the whole text is checked first.
	if !json.Valid(text) {
		return nil, errors.New("the body is not JSON")
	}
	tokens := json.NewDecoder(bytes.NewReader(text))
	tokens.UseNumber()
	value, err := readValue(tokens, 0)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the body is not JSON")
	}
	return value, err
}

func readValue(tokens *json.Decoder, depth int) (any, error) {
	token, err := tokens.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if depth == maxDepth {
			return nil, fmt.Errorf("the body is nested deeper than %d", maxDepth)
		}
		if token == '{' {
			return readObject(tokens, depth+1)
		}
		return readArray(tokens, depth+1)
	case json.Number:
		return token, checkNumber(token)
	default:
		return token, nil
	}
}

func readObject(tokens *json.Decoder, depth int) (map[string]any, error) {
	object := map[string]any{}
	for tokens.More() {
		token, err := tokens.Token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok {
			return nil, errors.New("the body is not JSON")
		}
		if _, twice := object[name]; twice {
			return nil, errors.New("an object in the body has a name twice")
		}
		if object[name], err = readValue(tokens, depth); err != nil {
			return nil, err
		}
	}
	_, err := tokens.Token()
	return object, err
}

func readArray(tokens *json.Decoder, depth int) ([]any, error) {
	array := []any{}
	for tokens.More() {
		value, err := readValue(tokens, depth)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	_, err := tokens.Token()
	return array, err
}

func checkNumber(n json.Number) error {
	text := n.String()
	if i := strings.IndexAny(text, "eE"); i >= 0 && len(strings.TrimLeft(text[i+1:], "+-")) > maxExponentDigits {
		return errors.New("a number in the body is out of range")
	}
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return errors.New("a number in the body is out of range")
	}
	return nil
}
