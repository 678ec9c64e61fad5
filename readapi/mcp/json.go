package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of the parsed JSON, which has MaxBody bytes at most.
const (
	// maxDepth limits the nesting of objects and arrays. Messages of the protocol need less than 10;
	// capabilities and _meta may contain anything.
	maxDepth = 64
	// maxExponentDigits limits an exponent to that of a double (308). Arithmetic with larger numbers
	// takes time and memory in proportion to the exponent, not to the size of the body.
	maxExponentDigits = 3
)

// readJSON parses one JSON text (RFC 8259) more strictly than encoding/json: UTF-8 only, no unpaired
// surrogates, no duplicate names in an object, no nesting deeper than maxDepth, numbers within the
// range of a double. It rejects input that another parser may interpret differently, because a proxy
// that checks requests may use such a parser. Numbers are json.Number, as spelled by the caller.
func readJSON(text []byte) (any, error) {
	tokens := jsontext.NewDecoder(bytes.NewReader(text))
	value, err := readValue(tokens)
	if err == nil {
		if _, err = tokens.ReadToken(); errors.Is(err, io.EOF) {
			return value, nil
		}
		err = errNoJSON // there is trailing data
	}
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return nil, errors.New("an object in the body has a name twice")
	case errors.As(err, &syntax), errors.Is(err, io.EOF):
		return nil, errNoJSON
	}
	return nil, err
}

var errNoJSON = errors.New("the body is not JSON in UTF-8")

func readValue(tokens *jsontext.Decoder) (any, error) {
	token, err := tokens.ReadToken()
	if err != nil {
		return nil, err
	}
	if tokens.StackDepth() > maxDepth {
		return nil, fmt.Errorf("the body is nested deeper than %d", maxDepth)
	}
	switch token.Kind() {
	case jsontext.KindBeginObject:
		return readObject(tokens)
	case jsontext.KindBeginArray:
		return readArray(tokens)
	case jsontext.KindString:
		return token.String(), nil
	case jsontext.KindNumber:
		number := json.Number(token.String())
		return number, checkNumber(number)
	case jsontext.KindTrue, jsontext.KindFalse:
		return token.Bool(), nil
	default: // the decoder allows nothing else here
		return nil, nil
	}
}

func readObject(tokens *jsontext.Decoder) (map[string]any, error) {
	object := map[string]any{}
	for tokens.PeekKind() != jsontext.KindEndObject {
		name, err := tokens.ReadToken()
		if err != nil {
			return nil, err
		}
		text := name.String() // the next token overwrites it
		if object[text], err = readValue(tokens); err != nil {
			return nil, err
		}
	}
	_, err := tokens.ReadToken()
	return object, err
}

func readArray(tokens *jsontext.Decoder) ([]any, error) {
	array := []any{}
	for tokens.PeekKind() != jsontext.KindEndArray {
		value, err := readValue(tokens)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	_, err := tokens.ReadToken()
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
