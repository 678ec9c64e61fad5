package brand_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// known returns a brand with a record.
func known(t rapid.TB) *brand.Brand {
	t.Helper()
	b := brand.New("acme.com")
	imported := testmust.Get(b.Import(brand.Import{Source: "test 1", Record: record("Acme")}))(t)
	for i, ev := range imported {
		b.Apply(ev, uint64(i), time.Unix(0, 0))
	}
	return b
}

// served returns a field of the record as JSON if an override has set it to a value, which may be an earlier release's.
func served(t rapid.TB, b *brand.Brand, field, value string) string {
	t.Helper()
	b.Apply(eventschemas.FieldOverridden{Field: field, Value: json.RawMessage(value)}, 9, time.Unix(0, 0))
	record := testmust.Get(json.Marshal(b.View().Record))(t)
	var fields map[string]json.RawMessage
	testmust.Succeed(t, json.Unmarshal(record, &fields))
	return string(fields[field])
}

// Rule 12.
func TestOverride_ValueThatCrawlsCannotFind_IsRejectedAndNeverServed(t *testing.T) {
	link := func(name, url string) string { return `[{"name":"` + name + `","url":"` + url + `"}]` }
	font := func(name string) string {
		return `[{"name":"` + name + `","type":"body","origin":"google","origin_id":null,"weights":[400]}]`
	}
	for _, c := range []struct{ field, value, reason, served string }{
		{"links", link("twitter", "javascript:alert(1)"), "http or https", `[]`},
		{"links", link("twitter", "data:text/html,x"), "http or https", `[]`},
		{"links", link("twitter", "//x.com/acme"), "http or https", `[]`},
		{"links", link("twitter", "https:///acme"), "http or https", `[]`},
		{"links", link("twitter", "https://user:secret@x.com/acme"), "user name", `[]`},
		{"links", link("twitter", `https://x.com/\u202eacme`), "hidden", `[]`},
		{"links", link("twitter", "https://acme.example/"), `"twitter"`, `[]`},
		{"links", link("linkedin", "https://x.com/acme"), `"linkedin"`, `[]`},
		{"links", link("twitter", "https://x.com.acme.example/acme"), `"twitter"`, `[]`},
		{"links", link("twitter", "https://acme.example/https://x.com/acme"), `"twitter"`, `[]`},
		{"links", link("github", "https://acmegithub.com/acme"), `"github"`, `[]`},
		{"links", link("facebook", "https://developers.facebook.com/acme"), `"facebook"`, `[]`},
		{"links", `[{"name":"github","url":"https://github.com/acme"},{"name":"medium","url":"https://acme.example"}]`, `"medium"`, link("github", "https://github.com/acme")},
		{"og_image", `"vbscript:x"`, "http or https", `null`},
		{"og_image", `"https://acme.com/` + strings.Repeat("a", 2048) + `"`, "2048 bytes", `null`},
		{"name", `"Ac\u202eme"`, "U+202E", `"Acme"`},
		{"name", `"Ac\u200bme"`, "U+200B", `"Acme"`},
		{"name", `"Ac\u00adme"`, "U+00AD", `"Acme"`},
		{"name", `"Acme\udb40\udc01\udb40\udc41"`, "U+E0001", `"Acme"`},
		{"name", `"Acme\u3164"`, "U+3164", `"Acme"`},
		{"name", `"` + strings.Repeat("ä", 101) + `"`, "100 characters", `"` + strings.Repeat("ä", 100) + `"`},
		{"name", `"<script>alert(1)</script> Acme {{x}}"`, "markup", `"alert(1) Acme x"`},
		{"name", `"<b>"`, "markup", `null`},
		{"name", `""`, "shows nothing", `null`},
		{"name", `" \u200d"`, "shows nothing", `null`},
		{"description", `"a\u0007b"`, "U+0007", `"ab"`},
		{"description", `"Acme <img src=x onerror=alert(1)>makes"`, "markup", `"Acme makes"`},
		{"description", `"Acme <scr\u200bipt>makes"`, "U+200B", `"Acme makes"`},
		{"description", `"Acme <!-- a > b --> makes <!--<b>pipes</b>"`, "markup", `"Acme makes"`},
		{"description", `"` + strings.Repeat("x", 1001) + `"`, "1000 characters", `"` + strings.Repeat("x", 1000) + `"`},
		{"long_description", `"one\ntwo"`, "U+000A", `"one two"`},
		{"long_description", `"` + strings.Repeat("x", 2501) + `"`, "2500 characters", `"` + strings.Repeat("x", 2500) + `"`},
		{"fonts", font(`Int\u202eer`), "U+202E", font("Inter")},
		{"fonts", font(`x;}body{background:url(//acme.example)`), "markup", `[]`},
		{"fonts", font(`Open/Sans`), "name of a font", `[]`},
		{"fonts", font(strings.Repeat("x", 61)), "name of a font", `[]`},
		{"fonts", font("4"), "name of a font", `[]`},
		{"logos", `[{"type":"icon","theme":null,"formats":[],"tags":["\u2066new"]}]`, "U+2066", `[{"type":"icon","theme":null,"formats":[],"tags":["new"]}]`},
		{"company", `{"employees":null,"founded_year":null,"kind":null,"location":{"city":"\u202egnp.exe","state":null,"country":null,"country_code":null,"region":null,"subregion":null},"industries":[],"ticker":null,"tickers":[]}`, "U+202E",
			`{"employees":null,"founded_year":null,"kind":null,"location":{"city":"gnp.exe","state":null,"country":null,"country_code":null,"region":null,"subregion":null},"industries":[],"ticker":null,"tickers":[]}`},
		{"company", `{"employees":null,"founded_year":null,"kind":null,"location":null,"industries":[{"id":"1","name":"\u202e","slug":"x","emoji":"","score":1,"parent":null}],"ticker":null,"tickers":[]}`, "U+202E",
			`{"employees":null,"founded_year":null,"kind":null,"location":null,"industries":[{"id":"1","name":"","slug":"x","emoji":"","score":1,"parent":null}],"ticker":null,"tickers":[]}`},
		{"restriction", `{"code":"nsfw","message":"Adult\u2029"}`, "U+2029", `{"code":"nsfw","message":"Adult"}`},
	} {
		b := known(t)
		if _, err := b.Override(c.field, json.RawMessage(c.value), ""); !errors.Is(err, brand.ErrInvalidField) || !strings.Contains(err.Error(), c.field+": ") || !strings.Contains(err.Error(), c.reason) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s = %s: %v, want a reason with %q", c.field, c.value, err, c.reason)
		}
		if got := served(t, b, c.field, c.value); got != c.served {
			t.Errorf("%s = %s is served as %s, want %s", c.field, c.value, got, c.served)
		}
	}
}

