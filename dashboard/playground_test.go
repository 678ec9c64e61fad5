package dashboard_test

import (
	"strings"
	"testing"

	"letterhead/commands"
	"letterhead/dashboard/site/sitetest"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// known puts a brand into the index.
func (s *service) known(domain string, record eventschemas.Record) {
	s.t.Helper()
	_, err := s.node.Writers.Brands.ImportBrand(s.t.Context(), commands.ImportBrand{Request: operator(), Domain: domain, Source: "test 1", Record: record})
	s.must(err)
	s.must(s.node.Operations.Reads.CatchUp(s.t.Context()))
}

// withLogo is a record of a brand with a logo.
func withLogo(name string) eventschemas.Record {
	width, height := 512, 256
	svg := eventschemas.Asset{ID: strings.Repeat("ab", 32), Format: "svg", Width: &width, Height: &height, Size: 1234}
	return eventschemas.Record{Name: &name, Logos: []eventschemas.Logo{{Type: "icon", Formats: []eventschemas.Asset{svg}, Tags: []string{}}}}
}

func TestPlayground_Record_IsShownWithItsSources(t *testing.T) {
	s := start(t, baseURL)
	r := withLogo("Acme")
	r.Colors = []eventschemas.Color{{Hex: "#0b57d0", Type: "brand", Brightness: 81}}
	r.Fonts = []eventschemas.Font{{Name: "Inter", Type: "title", Origin: "google", Weights: []int{400, 700}}}
	r.Links = []eventschemas.Link{{Name: "github", URL: "https://github.com/acme"}}
	city, year := "Berlin", 1999
	r.Company = &eventschemas.Company{FoundedYear: &year, Location: &eventschemas.Location{City: &city}, Industries: []eventschemas.Industry{}, Tickers: []string{}}
	_, err := s.node.Writers.Brands.ImportBrand(t.Context(), commands.ImportBrand{Request: operator(), Domain: "acme.com", Source: "test 1", Record: r,
		Evidence: []eventschemas.Evidence{{Field: "colors", Source: "https://acme.com/brand", Method: "theme-color", Confidence: 0.9}}})
	s.must(err)
	s.must(s.node.Operations.Reads.CatchUp(t.Context()))
	c := s.signedIn("Acme", plan.Growth)
	a := c.plays("acme.com").shows(200, "#0b57d0", "Inter", "title 400 700", "Berlin", "1999", "https://acme.com/brand", "theme-color", "0.90", "49 credits left")
	if fills := a.elements("rect"); len(fills) != 1 || sitetest.Attribute(fills[0], "fill") != "#0b57d0" {
		t.Errorf("%d swatches, want one of #0b57d0", len(fills))
	}
	if page := a.link("acme.com"); page != "/brands/acme.com" {
		t.Errorf("the link to the page of the brand is %s", page)
	}
}

// A field that an operator has set does not come from the crawl whose value it replaces, although that has a source.
func TestPlayground_FieldSetByOperator_IsShownAsSuch(t *testing.T) {
	s := start(t, baseURL)
	r := withLogo("Acme")
	_, err := s.node.Writers.Brands.ImportBrand(t.Context(), commands.ImportBrand{Request: operator(), Domain: "acme.com", Source: "test 1", Record: r,
		Evidence: []eventschemas.Evidence{{Field: "name", Source: "https://acme.com/about", Method: "og-site-name", Confidence: 0.9}}})
	s.must(err)
	s.must(s.node.Writers.Brands.OverrideField(t.Context(), commands.OverrideField{Request: operator(), Domain: "acme.com", Field: "name", Value: []byte(`"Acme Corp"`), Reason: "they asked"}))
	s.must(s.node.Operations.Reads.CatchUp(t.Context()))
	s.signedIn("Acme", plan.Growth).plays("acme.com").shows(200, "Acme Corp", "Set by the operator, in place of what the site says: name.")
}

// plays sends the form of the playground.
func (c *customer) plays(identifier string) answer {
	c.t.Helper()
	form := c.get("/dashboard/playground").form("/dashboard/playground")
	form.Set("identifier", identifier)
	return c.post("/dashboard/playground", form)
}

func TestPlayground_KnownBrand_IsAnsweredAndChargedOnce(t *testing.T) {
	s := start(t, baseURL)
	s.known("acme.com", withLogo("Acme"))
	c := s.signedIn("Acme", plan.Growth)
	form := c.get("/dashboard/playground").shows(200, "can spend 50 credits").form("/dashboard/playground")
	form.Set("identifier", " https://www.acme.com/about ")
	a := c.post("/dashboard/playground", form).shows(200, "status 200, from the index, 49 credits left", `"name": "Acme"`, "curl -H", "/v1/brands/https:%2F%2Fwww.acme.com%2Fabout")
	if images := a.elements("img"); len(images) != 3 || !strings.Contains(sitetest.Attribute(images[0], "src"), "/logo/acme.com?size=96") {
		t.Errorf("the logos are %d images", len(images))
	}
	story := a.link("What this request cost")
	c.get(story).shows(200, "acme.com")
	c.post("/dashboard/playground", form).shows(200, "49 credits left") // the form was sent twice
	c.plays("acme.com").shows(200, "48 credits left")
}

func TestPlayground_Errors_AreThoseOfTheAPI(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	c.plays("").shows(422, "Give a domain")
	c.plays(strings.Repeat("a", 301)).shows(422, "not a domain")
	c.plays("a\x00b").shows(422, "not a domain")
	c.plays("..").shows(422, "not a domain")
	c.plays("co.uk").shows(200, "invalid_domain", "Errors cost nothing", "can spend 50 credits")
}

func TestPlayground_SuspendedAccount_IsForbidden(t *testing.T) {
	s := start(t, baseURL)
	s.known("acme.com", withLogo("Acme"))
	c := s.signedIn("Acme", plan.Growth)
	_, err := s.node.Writers.Accounts.Suspend(t.Context(), commands.SuspendAccount{Request: operator(), AccountID: c.id, Reason: "test"})
	s.must(err)
	s.must(s.node.Operations.Reads.CatchUp(t.Context()))
	c.plays("acme.com").shows(200, "status 403", "forbidden", "suspended")
}

func TestPlayground_MinuteWindow_IsThatOfTheAccount(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Free)
	for range 60 {
		c.plays("co.uk")
	}
	c.plays("co.uk").shows(200, "status 429", "rate_limited")
}
