package mcp

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
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

var (
	errNoJSON        = errors.New("the body is not JSON in UTF-8")
	errDuplicateName = errors.New("an object in the body has a name twice")
	errDepth         = fmt.Errorf("the body is nested deeper than %d", maxDepth)
	errRange         = errors.New("a number in the body is out of range")
)

// readJSON parses one JSON text (RFC 8259) more strictly than encoding/json: UTF-8 only, no unpaired
// surrogates, no duplicate names in an object, no nesting deeper than maxDepth, numbers within the
// range of a double. It rejects input that another parser may interpret differently, because a proxy
// that checks requests may use such a parser. Numbers are json.Number, as spelled by the caller.
func readJSON(text []byte) (value any, err error) {
	err = json.Unmarshal(text, &value, strict)
	switch {
	case err == nil:
		return value, nil
	case errors.Is(err, jsontext.ErrDuplicateName):
		return nil, errDuplicateName
	case errors.Is(err, errDepth):
		return nil, errDepth
	case errors.Is(err, errRange):
		return nil, errRange
	default:
		return nil, errNoJSON
	}
}

// strict checks the depth of objects and arrays, and reads numbers as json.Number.
var strict = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, value *any) error {
	switch d.PeekKind() {
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
		if d.StackDepth() >= maxDepth {
			return errDepth
		}
	case jsontext.KindNumber:
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		number := stdjson.Number(token.String())
		*value = number
		return checkNumber(number.String())
	}
	return errors.ErrUnsupported // unmarshal in the default way
}))

func checkNumber(number string) error {
	if i := strings.IndexAny(number, "eE"); i >= 0 && len(strings.TrimLeft(number[i+1:], "+-")) > maxExponentDigits {
		return errRange
	}
	if _, err := strconv.ParseFloat(number, 64); err != nil {
		return errRange
	}
	return nil
}