// The URLs are those to which browsers lead, and which these networks write.
// Rule 12.
func TestOverride_ValueThatCrawlsFind_IsServed(t *testing.T) {
	for _, c := range []struct{ field, value string }{
		{"links", `[{"name":"twitter","url":"https://twitter.com/acme"},{"name":"linkedin","url":"https://de.linkedin.com/company/acme/about/"},` +
			`{"name":"facebook","url":"https://m.facebook.com/acme"},{"name":"pinterest","url":"https://www.pinterest.co.uk/acme"},` +
			`{"name":"medium","url":"https://acme.medium.com"},{"name":"wikipedia","url":"https://zh-min-nan.wikipedia.org/wiki/Acme"},` +
			`{"name":"discord","url":"https://discord.gg/acme"},{"name":"youtube","url":"http://WWW.YouTube.com/@acme"},` +
			`{"name":"github","url":"https://github.com/acme"},{"name":"instagram","url":"https://www.instagram.com/acme/"},` +
			`{"name":"tiktok","url":"https://www.tiktok.com/@acme"},{"name":"crunchbase","url":"https://www.crunchbase.com/organization/acme"},` +
			`{"name":"threads","url":"https://www.threads.net/@acme"},{"name":"bluesky","url":"https://bsky.app/profile/acme.com"}]`},
		{"og_image", `"https://cdn.acme.example/` + strings.Repeat("a", 2048-len("https://cdn.acme.example/")) + `"`},
		{"name", "\"می\u200cخواهم 👩\u200d💻\""}, {"name", `"` + strings.Repeat("ä", 100) + `"`}, {"name", `null`}, {"name", `"!"`},
		{"description", `"Less than 3 (x < 3, a<4) and {more}"`}, {"description", `"` + strings.Repeat("ä", 1000) + `"`},
		{"long_description", `"` + strings.Repeat("語", 2500) + `"`},
		{"restriction", `{"code":"nsfw","message":"` + strings.Repeat("x", 1000) + `"}`},
		{"company", `{"employees":null,"founded_year":null,"kind":null,"location":null,"industries":[{"id":"1","name":"Pipes","slug":"pipes","emoji":"","score":1,"parent":null}],"ticker":null,"tickers":[]}`},
		{"fonts", `[{"name":"M PLUS 1p","type":"body","origin":"google","origin_id":"M+PLUS+1p","weights":[400]}]`},
	} {
		b := known(t)
		if _, err := b.Override(c.field, json.RawMessage(c.value), ""); err != nil {
			t.Errorf("%s = %s: %v", c.field, c.value, err)
		}
		want := strings.NewReplacer("<", `\u003c`).Replace(c.value)
		if got := served(t, b, c.field, c.value); got != want {
			t.Errorf("%s = %s is served as %s", c.field, c.value, got)
		}
	}
}

