package eventschemas_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// greeted is an event with three versions: version 1 has one name, version 2 has two, and version 3 adds a count.
type greeted struct {
	First string `json:"first"`
	Last  string `json:"last"`
	Times int64  `json:"times"`
}

func (greeted) EventType() string { return "Greeted" }

// The data formats of the previous release and of this one.
const before, now = eventschemas.Format - 1, eventschemas.Format

// change returns a Change whose upcaster calls edit with the fields. If edit is nil it has no upcaster.
func change(format int, edit func(map[string]any)) eventschemas.Change {
	c := eventschemas.Change{Format: format, Down: func(ev eventschemas.Event) any {
		return map[string]any{"first": ev.(greeted).First, "last": ev.(greeted).Last}
	}}
	if edit == nil {
		return c
	}
	c.Up = func(data []byte) ([]byte, error) {
		var fields map[string]any
		if err := json.Unmarshal(data, &fields); err != nil {
			return nil, err
		}
		edit(fields)
		return json.Marshal(fields)
	}
	return c
}

func splitName(fields map[string]any) {
	first, last, _ := strings.Cut(fmt.Sprint(fields["name"]), " ")
	delete(fields, "name")
	fields["first"], fields["last"] = first, last
}

func countOne(fields map[string]any) { fields["times"] = 1 }

func schemaText(eventType string, version int, required ...string) *fstest.MapFile {
	names, _ := json.Marshal(required)
	return &fstest.MapFile{Data: fmt.Appendf(nil,
		`{"$id":"https://letterhead.invalid/events/%s.v%d.json","title":%q,"type":"object","required":%s}`,
		eventType, version, eventType, names)}
}

func greetedSchemas() fstest.MapFS {
	return fstest.MapFS{
		"Greeted.v1.json": schemaText("Greeted", 1, "name"),
		"Greeted.v2.json": schemaText("Greeted", 2, "first", "last"),
		"Greeted.v3.json": schemaText("Greeted", 3, "first", "last", "times"),
	}
}

func TestDecode_EveryOldVersion_IsUpcast(t *testing.T) {
	r := eventschemas.NewRegistry(greetedSchemas(), eventschemas.Define[greeted](change(before, splitName), change(now, countOne)))
	testmust.Succeed(t, r.Check())
	for version, data := range map[int]string{
		1: `{"name":"Ada Lovelace"}`,
		2: `{"first":"Ada","last":"Lovelace"}`,
		3: `{"first":"Ada","last":"Lovelace","times":1}`,
	} {
		if err := r.ValidateJSON("Greeted", version, []byte(data)); err != nil {
			t.Error(err)
		}
		got, err := r.Decode("Greeted", version, []byte(data))
		if want := (greeted{"Ada", "Lovelace", 1}); err != nil || got != eventschemas.Event(want) {
			t.Errorf("version %d: got %+v, %v", version, got, err)
		}
	}
	encoded, err := r.Encode(greeted{"Ada", "Lovelace", 2})
	if err != nil || encoded.SchemaVersion != 3 || string(encoded.Data) != `{"first":"Ada","last":"Lovelace","times":2}` {
		t.Errorf("got %+v, %v", encoded, err)
	}
	if err := r.ValidateJSON("Greeted", 2, []byte(`{"name":"Ada"}`)); !errors.Is(err, eventschemas.ErrSchemaViolation) {
		t.Errorf("ValidateJSON of a version 1 body as version 2: %v", err)
	}
	for _, version := range []int{0, -1, 4} {
		if _, err := r.Decode("Greeted", version, []byte(`{}`)); !errors.Is(err, eventschemas.ErrUnknownVersion) {
			t.Errorf("version %d: %v", version, err)
		}
	}
	if _, err := r.Decode("Greeted", 1, []byte(`{"name":`)); !errors.Is(err, eventschemas.ErrDamaged) {
		t.Errorf("Decode of a damaged old body: %v", err)
	}
}

// Event types that Check must reject.
type (
	unnamed struct{}
	withMap struct {
		M map[string]int `json:"m"`
	}
	withAny struct {
		A any `json:"a"`
	}
	withoutTag   struct{ A string }
	withPrivate  struct{ a string } //lint:ignore U1000 the test needs a private field
	withLostData struct {
		A string `json:"-"`
	}
	twin struct{}
)

