package extract_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/adult"
	"letterhead/workers/crawl/extract/extracttest"
	"letterhead/workers/crawl/manifest"
)

func TestName_Sources_BestWins(t *testing.T) {
	for name, c := range map[string]struct{ domain, body, want string }{
		"owner's linked data first":        {"acme.com", extracttest.Organization(`"name":"Acme","url":"https://acme.com"`) + `<meta property="og:site_name" content="Acme Online Shop"><title>Acme - the best</title>`, "Acme"},
		"another organization's data":      {"acme.com", extracttest.Organization(`"name":"Trustworthy Reviews","url":"https://reviews.example"`) + `<title>Acme | Widgets</title>`, "Acme"},
		"a reviewer's data":                {"acme.com", `<script type="application/ld+json">{"@type":"Product","review":{"@type":"Review","publisher":{"@type":"Organization","name":"Review Press"}}}</script><title>Acme</title>`, "Acme"},
		"site name":                        {"acme.com", `<meta property="og:site_name" content="ACME"><title>Home</title>`, "ACME"},
		"name attribute instead":           {"acme.com", `<meta name="og:site_name" content="ACME">`, "ACME"},
		"title, brand first":               {"acme.com", `<title>Acme - The best widgets in town</title>`, "Acme"},
		"title, brand last":                {"acme.com", `<title>The best widgets in town | Acme</title>`, "Acme"},
		"title, home first":                {"acme.com", `<title>Home | Acme</title>`, "Acme"},
		"title in German":                  {"ard.de", `<title>ARD Startseite</title><meta property="og:site_name" content="ard.de">`, "ARD"},
		"title with colon":                 {"archive.org", `<title>Internet Archive: Digital Library of Free Books</title>`, "Internet Archive"},
		"welcome":                          {"acme.com", `<title>Welcome to Acme</title>`, "Acme"},
		"a sentence for a title":           {"acme.com", `<title>Widgets for everybody, made with love since ages</title>`, "Acme"},
		"not Latin, one title":             {"bjlab.cn", `<title>北京实验室</title><h1>北京实验室</h1>`, "北京实验室"},
		"not Latin, site name":             {"pikabu.ru", `<meta property="og:site_name" content="Пикабу"><title>Горячее</title>`, "Пикабу"},
		"initials":                         {"latimes.com", `<title>News from California - Los Angeles Times</title>`, "Los Angeles Times"},
		"initials and a word":              {"sfchronicle.com", `<meta property="og:site_name" content="San Francisco Chronicle">`, "San Francisco Chronicle"},
		"the name in capitals is kept":     {"random.org", `<meta name="application-name" content="RANDOM.ORG"><title>RANDOM.ORG - True Random Number Service</title>`, "RANDOM.ORG"},
		"the domain as name":               {"booking.com", `<meta property="og:site_name" content="Booking.com">`, "Booking.com"},
		"trade marks":                      {"acme.com", `<meta property="og:site_name" content="Acme®™">`, "Acme"},
		"legal form":                       {"acme.com", `<meta property="og:site_name" content="Acme, Inc."><title>Acme</title>`, "Acme"},
		"legal form that is the name":      {"thebodyco.com", `<meta property="og:site_name" content="The Body Co">`, "The Body Co"},
		"abbreviation in brackets":         {"amazon.com", `<meta property="og:site_name" content="Amazon Web Services (AWS)">`, "Amazon Web Services"},
		"site name like a title":           {"prnewswire.com", `<meta property="og:site_name" content="PR Newswire: news distribution, targeting and monitoring">`, "PR Newswire"},
		"diacritics are kept":              {"milano.it", `<header><a href="/"><img alt="Citta Milano" src="l.png"></a></header><title>Città Milano</title>`, "Città Milano"},
		"generic":                          {"acme.com", `<meta property="og:site_name" content="Home"><title>Index</title>`, "Acme"},
		"framework's name":                 {"acme.com", `<title>React App</title>`, "Acme"},
		"builder's name":                   {"acme.com", `<meta property="og:site_name" content="Wix.com"><title>Acme</title>`, "Acme"},
		"a builder's own site":             {"wix.com", `<meta property="og:site_name" content="Wix.com">`, "Wix.com"},
		"challenge":                        {"acme.com", `<title>Just a moment...</title>`, "Acme"},
		"app link":                         {"netflix.com", `<title>Netflix Germany - Watch TV Shows Online</title><meta property="al:ios:app_name" content="Netflix">`, "Netflix"},
		"logo's alt text":                  {"acme.com", `<header><a href="/"><img src="/l.png" alt="Acme Instruments logo"></a></header><title>Precision for everyone</title>`, "Acme Instruments"},
		"only the domain":                  {"acme-tools.com", ``, "Acme Tools"},
		"punycode":                         {"xn--bcher-kva.de", ``, "Bücher"},
		"markup":                           {"acme.com", `<meta property="og:site_name" content="&lt;script&gt;alert(1)&lt;/script&gt;">`, "Acme"},
		"too long":                         {"acme.com", `<meta property="og:site_name" content="` + strings.Repeat("Acme and more ", 10) + `">`, "Acme"},
		"direction tricks":                 {"acme.com", "<meta property=\"og:site_name\" content=\"Ac\u202eme\">", "Acme"},
		"linked data of the site":          {"acme.com", `<script type="application/ld+json">{"@type":"WebSite","name":"Acme Labs","url":"https://www.acme.com/"}</script><title>Precision</title>`, "Acme Labs"},
		"publisher reference":              {"acme.com", `<script type="application/ld+json">{"@graph":[{"@type":"WebSite","@id":"#s","publisher":{"@id":"#o"}},{"@type":"Organization","@id":"#o","name":"Acme Group"}]}</script>`, "Acme Group"},
		"escaped twice":                    {"acme.com", extracttest.Organization(`"name":"Acme &amp; Sons","url":"https://acme.com"`), "Acme & Sons"},
		"a subdomain's own name":           {"github.io", `<title>GitHub Pages | Websites for you</title>`, "GitHub Pages"},
		"by whom":                          {"simonsarris.com", `<title>Most precious - by Simon Sarris</title>`, "Simon Sarris"},
		"two sources against the first":    {"acme.com", `<title>Acme Labs | x</title><meta name="application-name" content="Acme Labs">`, "Acme Labs"},
		"organization of a different kind": {"acme.com", `<script type="application/ld+json">{"@type":["LocalBusiness","Restaurant"],"name":"Acme Diner","url":"/"}</script>`, "Acme Diner"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := extract.Name(extracttest.Read(c.domain, c.body))
			if got.Value != c.want {
				t.Errorf("name is %q by %s, want %q", got.Value, got.Method, c.want)
			}
			if got.Confidence <= 0 || got.Confidence > 1 || got.Method == "" {
				t.Errorf("confidence %v, method %q", got.Confidence, got.Method)
			}
		})
	}
	t.Run("manifest", func(t *testing.T) {
		in := extracttest.Read("acme.com", `<title>Precision</title>`)
		in.Manifest = &manifest.Manifest{Name: "Acme Instruments", ShortName: "Acme"}
		if got, agreed := extract.Name(in); got.Value != "Acme" || agreed {
			t.Errorf("name is %q, agreed %t", got.Value, agreed)
		}
	})
	t.Run("agreement", func(t *testing.T) {
		if _, agreed := extract.Name(extracttest.Read("acme.com", `<meta property="og:site_name" content="Acme"><title>Acme</title>`)); !agreed {
			t.Error("missed that two sources agree")
		}
	})
}