// An override that an earlier release accepted is served without what an override may not contain today.
func TestView_AnyOverrideOfEarlierRelease_FollowsTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		anyText := func(name string) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
				"a", " ", "\n", "ä", "語", "<", ">", "{", "b>", "<b>", "</script", "<!--", "-->", "-", "!", "\u200b", "\u200d", "\u202e", "\u3164",
				"\U000e0041", "&lt;", "'", "4", "\ufffd", "https://", "javascript:", "x.com/", "medium.com", "u:p@", "%2", strings.Repeat("x", 90), strings.Repeat("<i>", 900),
			}), 0, 8).Draw(t, name), "")
		}
		field := rapid.SampledFrom([]string{"name", "description", "long_description", "og_image", "links", "fonts"}).Draw(t, "field")
		var value any = anyText("text")
		switch field {
		case "links":
			value = []eventschemas.Link{{Name: "twitter", URL: anyText("URL")}, {Name: "medium", URL: "https://" + anyText("URL")}}
		case "fonts":
			value = []eventschemas.Font{{Name: anyText("name"), Type: "body", Origin: "custom", Weights: []int{}}}
		}
		old := testmust.Get(json.Marshal(value))(t)
		b := known(t)
		shown := served(t, b, field, string(old))
		if _, err := b.Override(field, json.RawMessage(shown), ""); err != nil {
			t.Fatalf("%s = %s is served as %s: %v", field, old, shown, err)
		}
	})
}

// The events and states that a brand shares with others do not change.
func TestView_UncleanRecord_IsNotModified(t *testing.T) {
	b := known(t)
	city, unclean := "\u202eParis", record("Ac\u202eme")
	unclean.Company = &eventschemas.Company{Location: &eventschemas.Location{City: &city}}
	unclean.Links = []eventschemas.Link{{Name: "x", URL: "javascript:x"}, {Name: "github", URL: "https://github.com/acme"}}
	b.Apply(eventschemas.CrawlSucceeded{CrawlID: "c", Record: unclean}, 9, time.Unix(0, 0))
	before := stateJSON(t, b)
	v := b.View()
	if *v.Record.Name != "Acme" || *v.Record.Company.Location.City != "Paris" || len(v.Record.Links) != 1 {
		t.Errorf("the view is %+v", v.Record)
	}
	if after := stateJSON(t, b); after != before || city != "\u202eParis" || unclean.Links[0].Name != "x" {
		t.Errorf("the state was %s and is %s", before, after)
	}
}

func stateJSON(t *testing.T, b *brand.Brand) string {
	t.Helper()
	state := testmust.Get(json.Marshal(b))(t)
	return string(state)
}

func TestReason_EmailAddress_IsRefusedUnlessRecorded(t *testing.T) {
	b, reason := known(t), "its owner, ann@example.com, asked"
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