func (unnamed) EventType() string      { return "" }
func (withMap) EventType() string      { return "Greeted" }
func (withAny) EventType() string      { return "Greeted" }
func (withoutTag) EventType() string   { return "Greeted" }
func (withPrivate) EventType() string  { return "Greeted" }
func (withLostData) EventType() string { return "Greeted" }
func (twin) EventType() string         { return "Greeted" }

func TestCheck_ReportsIncompleteDefinitions(t *testing.T) {
	two := eventschemas.Define[greeted](change(before, splitName), change(now, countOne))
	one := fstest.MapFS{"Greeted.v1.json": schemaText("Greeted", 1)}
	for name, c := range map[string]struct {
		files       fstest.MapFS
		definitions []eventschemas.Definition
		says        []string
	}{
		"a gap in the chain": {greetedSchemas(), []eventschemas.Definition{eventschemas.Define[greeted](change(before, nil), change(now, countOne))}, []string{"no upcaster from version 1 to 2"}},
		"two gaps":           {greetedSchemas(), []eventschemas.Definition{eventschemas.Define[greeted](change(before, nil), change(now, nil))}, []string{"version 1 to 2", "version 2 to 3"}},
		"no Down": {greetedSchemas(), []eventschemas.Definition{eventschemas.Define[greeted](change(before, splitName), eventschemas.Change{
			Format: now, Up: func(data []byte) ([]byte, error) { return data, nil },
		})}, []string{"no Down from version 3 to 2"}},
		"a format that is not this release's": {greetedSchemas(), []eventschemas.Definition{eventschemas.Define[greeted](change(before, splitName), change(now+1, countOne))}, []string{"version 3 begins with data format"}},
		"two versions of one format":          {greetedSchemas(), []eventschemas.Definition{eventschemas.Define[greeted](change(now, splitName), change(now, countOne))}, []string{"version 3 begins with data format"}},
		"a type of a later format":            {one, []eventschemas.Definition{eventschemas.Define[greeted]().From(now + 1)}, []string{"Greeted begins with data format"}},
		"no schema":                           {fstest.MapFS{"Greeted.v2.json": schemaText("Greeted", 2)}, []eventschemas.Definition{two}, []string{"version 1 has no schema", "version 3 has no schema"}},
		"schema of another type": {fstest.MapFS{"Greeted.v1.json": schemaText("Farewell", 1)}, []eventschemas.Definition{eventschemas.Define[greeted]()},
			[]string{`title "Farewell"`}},
		"schema with another title": {fstest.MapFS{"Greeted.v1.json": {Data: []byte(`{"$id":"https://letterhead.invalid/events/Greeted.v1.json","title":"Farewell"}`)}},
			[]eventschemas.Definition{eventschemas.Define[greeted]()}, []string{`title "Farewell"`}},
		"schema with another $id": {fstest.MapFS{"Greeted.v1.json": {Data: []byte(`{"$id":"https://letterhead.invalid/events/Greeted.v2.json","title":"Greeted"}`)}},
			[]eventschemas.Definition{eventschemas.Define[greeted]()}, []string{"Greeted.v2.json"}},
		"a schema that is not JSON": {fstest.MapFS{"Greeted.v1.json": {Data: []byte("{")}}, []eventschemas.Definition{eventschemas.Define[greeted]()}, []string{"Greeted.v1.json"}},
		"no name":                   {one, []eventschemas.Definition{eventschemas.Define[unnamed]()}, []string{"no wire name"}},
		"one name twice":            {one, []eventschemas.Definition{eventschemas.Define[twin](), eventschemas.Define[greeted]()}, []string{"defined twice"}},
		"a map":                     {one, []eventschemas.Definition{eventschemas.Define[withMap]()}, []string{"map"}},
		"an interface":              {one, []eventschemas.Definition{eventschemas.Define[withAny]()}, []string{"interface"}},
		"no JSON name":              {one, []eventschemas.Definition{eventschemas.Define[withoutTag]()}, []string{"no JSON name"}},
		"a private field":           {one, []eventschemas.Definition{eventschemas.Define[withPrivate]()}, []string{"no JSON name"}},
		"a field that is not kept":  {one, []eventschemas.Definition{eventschemas.Define[withLostData]()}, []string{"decodes to a different value"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := eventschemas.NewRegistry(c.files, c.definitions...).Check()
			if err == nil {
				t.Fatal("Check found no error")
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error %q does not contain %q", err, part)
				}
			}
		})
	}
}