func TestDescription_Sources_BestWins(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"og first":          {`<meta name="description" content="The plain description."><meta property="og:description" content="The shared description.">`, "The shared description."},
		"plain":             {`<meta name="DESCRIPTION" content="  The   plain&#10;description. ">`, "The plain description."},
		"twitter":           {`<meta name="twitter:description" content="The twitter description.">`, "The twitter description."},
		"microdata":         {`<p itemprop="description">Described by microdata here.</p>`, "Described by microdata here."},
		"linked data":       {extracttest.Organization(`"url":"https://acme.com","name":"Acme","description":"Described by linked data."`), "Described by linked data."},
		"too short":         {`<meta property="og:description" content="Home"><meta name="description" content="A real description.">`, "A real description."},
		"a notice":          {`<meta property="og:description" content="Please enable JavaScript to continue."><meta name="description" content="A real description.">`, "A real description."},
		"none":              {`<title>Acme</title>`, ""},
		"markup is dropped": {`<meta name="description" content="Uses &lt;b&gt;bold&lt;/b&gt; words.">`, "Uses bold words."},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := extract.Description(extracttest.Read("acme.com", c.body))
			if got.Value != c.want || ok != (c.want != "") {
				t.Errorf("description is %q, want %q", got.Value, c.want)
			}
		})
	}
	long, _ := extract.Description(extracttest.Read("acme.com", `<meta name="description" content="`+strings.Repeat("many words ", 500)+`">`))
	if n := len([]rune(long.Value)); n > 1000 || !strings.HasSuffix(long.Value, "…") {
		t.Errorf("a long description has %d runes", n)
	}
}

