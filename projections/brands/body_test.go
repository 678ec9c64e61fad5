package brands

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

func ptr[T any](v T) *T { return &v }

// full returns a view with every field set.
func full() brand.View {
	asset := eventschemas.Asset{ID: "ab12", Format: "png", Background: ptr("transparent"), Width: ptr(512), Height: ptr(256), Size: 1234}
	return brand.View{
		ID: "5f0c4a52-6f0e-5c35-9a55-1d1c2d3e4f50", Domain: "acme.com", URN: "urn:letterhead:brand:5f0c4a52-6f0e-5c35-9a55-1d1c2d3e4f50",
		Status: "ready", Claimed: true, Revision: 7, UpdatedAt: time.Date(2026, 11, 21, 9, 30, 0, 123_456_000, time.FixedZone("", 3600)),
		Record: eventschemas.Record{
			Name: ptr("Acme <& Söhne>"), Description: ptr("d"), LongDescription: ptr("line\nbreak"),
			Links:   []eventschemas.Link{{Name: "github", URL: "https://github.com/acme?a=1&b=2"}},
			Logos:   []eventschemas.Logo{{Type: "icon", Theme: ptr("dark"), Formats: []eventschemas.Asset{asset}, Tags: []string{"t"}}},
			Colors:  []eventschemas.Color{{Hex: "#1a2b3c", Type: "accent", Brightness: 40}},
			Fonts:   []eventschemas.Font{{Name: "Inter", Type: "body", Origin: "google", OriginID: ptr("Inter"), Weights: []int{400, 700}}},
			Images:  []eventschemas.Image{{Type: "banner", Formats: []eventschemas.Asset{{ID: "cd34", Format: "jpeg", Size: 9}}, Tags: nil}},
			OGImage: ptr("https://acme.com/og.png"),
			Company: &eventschemas.Company{
				Employees: ptr(51), FoundedYear: ptr(1949), Kind: ptr("PUBLIC_COMPANY"),
				Location: &eventschemas.Location{City: ptr("Berlin"), CountryCode: ptr("DE")},
				Industries: []eventschemas.Industry{
					{ID: "1", Name: "Anvils", Slug: "anvils", Emoji: "🔨", Score: 0.75, Parent: &eventschemas.IndustryParent{ID: "2", Name: "Iron", Slug: "iron", Emoji: "⚙"}},
					{ID: "3", Name: "Rockets", Slug: "rockets", Emoji: "🚀", Score: 1},
				},
				Ticker: ptr("XETRA:ACM"), Tickers: []string{"ACM"},
			},
			QualityScore: 0.875, Complete: true,
		},
	}
}

const fullJSON = `{"id":"5f0c4a52-6f0e-5c35-9a55-1d1c2d3e4f50","name":"Acme <& Söhne>","domain":"acme.com","claimed":true,` +
	`"description":"d","longDescription":"line\nbreak","links":[{"name":"github","url":"https://github.com/acme?a=1&b=2"}],` +
	`"logos":[{"type":"icon","theme":"dark","formats":[{"src":"https://lh.test/cdn/ab12.png","format":"png","background":"transparent",` +
	`"width":512,"height":256,"size":1234}],"tags":["t"]}],"colors":[{"hex":"#1a2b3c","type":"accent","brightness":40}],` +
	`"fonts":[{"name":"Inter","type":"body","origin":"google","originId":"Inter","weights":[400,700]}],` +
	`"images":[{"type":"banner","formats":[{"src":"https://lh.test/cdn/cd34.jpeg","format":"jpeg","background":null,"width":null,` +
	`"height":null,"size":9}],"tags":[]}],"ogImage":"https://acme.com/og.png","company":{"employees":51,"foundedYear":1949,` +
	`"kind":"PUBLIC_COMPANY","location":{"city":"Berlin","state":null,"country":null,"countryCode":"DE","region":null,"subregion":null},` +
	`"industries":[{"id":"1","name":"Anvils","slug":"anvils","emoji":"🔨","score":0.75,"parent":{"id":"2","name":"Iron","slug":"iron",` +
	`"emoji":"⚙"}},{"id":"3","name":"Rockets","slug":"rockets","emoji":"🚀","score":1,"parent":null}],"ticker":"XETRA:ACM",` +
	`"financialIdentifiers":{"isin":[],"ticker":["ACM"]}},"qualityScore":0.875,"isNsfw":false,"restriction":null,` +
	`"urn":"urn:letterhead:brand:5f0c4a52-6f0e-5c35-9a55-1d1c2d3e4f50","status":"ready","updatedAt":"2026-11-21T08:30:00.123Z"}`

