package readapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"letterhead/readapi/openapi"
)

// Values that a schema allows and values that it does not. They are not distinguished here: a
// validator later decides for each whether the schema allows it.

// oddTexts are tried for every text parameter.
var oddTexts = []string{
	"", " ", "null", "undefined", "[]", "{}", "0", "-1", "%", "%2e%2e%2f", "../../etc/passwd", "a b", " acme.com ", "a\tb", "a\r\nX: y", "a\x00b",
	"\xff\xfe", "a\xc0\xafb", "\xed\xa0\x80", "é.com", "e\u0301.com", "品牌", "😀", "\u200b", "\u202eacme.com", "<script>", "' OR 1=1 --", "${jndi:x}",
	"*", "?", "#", "&a=b", "+", ";", ",", "a,b", `"`, `\`, "http://", "mailto:a@b.com", "ACME.COM", ".", "..", "1.2.3.4", "[::1]", "localhost",
}

// fillers extend a text to a length: letters of one to four bytes, and some that no host contains.
var fillers = []rune{'a', '/', ' ', 'é', '品', '😀'}

// longFiller is the number of letters up to which all of a filling may take several bytes: escaped,
// each byte becomes three in a URL, and a URL has to stay below net/http's limit.
const longFiller = 300

// filled returns a text cut or extended to n letters.
func filled(text string, n int, filler rune) string {
	runes := []rune(text)
	for len(runes) < n {
		if n > longFiller && utf8.RuneLen(filler) > 1 && len(runes) < n-5 {
			runes = append(runes, 'a')
			continue
		}
		runes = append(runes, filler)
	}
	return string(runes[:max(n, 0)])
}

// textsOf returns values of a parameter as written in a request, from its schema and known valid
// values.
func textsOf(s *openapi.Schema, good []string) []string {
	all := slices.Clone(good)
	add := func(more ...string) { all = append(all, more...) }
	for _, v := range s.Enum {
		text := fmt.Sprint(v)
		add(text, text+"x", "x"+text, strings.ToUpper(text)+"Z", text[:len(text)-1])
	}
	for _, kind := range s.Types {
		switch kind {
		case "boolean":
			add("true", "false", "TRUE", "yes", "on", "2", "-1", "", "null", "truefalse", "true ", "\xff")
		case "integer", "number":
			for _, n := range numbersOf(s) {
				add(n.String())
			}
			add("", "x", "null", "true", "0x1", "1_0", "1,5", " 1", "1 ", "１", "--1", "1;2", "\xff", "NaN", "Infinity")
		case "string":
			add(oddTexts...)
			for _, g := range good {
				for _, filler := range fillers {
					for _, n := range lengthsOf(s) {
						add(filled(g, n, filler))
					}
				}
				if (s.Pattern != "" || s.Format != "") && g != "" {
					add(strings.ToUpper(g), g+"x", "x"+g, g[1:], g[:len(g)-1], g+"\n", strings.ReplaceAll(g, "-", ""), "{"+g+"}", "urn:uuid:"+g)
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// lengthsOf returns lengths of a text at the limits and one beyond; some other lengths if there are
// none.
func lengthsOf(s *openapi.Schema) []int {
	lengths := []int{64, 2000}
	if s.MinLength != nil {
		lengths = append(lengths, *s.MinLength-1, *s.MinLength)
	}
	if s.MaxLength != nil {
		lengths = append(lengths[2:], *s.MaxLength-1, *s.MaxLength, *s.MaxLength+1)
	}
	return lengths
}

// numbersOf returns numbers at the limits and one beyond, and some that do not fit into machine words.
func numbersOf(s *openapi.Schema) []json.Number {
	all := []json.Number{"0", "-1", "1.5", "2147483648", "9223372036854775808", "18446744073709551616", "-9223372036854775809", "99999999999999999999999"}
	for _, bound := range []*float64{s.Minimum, s.Maximum} {
		if bound != nil {
			for n := int64(*bound) - 1; n <= int64(*bound)+1; n++ {
				all = append(all, json.Number(strconv.FormatInt(n, 10)))
			}
		}
	}
	return all
}

// variant is a JSON value with one difference from another.
type variant struct {
	name  string
	value any
}

// maxVariantDepth limits the depth of changes in a body.
const maxVariantDepth = 6

// variantsOf changes one thing of a JSON value at a time, at every depth: types, lengths, numbers,
// missing and additional fields. The schema is nil if the document has none.
func variantsOf(s *openapi.Schema, value any, depth int) []variant {
	if depth > maxVariantDepth {
		return nil
	}
	if s == nil {
		s = &openapi.Schema{}
	}
	var all []variant
	add := func(name string, v any) { all = append(all, variant{name, v}) }
	for _, other := range []any{nil, true, json.Number("0"), json.Number("1.5"), json.Number("-1"), "", "x", []any{}, []any{nil}, map[string]any{}} {
		add(" is "+encodedJSON(other), other)
	}
	for _, branch := range s.OneOf {
		if len(s.Properties) == 0 && slices.Contains(branch.Types, kindOfJSON(value)) {
			return append(all, variantsOf(branch, value, depth)...)
		}
	}
	for _, v := range s.Enum {
		add(" is "+encodedJSON(v), v)
	}
	switch value := value.(type) {
	case map[string]any:
		return append(all, objectVariants(s, value, depth)...)
	case []any:
		return append(all, arrayVariants(s, value, depth)...)
	case string:
		for _, text := range oddTexts {
			if utf8.ValidString(text) { // a body that is not UTF-8 is not JSON, which is tried as a whole
				add(fmt.Sprintf(" is %q", text), text)
			}
		}
		for _, n := range lengthsOf(s) {
			add(fmt.Sprintf(" has %d letters", n), filled(value, n, '品'))
		}
	case json.Number:
		for _, n := range numbersOf(s) {
			add(" is "+n.String(), n)
		}
	}
	return all
}

func objectVariants(s *openapi.Schema, object map[string]any, depth int) []variant {
	var all []variant
	with := func(name, field string, v any) {
		changed := maps.Clone(object)
		changed[field] = v
		all = append(all, variant{name, changed})
	}
	fields := map[string]*openapi.Schema{}
	for field := range object {
		fields[field] = nil
	}
	for _, p := range s.Properties {
		fields[p.Name] = p.Schema
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if _, there := object[field]; there {
			without := maps.Clone(object)
			delete(without, field)
			all = append(all, variant{" without " + field, without})
		}
		for _, v := range variantsOf(fields[field], object[field], depth+1) {
			with("."+field+v.name, field, v.value)
		}
	}
	with(" with an unknown field", "surprise", map[string]any{"a": []any{json.Number("1"), nil}})
	with(" with a field without a name", "", "x")
	return all
}

func arrayVariants(s *openapi.Schema, array []any, depth int) []variant {
	var all []variant
	lengths := []int{0, 1, 2}
	for _, bound := range []*int{s.MinItems, s.MaxItems} {
		if bound != nil {
			lengths = append(lengths, *bound-1, *bound, *bound+1)
		}
	}
	for _, n := range lengths {
		if n < 0 || len(array) == 0 {
			continue
		}
		filled := make([]any, n)
		for i := range filled {
			filled[i] = array[i%len(array)]
		}
		all = append(all, variant{fmt.Sprintf(" has %d items", n), filled})
	}
	if len(array) == 0 {
		return all
	}
	last := len(array) - 1
	for _, v := range variantsOf(s.Items, array[last], depth+1) {
		changed := slices.Clone(array)
		changed[last] = v.value
		all = append(all, variant{fmt.Sprintf("[%d]%s", last, v.name), changed})
	}
	return all
}

func kindOfJSON(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	default:
		return "object"
	}
}

func encodedJSON(v any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // the value was decoded from JSON, or written above
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// brokenBodies returns texts derived from a valid one that are almost JSON, or that parsers disagree
// about. Sizes are those beyond which bodies are rejected here.
func brokenBodies(good string) map[string]string {
	all := map[string]string{
		"nothing but a space": " ", "null": "null", "half of it": good[:len(good)/2], "twice": good + good, "something behind it": good + "x",
		"a comment": "/**/" + good, "single quotes": strings.ReplaceAll(good, `"`, `'`),
		"no UTF-8": strings.Replace(good, `"`, "\"\xff", 1), "UTF-16 without a mark": strings.Join(strings.Split(good, ""), "\x00") + "\x00",
		"a comma too many": strings.TrimSuffix(good, good[len(good)-1:]) + "," + good[len(good)-1:], "a form": "identifiers=acme.com", "XML": "<a/>",
		"NaN": "NaN", "deep brackets": strings.Repeat("[", 20_000), "a text that does not end": `"` + good[:1],
	}
	if rest, ok := strings.CutPrefix(good, "{"); ok {
		all["a field twice"] = `{"surprise":1,"surprise":2,` + rest
		all["a number out of range"] = `{"surprise":1e999,` + rest
		all["a lone surrogate"] = `{"surprise":"\ud800",` + rest
		all["deep and closed"] = `{"surprise":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "," + rest
		all["70 KB"] = `{"surprise":"` + strings.Repeat("x", 70<<10) + `",` + rest
		all["300 KB"] = `{"surprise":"` + strings.Repeat("x", 300<<10) + `",` + rest
	}
	return all
}