func TestLongDescription_Text_LongerOrEmpty(t *testing.T) {
	const short = "Acme makes instruments."
	for name, c := range map[string]struct{ description, want string }{
		"more":     {"Acme makes instruments. It was founded by people who like to measure things twice.", "Acme makes instruments. It was founded by people who like to measure things twice."},
		"the same": {short, ""},
		"shorter":  {"Acme instruments.", ""},
	} {
		got, _ := extract.LongDescription(extracttest.Read("acme.com", extracttest.Organization(fmt.Sprintf(`"url":"https://acme.com","name":"Acme","description":%q`, c.description))), short)
		if got.Value != c.want {
			t.Errorf("%s: got %q", name, got.Value)
		}
	}
}

func TestShareImage_Declared_IsReturned(t *testing.T) {
	long := strings.Repeat("a", 2048-len("https://www.acme.com/c.png?"))
	for body, want := range map[string]string{
		`<meta property="og:image" content="/a.png"><meta name="twitter:image" content="/b.png">`:                           "https://www.acme.com/a.png",
		`<meta name="twitter:image:src" content="//cdn.acme.com/b.png">`:                                                    "https://cdn.acme.com/b.png",
		`<meta property="og:image" content="javascript:x"><meta property="og:image" content="/c.png">`:                      "https://www.acme.com/c.png",
		`<meta property="og:image" content="/` + strings.Repeat("ü", 500) + `"><meta property="og:image" content="/c.png">`: "https://www.acme.com/c.png",
		`<meta property="og:image" content="/c.png?` + long + `">`:                                                          "https://www.acme.com/c.png?" + long,
		`<meta property="og:image" content="">`:                                                                             "",
		`<img src="/big.png">`:                                                                                              "",
	} {
		got, ok := extract.ShareImage(extracttest.Read("acme.com", body))
		text := ""
		if ok {
			text = got.Value.String()
		}
		if text != want {
			t.Errorf("%s: got %q, want %q", body, text, want)
		}
	}
}

