package readapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestParseBatch_InvalidBody_NamesTheFault(t *testing.T) {
	many := `{"identifiers":["` + strings.Repeat(`a.com","`, 100) + `b.com"]}`
	for _, c := range []struct{ name, body, says string }{
		{"nothing", "", "empty"},
		{"spaces", "  ", "byte"},
		{"no JSON", "identifiers=acme.com", "byte 0"},
		{"cut off", `{"identifiers":["acme.com"`, "byte"},
		{"more after it", `{"identifiers":["acme.com"]} {}`, "byte 29"},
		{"comma after it", `{"identifiers":["acme.com"],}`, "byte"},
		{"two at once", `{"identifiers":["acme.com"]}{"identifiers":["acme.com"]}`, "byte"},
		{"null", "null", "not an object"},
		{"a list", `["acme.com"]`, "not an object"},
		{"a string", `"acme.com"`, "not an object"},
		{"no field", `{}`, "identifiers is missing"},
		{"another field", `{"domains":["acme.com"]}`, "identifiers is missing"},
		{"another case", `{"Identifiers":["acme.com"]}`, "identifiers is missing"},
		{"null for a list", `{"identifiers":null}`, "not a list"},
		{"string for a list", `{"identifiers":"acme.com"}`, "not a list"},
		{"object for a list", `{"identifiers":{"0":"acme.com"}}`, "not a list"},
		{"the field twice", `{"identifiers":["acme.com"],"identifiers":["other.com"]}`, "more than once"},
		{"the field twice by an escape", `{"identifiers":["acme.com"],"\u0069dentifiers":["other.com"]}`, "more than once"},
		{"no items", `{"identifiers":[]}`, "empty"},
		{"too many", many, "101 items"},
		{"a number", `{"identifiers":["a.com","b.com","c.com",7]}`, "identifiers[3] is not a string"},
		{"null among them", `{"identifiers":[null]}`, "identifiers[0] is not a string"},
		{"a list among them", `{"identifiers":["a.com",["b.com"]]}`, "identifiers[1] is not a string"},
		{"an object among them", `{"identifiers":["a.com",{"domain":"b.com"}]}`, "identifiers[1] is not a string"},
		{"a bool among them", `{"identifiers":[true]}`, "identifiers[0] is not a string"},
		{"broken UTF-8", "{\"identifiers\":[\"acme\xff.com\"]}", "UTF-8"},
		{"half a surrogate pair", `{"identifiers":["\ud800.com"]}`, "UTF-8"},
		{"UTF-16", "{\x00\"\x00i\x00", "byte 1"},
		{"deep", `{"x":` + strings.Repeat("[", maxBatchBody-10), "byte"},
		{"deep and whole", `{"identifiers":["a.com"],"x":` + strings.Repeat("[", 60_000) + strings.Repeat("]", 60_000) + `}`, "byte"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, p := parseBatch([]byte(c.body))
			if p == nil || p.Status != http.StatusBadRequest || p.Code != CodeInvalidRequest || !strings.Contains(p.Text, c.says) {
				t.Errorf("%+v, want a message with %q", p, c.says)
			}
		})
	}
}

func TestParseBatch_Identifiers_AreUnchanged(t *testing.T) {
	for _, c := range []struct {
		body string
		want []string
	}{
		{`{"identifiers":["acme.com"]}`, []string{"acme.com"}},
		{" {\t\"identifiers\" :\r\n[ \"acme.com\" , \"\" ] }\n", []string{"acme.com", ""}},
		{`{"x":{"identifiers":[1],"y":[[]]},"identifiers":["m\u00fcller.de","\ud83d\ude00","a\\b\"\n<&>"],"z":1e400}`, []string{"müller.de", "😀", "a\\b\"\n<&>"}},
	} {
		got, p := parseBatch([]byte(c.body))
		if p != nil || !slices.Equal(got, c.want) {
			t.Errorf("body %s: %q, %v; want %q", c.body, got, p, c.want)
		}
	}
}

// Every body is read as the standard library reads it, or is a 400 with a reason.
func FuzzBatchBody(f *testing.F) {
	for _, seed := range []string{
		`{"identifiers":["acme.com","müller.de"]}`, `{"identifiers":[]}`, `{"identifiers":["a",1]}`, `{"identifiers":["a"],"identifiers":["b"]}`,
		`{"identifiers":"a"}`, `[[[[`, `{"identifiers":["\ud83d\ude00"],"x":{"y":[null]}}`, "{\"identifiers\":[\"\xff\"]}", `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, p := parseBatch(body)
		if p != nil {
			if p.Status != http.StatusBadRequest || p.Code != CodeInvalidRequest || p.Text == "" || got != nil {
				t.Fatalf("%q: %+v with %q", body, p, got)
			}
			return
		}
		if len(got) == 0 || len(got) > maxBatchIdentifiers {
			t.Fatalf("%q: %d identifiers", body, len(got))
		}
		var plain map[string]json.RawMessage // its keys are case-sensitive, those of a struct are not
		var want []string
		if err := errors.Join(json.Unmarshal(body, &plain), json.Unmarshal(plain["identifiers"], &want)); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: parsed as %q, by encoding/json as %q (%v)", body, got, want, err)
		}
	})
}