func TestCheck_ThisRelease(t *testing.T) {
	testmust.Succeed(t, eventschemas.Check())
	types := eventschemas.Types()
	if len(types) != len(eventschemas.Definitions()) || !slices.IsSorted(types) {
		t.Fatalf("%d types: %v", len(types), types)
	}
	types[0] = "changed"
	if eventschemas.Types()[0] == "changed" {
		t.Fatal("a caller can modify the result of Types")
	}
	if v := eventschemas.Current().Version("Nothing"); v != 0 {
		t.Fatalf("Version of an unknown type = %d, want 0", v)
	}
}

func TestUnknownTypesAreRejected(t *testing.T) {
	for name, err := range map[string]error{
		"decode": func() error { _, err := eventschemas.Decode("CreditsDoubled", 1, []byte(`{}`)); return err }(),
		"encode": func() error { _, err := eventschemas.Encode(greeted{}); return err }(),
		"valid":  eventschemas.ValidateJSON("CreditsDoubled", 1, []byte(`{}`)),
		"nil":    func() error { _, err := eventschemas.Encode(nil); return err }(),
		"nil pointer": func() error {
			_, err := eventschemas.Encode((*eventschemas.CreditsCharged)(nil))
			return err
		}(),
		"pointer": func() error { _, err := eventschemas.Encode(&eventschemas.CreditsCharged{}); return err }(),
	} {
		if !errors.Is(err, eventschemas.ErrUnknownType) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := eventschemas.ValidateJSON("CreditsCharged", 3, []byte(`{}`)); !errors.Is(err, eventschemas.ErrUnknownVersion) {
		t.Error(err)
	}
}

func TestDamagedBodiesAreErrors(t *testing.T) {
	for name := range golden {
		eventType, version := typeAndVersion(t, name)
		data := readGolden(t, name)
		damaged := [][]byte{nil, {}, []byte("null"), []byte("[]"), []byte(`"x"`), []byte("7"), []byte("\x00"), append(bytes.Clone(data), '}'), append(bytes.Clone(data), data...)}
		for cut := range data {
			damaged = append(damaged, data[:cut])
		}
		for _, body := range damaged {
			if ev, err := eventschemas.Decode(eventType, version, body); !errors.Is(err, eventschemas.ErrDamaged) {
				t.Fatalf("%s: Decode(%q) = %+v, %v", name, body, ev, err)
			}
		}
		for _, body := range [][]byte{nil, []byte("{"), data[:len(data)-1], append(bytes.Clone(data), data...)} {
			if err := eventschemas.ValidateJSON(eventType, version, body); !errors.Is(err, eventschemas.ErrDamaged) {
				t.Fatalf("%s: ValidateJSON(%q) = %v", name, body, err)
			}
		}
	}
}

func TestWrongKindsAreErrors(t *testing.T) {
	for eventType, body := range map[string]string{
		"CreditsCharged": `{"credits":"1"}`,
		"CreditsHeld":    `{"deadline":"yesterday"}`,
		"CreditsGranted": `{"credits":99999999999999999999}`,
		"CrawlRequested": `{"allowed_ms":8.5}`,
		"CrawlSucceeded": `{"record":{"logos":{}}}`,
		"UsageTicked":    `{"entries":[{"searches":true}]}`,
	} {
		if ev, err := eventschemas.Decode(eventType, 1, []byte(body)); !errors.Is(err, eventschemas.ErrDamaged) {
			t.Errorf("Decode(%s, %s) = %+v, %v", eventType, body, ev, err)
		}
	}
}

func TestUnknownFieldsAreIgnoredByDecodeOnly(t *testing.T) {
	body := []byte(`{"key_id":"k","extra":{"a":[1,2,{"b":null}]}}`)
	got, err := eventschemas.Decode("KeyRevoked", 1, body)
	if err != nil || got != eventschemas.Event(eventschemas.KeyRevoked{KeyID: "k"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := eventschemas.ValidateJSON("KeyRevoked", 1, body); !errors.Is(err, eventschemas.ErrSchemaViolation) {
		t.Error(err)
	}
}

func TestEncode_InvalidJSON_Fails(t *testing.T) {
	for _, ev := range []eventschemas.Event{
		eventschemas.FieldOverridden{Field: "name", Value: eventschemas.JSONText(`{`)},
		eventschemas.CrawlSucceeded{Record: eventschemas.Record{QualityScore: math.NaN()}},
	} {
		if encoded, err := eventschemas.Encode(ev); !errors.Is(err, eventschemas.ErrNotEncodable) {
			t.Errorf("Encode(%+v) = %s, %v", ev, encoded.Data, err)
		}
	}
}

func TestEncode_UnnormalizedValue_IsNotModified(t *testing.T) {
	logos := []eventschemas.Logo{{Type: "icon"}}
	fonts := []eventschemas.Font{{Name: "Inter"}}
	company := &eventschemas.Company{}
	keys := []eventschemas.KeyUsed{{KeyID: "k", At: moment.In(time.FixedZone("UTC-5", -5*3600)).Add(789)}}
	encoded, err := eventschemas.Encode(eventschemas.CrawlSucceeded{Record: eventschemas.Record{Logos: logos, Fonts: fonts, Images: []eventschemas.Image{{}}, Company: company}})
	testmust.Succeed(t, err)
	for _, list := range []string{"links", "colors", "formats", "tags", "weights", "industries", "tickers", "evidence"} {
		if !bytes.Contains(encoded.Data, []byte(`"`+list+`":[]`)) {
			t.Errorf("%s is not []: %s", list, encoded.Data)
		}
	}
	if logos[0].Formats != nil || fonts[0].Weights != nil || company.Industries != nil {
		t.Error("Encode modified the caller's record")
	}
	encoded, err = eventschemas.Encode(eventschemas.UsageTicked{Entries: []eventschemas.UsageEntry{{KeysUsed: keys}, {KeysUsed: []eventschemas.KeyUsed{}}}})
	testmust.Succeed(t, err)
	const want = `{"entries":[{"account_id":"","month":"","keys_used":[{"key_id":"k","at":"2026-11-21T08:44:01.234567Z"}]},{"account_id":"","month":""}]}`
	if string(encoded.Data) != want || keys[0].At.Nanosecond() != 234567789 {
		t.Errorf("Encode = %s, and the caller's time is %s", encoded.Data, keys[0].At)
	}
}

func TestEncode_Times_AreUTCMicroseconds(t *testing.T) {
	local := moment.In(time.FixedZone("UTC+2", 7200)).Add(999)
	encoded, err := eventschemas.Encode(eventschemas.CreditsHeld{Deadline: local})
	if err != nil || !bytes.Contains(encoded.Data, []byte(`"deadline":"2026-11-21T08:44:01.234567Z"`)) {
		t.Errorf("%s, %v", encoded.Data, err)
	}
}

func TestEncodingTwiceGivesTheSameBytes(t *testing.T) {
	for name, ev := range golden {
		first := testmust.Get(eventschemas.Encode(ev))(t)
		back := testmust.Get(eventschemas.Decode(first.Type, first.SchemaVersion, first.Data))(t)
		again, err := eventschemas.Encode(back)
		if err != nil || !reflect.DeepEqual(again, first) {
			t.Errorf("%s: %s, then %s, %v", name, first.Data, again.Data, err)
		}
	}
}

func TestEncoder_NewType_WaitsForFinishedUpgrade(t *testing.T) {
	r := eventschemas.NewRegistry(fstest.MapFS{"Greeted.v1.json": schemaText("Greeted", 1)}, eventschemas.Define[greeted]().From(now))
	testmust.Succeed(t, r.Check())
	format := before
	encoder := eventschemas.EncoderOf(r, func() int { return format })
	if _, err := encoder.Encode(greeted{}); !errors.Is(err, eventschemas.ErrNotYet) {
		t.Errorf("Encode before the upgrade is finished: %v", err)
	}
	format = now
	if _, err := encoder.Encode(greeted{}); err != nil {
		t.Errorf("Encode after the upgrade is finished: %v", err)
	}
}