func TestLinks_Profiles_AreCanonical(t *testing.T) {
	for address, want := range map[string]string{
		"https://twitter.com/acme":                              "twitter https://x.com/acme",
		"http://www.x.com/@acme?lang=en#top":                    "twitter https://x.com/acme",
		"https://mobile.twitter.com/acme/":                      "twitter https://x.com/acme",
		"https://twitter.com/intent/tweet?text=x":               "",
		"https://twitter.com/share?url=x":                       "",
		"https://twitter.com/acme/status/123":                   "",
		"https://twitter.com/hashtag/acme":                      "",
		"https://twitter.com":                                   "",
		"https://twitter.example.com/acme":                      "",
		"https://nottwitter.com/acme":                           "",
		"https://linkedin.com/company/acme/about/":              "linkedin https://www.linkedin.com/company/acme",
		"https://de.linkedin.com/company/acme":                  "linkedin https://www.linkedin.com/company/acme",
		"https://www.linkedin.com/shareArticle?url=x":           "",
		"https://www.linkedin.com/sharing/share-offsite/?url=x": "",
		"https://www.linkedin.com/in/jane":                      "linkedin https://www.linkedin.com/in/jane",
		"https://github.com/acme":                               "github https://github.com/acme",
		"https://github.com/features":                           "",
		"https://github.com":                                    "",
		"https://instagram.com/acme":                            "instagram https://www.instagram.com/acme/",
		"https://www.instagram.com/p/xyz/":                      "",
		"https://www.instagram.com/reel/xyz/":                   "",
		"https://www.facebook.com/acme":                         "facebook https://www.facebook.com/acme",
		"https://fb.com/acme":                                   "facebook https://fb.com/acme",
		"https://www.facebook.com/pages/Acme/123":               "facebook https://www.facebook.com/pages/Acme/123",
		"https://www.facebook.com/sharer/sharer.php?u=x":        "",
		"https://www.facebook.com/dialog/feed":                  "",
		"https://www.youtube.com/@acme":                         "youtube https://www.youtube.com/@acme",
		"https://www.youtube.com/channel/UC1/videos":            "youtube https://www.youtube.com/channel/UC1",
		"https://www.youtube.com/user/acme":                     "youtube https://www.youtube.com/user/acme",
		"https://www.youtube.com/watch?v=1":                     "",
		"https://youtu.be/abc":                                  "",
		"https://www.youtube.com/embed/abc":                     "",
		"https://www.tiktok.com/@acme":                          "tiktok https://www.tiktok.com/@acme",
		"https://www.tiktok.com/foryou":                         "",
		"https://www.crunchbase.com/organization/acme":          "crunchbase https://www.crunchbase.com/organization/acme",
		"https://discord.gg/acme":                               "discord https://discord.com/invite/acme",
		"https://discord.com/invite/acme":                       "discord https://discord.com/invite/acme",
		"https://discord.com/download":                          "",
		"https://www.pinterest.de/acme/":                        "pinterest https://www.pinterest.com/acme",
		"https://pinterest.com/pin/create/button/?url=x":        "",
		"https://www.threads.net/@acme":                         "threads https://www.threads.net/@acme",
		"https://www.threads.com/@acme":                         "threads https://www.threads.net/@acme",
		"https://bsky.app/profile/acme.com":                     "bluesky https://bsky.app/profile/acme.com",
		"https://medium.com/@acme":                              "medium https://medium.com/@acme",
		"https://acme.medium.com/":                              "medium https://acme.medium.com",
		"https://medium.com/p/123":                              "",
		"https://de.wikipedia.org/wiki/Acme_(Firma)":            "wikipedia https://de.wikipedia.org/wiki/Acme_%28Firma%29",
		"https://en.m.wikipedia.org/wiki/Acme":                  "wikipedia https://en.wikipedia.org/wiki/Acme",
		"https://en.wikipedia.org/wiki/Main_Page":               "",
		"https://en.wikipedia.org/wiki/Special:Search":          "",
		"mailto:a@acme.com":                                     "",
		"https://x.com/" + strings.Repeat("a", 200):             "",
		"https://x.com/<script>":                                "",
	} {
		u := testmust.Get(url.Parse(address))(t)
		name, canonical, ok := extract.Profile(u)
		got := ""
		if ok {
			got = name + " " + canonical
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
	}
}

func TestLinks_OfPage_AreOwnProfiles(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"one a network":              {`<footer><a href="https://x.com/acme">x</a><a href="https://x.com/acme/">x</a><a href="https://github.com/acme">g</a></footer>`, "twitter https://x.com/acme, github https://github.com/acme"},
		"sameAs before anchors":      {extracttest.Organization(`"url":"https://acme.com","name":"Acme","sameAs":["https://x.com/acmehq"]`) + `<footer><a href="https://x.com/other">x</a></footer>`, "twitter https://x.com/acmehq"},
		"the handle nearest":         {`<footer><a href="https://x.com/founder">f</a><a href="https://x.com/acme_inc">a</a></footer>`, "twitter https://x.com/acme_inc"},
		"a stranger in running text": {`<p><a href="https://x.com/somebody">x</a></p>`, ""},
		"rel=me":                     {`<link rel="me" href="https://x.com/somebody">`, "twitter https://x.com/somebody"},
		"twitter:site":               {`<meta name="twitter:site" content="@acmeco">`, "twitter https://x.com/acmeco"},
		"theme vendor":               {`<footer><a href="https://x.com/wordpress">w</a><a href="https://www.facebook.com/shopify">s</a></footer>`, ""},
		"a person only":              {`<footer><a href="https://www.linkedin.com/in/jane-acme">j</a></footer>`, ""},
		"a company before a person":  {`<footer><a href="https://www.linkedin.com/in/acme">j</a><a href="https://www.linkedin.com/company/acme">c</a></footer>`, "linkedin https://www.linkedin.com/company/acme"},
		"another's sameAs":           {extracttest.Organization(`"url":"https://other.example","name":"Other","sameAs":["https://x.com/other"]`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, l := range extract.Links(extracttest.Read("acme.com", c.body)).Value {
				got = append(got, l.Name+" "+l.URL)
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
	if got := extract.Links(extracttest.Read("github.com", `<footer><a href="https://github.com/github">g</a><a href="https://github.com/somebody">s</a></footer>`)).Value; len(got) != 1 || got[0].URL != "https://github.com/github" {
		t.Errorf("on a network's own site: %v", got)
	}
}

func FuzzName(f *testing.F) {
	f.Add("<title>Acme | x</title>", "acme.com")
	f.Add(extracttest.Organization(`"name":"A (B)","url":"/"`), "b.co.uk")
	f.Add("", strings.Repeat("\x02a.\xff", 200))
	f.Fuzz(func(t *testing.T, body, domain string) {
		got, _ := extract.Name(extracttest.Read(domain, body))
		if len([]rune(got.Value)) > 60 || !utf8.ValidString(got.Value) || strings.ContainsAny(got.Value, "<>\n\x00") && !strings.ContainsAny(domain, "<>\n\x00") {
			t.Errorf("name %q of %q", got.Value, body)
		}
	})
}

func TestScore_Record_IsSumOfParts(t *testing.T) {
	side := func(n int) *int { return &n }
	name, description := "Acme", "Acme makes instruments."
	light, dark := "light", "dark"
	asset := func(format string, n int) []eventschemas.Asset {
		return []eventschemas.Asset{{Format: format, Width: side(n), Height: side(n)}}
	}
	whole := eventschemas.Record{
		Name: &name, Description: &description,
		Links:   make([]eventschemas.Link, 3),
		Logos:   []eventschemas.Logo{{Type: "logo", Theme: &dark, Formats: asset("svg", 100)}, {Type: "icon", Theme: &light, Formats: asset("png", 512)}},
		Colors:  make([]eventschemas.Color, 2),
		Fonts:   make([]eventschemas.Font, 1),
		Images:  make([]eventschemas.Image, 1),
		Company: &eventschemas.Company{Employees: side(1), FoundedYear: side(2000), Kind: &name, Location: &eventschemas.Location{}, Industries: make([]eventschemas.Industry, 1)},
	}
	if got := extract.Score(&whole, true); got != 1 {
		t.Errorf("a whole record scores %v", got)
	}
	without := whole
	without.Logos = nil
	if got := extract.Score(&without, true); got != 0.33 {
		t.Errorf("without a logo it scores %v", got)
	}
	icon := whole
	icon.Logos = []eventschemas.Logo{{Type: "icon", Formats: asset("png", 32)}}
	if got := extract.Score(&icon, false); got >= 0.6 {
		t.Errorf("with a tiny icon only it scores %v", got)
	}
	restricted := adult.Restricted()
	if got := extract.Score(&restricted, true); got != 0 {
		t.Errorf("a restricted record scores %v", got)
	}
	if !extract.Complete(&whole) || extract.Complete(&without) || extract.Complete(&restricted) {
		t.Error("wrong result of Complete for name, logo, color and description")
	}
}
