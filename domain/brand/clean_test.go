package brand_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
)

func TestOverride_ValueThatCrawlsCannotFind_IsRejectedAndNeverServed(t *testing.T) {
	for _, c := range []struct{ field, value, want string }{
		{"links", `[{"name":"x","url":"javascript:alert(1)"}]`, "http or https"},
		{"links", `[{"name":"x","url":"data:text/html,x"}]`, "http or https"},
		{"links", `[{"name":"x","url":"https://user:secret@x.com/acme"}]`, "user name"},
		{"og_image", `"vbscript:x"`, "http or https"},
		{"name", `"Ac\u202eme"`, "U+202E"},
		{"description", `"a\u0007b"`, "U+0007"},
		{"long_description", `"one\ntwo\u202e"`, "U+202E"},
		{"links", `[{"name":"twitter","url":"https://x.com/\u202eacme"}]`, "hidden"},
		{"fonts", `[{"name":"Int\u202eer","type":"body","origin":"google","origin_id":null,"weights":[400]}]`, "U+202E"},
		{"company", `{"employees":null,"founded_year":null,"kind":null,"location":{"city":"\u202egnp.exe","state":null,"country":null,"country_code":null,"region":null,"subregion":null},"industries":[],"ticker":null,"tickers":[]}`, "U+202E"},
	} {
		b := brand.New("acme.com")
		name := "Acme"
		imported, err := b.Import(brand.Import{Source: "test 1", Record: eventschemas.Record{Name: &name}})
		if err != nil {
			t.Fatal(err)
		}
		for i, ev := range imported {
			b.Apply(ev, uint64(i), time.Unix(0, 0))
		}
		if _, err := b.Override(c.field, json.RawMessage(c.value), ""); !errors.Is(err, brand.ErrInvalidField) || !strings.Contains(err.Error(), c.field) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %s: %v, want a reason with %q", c.field, c.value, err, c.want)
		}
		// An earlier release has accepted it.
		b.Apply(eventschemas.FieldOverridden{Field: c.field, Value: json.RawMessage(c.value)}, 9, time.Unix(0, 0))
		served, err := json.Marshal(b.View().Record)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"javascript", "data:", "secret", "vbscript", "\u202e", `\u0007`} {
			if strings.Contains(string(served), bad) {
				t.Errorf("%s = %s is served as %s", c.field, c.value, served)
			}
		}
	}
}

func TestReason_EmailAddress_IsRefusedUnlessRecorded(t *testing.T) {
	b := brand.New("acme.com")
	name, reason := "Acme", "its owner, ann@example.com, asked"
	imported, err := b.Import(brand.Import{Source: "test 1", Record: eventschemas.Record{Name: &name}})
	if err != nil {
		t.Fatal(err)
	}
	for i, ev := range imported {
		b.Apply(ev, uint64(i), time.Unix(0, 0))
	}
	refused := func(_ []eventschemas.Event, err error) {
		t.Helper()
		if !errors.Is(err, brand.ErrInvalidField) || !strings.Contains(err.Error(), "the reason holds an e-mail address") {
			t.Errorf("the error is %v", err)
		}
	}
	refused(b.Override("name", json.RawMessage(`"Acme Inc."`), reason))
	refused(b.Withdraw(reason))
	b.Apply(eventschemas.FieldOverridden{Field: "name", Value: json.RawMessage(`"Acme Inc."`), Reason: reason}, 9, time.Unix(0, 0))
	if repeated, err := b.Override("name", json.RawMessage(`"Acme Inc."`), reason); err != nil || len(repeated) > 0 {
		t.Errorf("the repeat of a recorded override: %v, %v", repeated, err)
	}
}
