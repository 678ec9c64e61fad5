package readapi

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"letterhead/internal/web"
)

const (
	// maxBatchIdentifiers is the documented limit, whatever the plan.
	maxBatchIdentifiers = 100
	// maxBatchBody limits the body: a hundred URLs of 2 KiB and their separators.
	maxBatchBody = 256 << 10
)

// batchExample is shown in messages.
const batchExample = `{"identifiers":["acme.com"]}`

// parseBatch reads the identifiers of a BatchRequest. It ignores unknown fields, but the text must be unambiguous JSON:
// a duplicate name in an object, or text that is not UTF-8, is rejected, because other parsers may read it differently.
func parseBatch(body []byte) ([]string, *Problem) {
	if len(body) == 0 {
		return nil, web.Invalid("The body is empty. Send a JSON object such as %s.", batchExample)
	}
	var sent struct {
		Identifiers jsontext.Value `json:"identifiers"`
	}
	var syntax *jsontext.SyntacticError
	err := json.Unmarshal(body, &sent)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return nil, web.Invalid("An object in the JSON body has the same field more than once. Send each field once.")
	case errors.As(err, &syntax):
		return nil, web.Invalid(
			"The body is not valid JSON in UTF-8; the first error is at byte %d. Send an object such as %s.",
			syntax.ByteOffset, batchExample)
	case err != nil || jsontext.Value(body).Kind() != jsontext.KindBeginObject:
		return nil, web.Invalid("The body is JSON, but not an object. Send one such as %s.", batchExample)
	case sent.Identifiers == nil:
		return nil, web.Invalid("The field identifiers is missing. Send an object such as %s.", batchExample)
	case sent.Identifiers.Kind() != jsontext.KindBeginArray:
		return nil, web.Invalid("The field identifiers is not a list. Send an object such as %s.", batchExample)
	}
	var items []jsontext.Value
	if err := json.Unmarshal(sent.Identifiers, &items); err != nil {
		return nil, internalError(err) // it was parsed as part of the body
	}
	switch {
	case len(items) == 0:
		return nil, web.Invalid("The list identifiers is empty. Send 1 to %d identifiers.", maxBatchIdentifiers)
	case len(items) > maxBatchIdentifiers:
		return nil, web.Invalid("The list identifiers has %d items. Send at most %d.", len(items), maxBatchIdentifiers)
	}
	identifiers := make([]string, len(items))
	for i, item := range items {
		if item.Kind() != jsontext.KindString {
			return nil, web.Invalid(
				"identifiers[%d] is not a string. Send domains, URLs, e-mail addresses or brand ids as strings.", i)
		}
		text, err := jsontext.AppendUnquote(nil, item)
		if err != nil {
			return nil, internalError(err)
		}
		identifiers[i] = string(text)
	}
	return identifiers, nil
}
