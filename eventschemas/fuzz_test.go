package eventschemas_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// FuzzDecode decodes arbitrary bytes as any type. Accepted bytes must be JSON, the standard library
// must decode them to the same value, and encoding and decoding that value must not change it.
func FuzzDecode(f *testing.F) {
	types := eventschemas.Types()
	for name := range golden {
		eventType, _ := typeAndVersion(f, name)
		for i, t := range types {
			if t == eventType {
				f.Add(uint8(i), readGolden(f, name))
			}
		}
	}
	for _, body := range []string{`{`, `null`, `{"a":1e999}`, `{"credits":-0}`, `{"credits":1e3}`, "{\"x\":\"\\ud800\"}", `{"entries":[null]}`, `{"record":{"company":{}}}`} {
		for i := range types {
			f.Add(uint8(i), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		eventType := types[int(which)%len(types)]
		before := string(data)
		ev, err := eventschemas.Decode(eventType, 1, data)
		if string(data) != before {
			t.Fatalf("Decode changed its input to %q", data)
		}
		if err != nil {
			if !errors.Is(err, eventschemas.ErrDamaged) || ev != nil {
				t.Fatalf("%+v, %v", ev, err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatalf("Decode accepted bytes that are not JSON: %q", data)
		}
		standard := reflect.New(reflect.TypeOf(ev))
		if err := json.Unmarshal(data, standard.Interface()); err != nil || !reflect.DeepEqual(standard.Elem().Interface(), any(ev)) {
			t.Fatalf("%q decodes to\n%+v, with the standard library to\n%+v, %v", data, ev, standard.Elem(), err)
		}
		encoded, err := eventschemas.Encode(ev)
		if err != nil {
			if errors.Is(err, eventschemas.ErrNotEncodable) { // a year past 9999, a raw value with a comment
				return
			}
			t.Fatal(err)
		}
		back, err := eventschemas.Decode(encoded.Type, encoded.SchemaVersion, encoded.Data)
		if err != nil {
			t.Fatalf("%s does not decode: %v", encoded.Data, err)
		}
		again, err := eventschemas.Encode(back)
		if err != nil || string(again.Data) != string(encoded.Data) {
			t.Fatalf("%s encodes again as %s, %v", encoded.Data, again.Data, err)
		}
	})
}

// FuzzValidateJSON validates arbitrary bytes against the schemas. Valid bytes must also decode.
func FuzzValidateJSON(f *testing.F) {
	types := eventschemas.Types()
	for name := range golden {
		eventType, _ := typeAndVersion(f, name)
		for i, t := range types {
			if t == eventType {
				f.Add(uint8(i), readGolden(f, name))
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		eventType := types[int(which)%len(types)]
		err := eventschemas.ValidateJSON(eventType, 1, data)
		if err == nil {
			if _, err := eventschemas.Decode(eventType, 1, onceEach(t, data)); err != nil && !schemaIsWider(err) {
				t.Fatalf("a valid %s does not decode: %q: %v", eventType, data, err)
			}
			return
		}
		if !errors.Is(err, eventschemas.ErrDamaged) && !errors.Is(err, eventschemas.ErrSchemaViolation) {
			t.Fatal(err)
		}
	})
}

// onceEach keeps only the last of duplicate fields, as the validator does.
func onceEach(t *testing.T, data []byte) []byte {
	var doc any
	testmust.Succeed(t, json.Unmarshal(data, &doc))
	out := testmust.Get(json.Marshal(doc))(t)
	return out
}

// schemaIsWider reports whether an error is due to a value that JSON Schema allows but Go does not: an integer beyond
// 64 bits, or a time with a leap second or a lower-case t. Encode never writes such values.
func schemaIsWider(err error) bool {
	return strings.Contains(err.Error(), "number") || strings.Contains(err.Error(), "parsing time")
}

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"CreditsCharged.v1", "CreditsCharged.v2", "CreditsCharged.v2.least", "CrawlSucceeded.v1", "UsageTicked.v1"} {
		b.Run(name, func(b *testing.B) {
			eventType, version := typeAndVersion(b, name)
			data := readGolden(b, name)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				testmust.Succeed(b, testmust.Err(eventschemas.Decode(eventType, version, data)))
			}
		})
	}
}
