package commands

import (
	"encoding/json"
	"testing"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

// Until an upgrade is finished, events are written in the version of the previous release.
// Rule 8.
func TestOverridesOfTwoVersions_ShareOneStream(t *testing.T) {
	_, log := brandsOnFile(t)
	// The newest version of the event belongs to this format, whatever is new in it.
	format := eventschemas.Format - 1
	newest := eventschemas.Change{Format: eventschemas.Format, Down: func(ev eventschemas.Event) any { return ev }}
	overridden := eventschemas.Define[eventschemas.FieldOverridden](eventschemas.Change{Format: 2}, newest)
	registry := eventschemas.NewRegistry(eventschemas.Schemas(), append(eventschemas.Definitions(), overridden)...)
	b := testmust.Get(NewBrands(BrandsConfig{Events: eventschemas.EncoderOf(registry, func() int { return format })}, log))(t)
	name := "Acme"
	acme := ImportBrand{Request: Request{ID: "i", Actor: "system:starter"}, Domain: "acme.com", Source: "set@1",
		Record: eventschemas.Record{Name: &name}}
	testmust.Succeed(t, testmust.Err(b.ImportBrand(t.Context(), acme)))
	symbols := []string{"ACM", "BRK.B"}
	for _, symbol := range symbols {
		in := OverrideField{Request: Request{ID: symbol, Actor: "operator:a"}, Domain: "acme.com", Field: "company",
			Value: listed(symbol)}
		testmust.Succeed(t, b.OverrideField(t.Context(), in))
		format = eventschemas.Format
	}
	records, err := log.ReadStream(t.Context(), brand.Stream("acme.com"), 1, eventlog.Forward, streamPage)
	if err != nil || len(records) != len(symbols) {
		t.Fatalf("%d overrides, %v", len(records), err)
	}
	for i, record := range records {
		if want := 2 + i; record.SchemaVersion != want {
			t.Errorf("override %d has version %d, want %d", i, record.SchemaVersion, want)
		}
		if err := eventschemas.ValidateJSON(record.Type, record.SchemaVersion, record.Data); err != nil {
			t.Error(err)
		}
		state := testmust.Get(b.StateAt(t.Context(), "acme.com", record.Revision))(t)
		if got := state.View().Record.Company.Tickers; len(got) != 1 || got[0] != symbols[i] {
			t.Errorf("after override %d the tickers are %v, want %s", i, got, symbols[i])
		}
	}
}

// listed is a company with one symbol.
func listed(symbol string) json.RawMessage {
	company := eventschemas.EmptyCompany()
	company.Tickers = []string{symbol}
	value, err := json.Marshal(company)
	if err != nil {
		panic(err)
	}
	return value
}
