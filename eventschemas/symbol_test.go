package eventschemas_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

func TestBareSymbol_FormsOfExchanges_AreSymbols(t *testing.T) {
	for text, want := range map[string]string{
		"NASDAQ:AAPL": "AAPL", "AAPL": "AAPL", "NYSE:BRK.B": "BRK.B", "NYSE: BF-B": "BF-B", "TYO:7203": "7203",
		"HKEX:0700": "0700", "TSE:130A": "130A",
		"RDSA.AS": "RDSA.AS", "LSE:BP.": "BP.", "STO:VOLV B": "VOLV-B", "NSE:M&M": "M&M",
		"NSE:BAJAJ-AUTO": "BAJAJ-AUTO", "BMV:WALMEX*": "WALMEX*", "aapl": "AAPL",
		"BRK/B": "BRK/B", "NYSE:PSA^A": "PSA^A", "XNAS:MIC:ABC": "ABC",
		"": "", "NASDAQ:": "", ".A": "", "A\x00B": "", "ÄBC": "", "<b>": "", "A:B C D": "", "on request": "",
		strings.Repeat("A", 17): "",
	} {
		if got, ok := eventschemas.BareSymbol(text); ok != (want != "") || ok && got != want {
			t.Errorf("BareSymbol(%q) = %q, %t, want %q", text, got, ok, want)
		}
	}
	got := eventschemas.BareSymbols([]string{"NASDAQ:GOOGL", "NASDAQ:GOOG", "GOOGL", "no symbol:", "FRA:ABEA"})
	if !slices.Equal(got, []string{"GOOGL", "GOOG", "ABEA"}) {
		t.Errorf("BareSymbols = %v", got)
	}
	if got := eventschemas.BareSymbols(nil); got == nil || len(got) != 0 {
		t.Errorf("BareSymbols(nil) = %#v", got)
	}
}

// Earlier releases stored qualified symbols in events of these versions.
func TestDecode_QualifiedTickers_BecomeBare(t *testing.T) {
	const before, after = `"tickers":["ACM"]`, `"tickers":["NASDAQ:GOOGL","GOOG","NASDAQ:GOOG"]`
	company := `{"employees":null,"founded_year":1998,"kind":null,"location":null,"industries":[],` +
		`"ticker":"NASDAQ:GOOGL",` + after + `}`
	crawled := bytes.Replace(readGolden(t, "CrawlSucceeded.v1"), []byte(before), []byte(after), 1)
	imported := bytes.Replace(readGolden(t, "BrandImported.v1"), []byte(`"tickers":[]`), []byte(after), 1)
	for _, c := range []struct {
		eventType string
		version   int
		body      []byte
		company   func(eventschemas.Event) *eventschemas.Company
	}{
		{"CrawlSucceeded", 1, crawled, func(ev eventschemas.Event) *eventschemas.Company {
			return ev.(eventschemas.CrawlSucceeded).Record.Company
		}},
		{"BrandImported", 1, imported, func(ev eventschemas.Event) *eventschemas.Company {
			return ev.(eventschemas.BrandImported).Record.Company
		}},
		{"FieldOverridden", 1, []byte(`{"field":"company","value":` + company + `}`), overriddenCompany},
		{"FieldOverridden", 2, []byte(`{"field":"company","value":` + company + `,"reason":"r"}`), overriddenCompany},
	} {
		testmust.Succeed(t, eventschemas.ValidateJSON(c.eventType, c.version, c.body))
		ev := testmust.Get(eventschemas.Decode(c.eventType, c.version, c.body))(t)
		if got := c.company(ev); !slices.Equal(got.Tickers, []string{"GOOGL", "GOOG"}) {
			t.Errorf("%s version %d has the tickers %v, want bare symbols", c.eventType, c.version, got.Tickers)
		}
		// The upcast event is valid and can be encoded again.
		encoded := testmust.Get(eventschemas.Encode(ev))(t)
		if err := eventschemas.ValidateJSON(encoded.Type, encoded.SchemaVersion, encoded.Data); err != nil {
			t.Error(err)
		}
		// The bytes with qualified symbols are not a body of the new version.
		if err := eventschemas.ValidateJSON(c.eventType, encoded.SchemaVersion, c.body); err == nil {
			t.Errorf("%s version %d accepts qualified tickers", c.eventType, encoded.SchemaVersion)
		}
	}
}

func overriddenCompany(ev eventschemas.Event) *eventschemas.Company {
	var c eventschemas.Company
	if err := json.Unmarshal(ev.(eventschemas.FieldOverridden).Value, &c); err != nil {
		panic(err)
	}
	return &c
}

func TestSymbolPattern_IsThatOfTheSchema(t *testing.T) {
	var schema struct {
		Defs struct {
			Company struct {
				Properties struct {
					Tickers struct{ Items struct{ Pattern string } }
				}
			}
		} `json:"$defs"`
	}
	file := testmust.Get(eventschemas.Schemas().Open("parts/Record.v2.json"))(t)
	defer file.Close()
	testmust.Succeed(t, json.NewDecoder(file).Decode(&schema))
	if got := schema.Defs.Company.Properties.Tickers.Items.Pattern; got != eventschemas.SymbolPattern {
		t.Errorf("the schema has the pattern %s, want %s", got, eventschemas.SymbolPattern)
	}
}