const emptyJSON = `{"id":"x","name":null,"domain":"a.com","claimed":false,"description":null,"longDescription":null,"links":[],` +
	`"logos":[],"colors":[],"fonts":[],"images":[],"ogImage":null,"company":{"employees":null,"foundedYear":null,"kind":null,` +
	`"location":null,"industries":[],"ticker":null,"financialIdentifiers":{"isin":[],"ticker":[]}},"qualityScore":0,"isNsfw":false,` +
	`"restriction":null,"urn":"u","status":"partial","updatedAt":"2026-01-01T00:00:00.000Z"}`

func TestBody_MatchesSpecification(t *testing.T) {
	jan := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		view brand.View
		want string
	}{
		"everything": {full(), fullJSON},
		"nothing":    {brand.View{ID: "x", Domain: "a.com", URN: "u", Status: "partial", UpdatedAt: jan}, emptyJSON},
		"restricted": {
			brand.View{ID: "x", Domain: "a.com", URN: "u", Status: "partial", UpdatedAt: jan, Record: eventschemas.Record{
				NSFW: true, Company: eventschemas.EmptyCompany(), Restriction: &eventschemas.Restriction{Code: "nsfw", Message: "Adult content."},
			}},
			strings.NewReplacer(
				`"company":{"employees":null,"foundedYear":null,"kind":null,"location":null,"industries":[],"ticker":null,"financialIdentifiers":{"isin":[],"ticker":[]}}`, `"company":null`,
				`"isNsfw":false,"restriction":null`, `"isNsfw":true,"restriction":{"code":"nsfw","message":"Adult content."}`,
			).Replace(emptyJSON),
		},
	} {
		got := string(Render(c.view).AppendTo(nil, "https://lh.test"))
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s is not JSON", name)
		}
	}
}

func TestBody_BaseURL_IsInsertedOnWrite(t *testing.T) {
	body := Render(full())
	for _, base := range []string{"http://127.0.0.1:8080", "https://a.example/b", `https://"odd`} {
		got := body.AppendTo([]byte("before"), base)
		if !bytes.HasPrefix(got, []byte("before{")) {
			t.Errorf("AppendTo replaced the prefix: %.20s", got)
		}
		var v struct {
			Logos []struct{ Formats []struct{ Src string } }
		}
		if err := json.Unmarshal(got[len("before"):], &v); err != nil {
			t.Fatalf("%s: %v", base, err)
		}
		if src := v.Logos[0].Formats[0].Src; src != base+"/cdn/ab12.png" {
			t.Errorf("base %s: src = %s, want %s", base, src, base+"/cdn/ab12.png")
		}
	}
}

// No text of a site is mistaken for the placeholder of the base URL.
func TestBody_Content_CannotImitateBaseURL(t *testing.T) {
	for _, text := range []string{"\x00", "\x00/cdn/x.png", `\u0000`, `"` + "\x00", "{base}", "%00"} {
		v := full()
		v.Record.Name = &text
		v.Record.Logos[0].Formats[0].ID = text
		var got struct {
			Name  string
			Logos []struct{ Formats []struct{ Src string } }
		}
		if err := json.Unmarshal(Render(v).AppendTo(nil, "https://lh.test"), &got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if got.Name != text || got.Logos[0].Formats[0].Src != "https://lh.test/cdn/"+text+".png" {
			t.Errorf("%q was rendered as %q and %q", text, got.Name, got.Logos[0].Formats[0].Src)
		}
	}
}

func TestBody_ScoreNotANumber_IsZero(t *testing.T) {
	for _, score := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		v := full()
		v.Record.QualityScore = score
		if got := Render(v).AppendTo(nil, ""); !bytes.Contains(got, []byte(`"qualityScore":0,`)) || !json.Valid(got) {
			t.Errorf("score %v is rendered as %s, want 0", score, got)
		}
	}
}

func TestBody_SameView_SameBytes(t *testing.T) {
	if !reflect.DeepEqual(Render(full()), Render(full())) {
		t.Error("Render returned different bytes for the same view")
	}
}

// FuzzString compares the writer with encoding/json without HTML escaping. Go 1.27 no longer escapes the replacement
// character, for which the writer keeps the escape: rendered records stay the same with every release of Go.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\/", "\x00\x01\x1f\x7f", "é世🦊", "\xff\xc0\xaf", "\u2028\u2029", "<&>", "a\xe2\x80", "\b\f\n\r\t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		testmust.Succeed(t, enc.Encode(s))
		var w writer
		w.string(s)
		plain := func(json string) string { return strings.ReplaceAll(json, `\ufffd`, "\ufffd") }
		if got := string(w.b) + "\n"; plain(got) != plain(want.String()) {
			t.Errorf("string(%q) = %s, want %s", s, got, want.String())
		}
		if bytes.IndexByte(w.b, baseURLMark) >= 0 || !utf8.Valid(w.b) {
			t.Errorf("string(%q) = %q, want valid UTF-8 without the placeholder of the base URL", s, w.b)
		}
	})
}
