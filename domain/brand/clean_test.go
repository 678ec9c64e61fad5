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
