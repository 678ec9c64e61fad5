package extract_test

import (
	"net/url"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/extracttest"
)

func TestLinks_OtherNetworks_AreCanonical(t *testing.T) {
	for address, want := range map[string]string{
		"https://www.facebook.com/profile.php?id=100064&ref=x":       "facebook https://www.facebook.com/profile.php?id=100064",
		"https://www.facebook.com/profile.php":                       "",
		"https://de-de.facebook.com/acme":                            "facebook https://de-de.facebook.com/acme",
		"https://m.facebook.com/acme/":                               "facebook https://m.facebook.com/acme/",
		"http://facebook.com/acme?ref=bookmarks#top":                 "facebook https://facebook.com/acme",
		"https://www.facebook.com/acme/photos/":                      "facebook https://www.facebook.com/acme",
		"https://www.facebook.com/p/Acme-Widgets-61550000000001/":    "facebook https://www.facebook.com/p/Acme-Widgets-61550000000001/",
		"https://www.facebook.com/people/Acme-Widgets/6155000000/":   "facebook https://www.facebook.com/people/Acme-Widgets/6155000000/",
		"https://www.facebook.com/pages/Acme-%26-Sons/1234567":       "facebook https://www.facebook.com/pages/Acme-%26-Sons/1234567",
		"https://www.facebook.com/%D0%90%D0%BA%D0%BC%D0%B5-12345":    "facebook https://www.facebook.com/%D0%90%D0%BA%D0%BC%D0%B5-12345",
		"https://developers.facebook.com/docs":                       "",
		"https://business.facebook.com/acme":                         "",
		"https://www.facebook.com/pg/acme/about/":                    "facebook https://www.facebook.com/acme",
		"https://www.facebook.com/acme/posts/123":                    "",
		"https://www.facebook.com/acme/events/123":                   "",
		"https://www.facebook.com/pages/category/Shop/Acme-12":       "facebook https://www.facebook.com/pages/category/Shop/Acme-12",
		"https://www.facebook.com/sharer.php?u=x":                    "",
		"https://www.facebook.com/dialog/share?href=x":               "",
		"https://www.instagram.com/acme/p/xyz/":                      "",
		"https://www.instagram.com/acme?igshid=1":                    "instagram https://www.instagram.com/acme/",
		"https://help.instagram.com/acme":                            "",
		"https://www.tiktok.com/@acme/video/123":                     "",
		"https://www.tiktok.com/@acme?lang=en":                       "tiktok https://www.tiktok.com/@acme",
		"https://github.com/orgs/acme/repositories":                  "github https://github.com/acme",
		"https://github.com/acme/widgets":                            "github https://github.com/acme",
		"https://docs.github.com/en":                                 "",
		"https://gist.github.com/acme":                               "",
		"https://github.com/sponsors/acme":                           "",
		"https://uk.linkedin.com/company/acme/?originalSubdomain=uk": "linkedin https://www.linkedin.com/company/acme",
		"https://www.linkedin.com/feed/":                             "",
		"https://www.linkedin.com/groups/123":                        "",
		"https://business.linkedin.com/company/acme":                 "",
		"https://www.youtube.com/c/acme/featured":                    "youtube https://www.youtube.com/c/acme",
		"https://www.youtube.com/shorts/abc":                         "",
		"https://www.youtube.com/playlist?list=1":                    "",
		"https://music.youtube.com/channel/UC1":                      "",
		"https://medium.com/@acme/a-post-1f2e":                       "medium https://medium.com/@acme",
		"https://help.medium.com/hc":                                 "",
		"https://bsky.app/profile/did:plc:abcdefghijklmnop":          "bluesky https://bsky.app/profile/did:plc:abcdefghijklmnop",
		"https://bsky.app/profile/acme.com/post/3k":                  "",
		"https://www.threads.net/@acme/post/abc":                     "",
		"https://x.com/acme.de":                                      "",
		"https://x.com/a_name_longer_than_fifteen":                   "",
		"https://x.com/acme/lists/team":                              "",
		"https://x.com/i/communities/1":                              "",
		"https://twitter.com/home?status=x":                          "",
		"https://twitter.com/#!/acme":                                "",
		"https://simple.wikipedia.org/wiki/Acme":                     "wikipedia https://simple.wikipedia.org/wiki/Acme",
		"https://en.wikipedia.org/wiki/Category:Acme":                "",
		"https://www.pinterest.co.uk/acme/boards/":                   "pinterest https://www.pinterest.com/acme",
		"https://discordapp.com/invite/acme":                         "discord https://discord.com/invite/acme",
		"https://www.crunchbase.com/person/jane":                     "",
		"javascript:alert(1)":                                        "",
	} {
		u := testmust.Get(url.Parse(address))(t)
		got := ""
		if name, canonical, ok := extract.Profile(u); ok {
			got = name + " " + canonical
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
	}
	if _, _, ok := extract.Profile(nil); ok {
		t.Error("a nil URL is a profile")
	}
}

func TestLinks_ForeignProfiles_AreIgnored(t *testing.T) {
	crowd := ""
	for _, who := range strings.Fields("ann ben cem dan eve fay gus") {
		crowd += `<a href="https://x.com/` + who + `">x</a>`
	}
	for name, c := range map[string]struct{ body, want string }{
		"an author's row": {`<article><a href="https://x.com/jane">x</a><a href="https://www.linkedin.com/in/jane">l</a><a href="https://www.facebook.com/jane">f</a><a href="https://www.instagram.com/jane">i</a></article>`, ""},
		"the brand's row in the body": {`<div><a href="https://x.com/acme">x</a><a href="https://www.facebook.com/measuredlife">f</a><a href="https://www.instagram.com/measuredlife">i</a></div>`,
			"twitter https://x.com/acme, instagram https://www.instagram.com/measuredlife/, facebook https://www.facebook.com/measuredlife"},
		"a crowd in the footer":              {`<footer>` + crowd + `</footer>`, ""},
		"the brand in a crowd":               {`<footer>` + crowd + `<a href="https://x.com/acmehq">x</a></footer>`, "twitter https://x.com/acmehq"},
		"the publisher's page":               {`<meta property="article:publisher" content="https://www.facebook.com/measuredlife">`, "facebook https://www.facebook.com/measuredlife"},
		"the author's page":                  {`<meta property="article:author" content="https://www.facebook.com/jane"><meta name="twitter:creator" content="@jane">`, ""},
		"twitter:site as an address":         {`<meta name="twitter:site" content="@https://twitter.com/measuredlife">`, "twitter https://x.com/measuredlife"},
		"a name in place of a handle":        {`<meta property="og:site_name" content="Acme"><meta name="twitter:site" content="Acme"><footer><a href="https://x.com/acmeonline">x</a></footer>`, "twitter https://x.com/acmeonline"},
		"an encyclopedia's article":          {`<footer><a href="https://en.wikipedia.org/wiki/Gauge_(instrument)">gauge</a></footer>`, ""},
		"its own article":                    {`<footer><a href="https://en.wikipedia.org/wiki/Acme_Corporation">we</a></footer>`, "wikipedia https://en.wikipedia.org/wiki/Acme_Corporation"},
		"a repository it uses":               {`<footer><a href="https://github.com/somebody/tool">built with</a></footer>`, ""},
		"its own repository":                 {`<header><a href="https://github.com/acme/gauge">source</a></header>`, "github https://github.com/acme"},
		"asked to follow":                    {`<p><a href="https://www.instagram.com/measuredlife">Follow us on Instagram</a></p>`, "instagram https://www.instagram.com/measuredlife/"},
		"asked to follow somebody":           {`<p><a href="https://www.instagram.com/jane">Follow Jane on Instagram</a></p>`, ""},
		"placeholders of a theme":            {`<footer><a href="https://www.facebook.com/yourpage">f</a><a href="https://x.com/username">x</a><a href="https://www.instagram.com/">i</a><a href="https://www.facebook.com/">f</a></footer>`, ""},
		"share buttons":                      {`<footer><a href="https://x.com/intent/tweet?url=a">x</a><a href="https://www.facebook.com/sharer/sharer.php?u=a">f</a><a href="https://www.linkedin.com/shareArticle?url=a">l</a><a href="https://pinterest.com/pin/create/button/?url=a">p</a></footer>`, ""},
		"the theme's maker":                  {`<footer><a href="https://www.facebook.com/elegantthemes">f</a><a href="https://www.instagram.com/squarespace/">i</a></footer>`, ""},
		"sameAs of an author":                {`<script type="application/ld+json">{"@type":"NewsArticle","author":{"@type":"Person","name":"Jane","url":"https://acme.com/jane","sameAs":["https://x.com/jane"]}}</script>`, ""},
		"sameAs said twice, once with more":  {extracttest.Organization(`"name":"Acme","url":"https://acme.com","sameAs":["https://x.com/acme"]`) + extracttest.Organization(`"name":"Acme.com","url":"https://www.acme.com/","sameAs":["https://www.tiktok.com/@acme"]`), "twitter https://x.com/acme, tiktok https://www.tiktok.com/@acme"},
		"sameAs of another brand's sister":   {extracttest.Organization(`"name":"Acme","url":"https://acme.com"`) + extracttest.Organization(`"name":"Sister","url":"https://sister.example","sameAs":["https://x.com/sister"]`), ""},
		"the subject of an article":          {`<article><p>The band <a href="https://www.instagram.com/theband">on Instagram</a> and <a href="https://x.com/theband">on X</a> said so.</p></article>`, ""},
		"the buyer's profile":                {`<footer><a href="https://x.com/colossal">Colossal on X</a></footer>`, ""},
		"a dealer's profile":                 {`<a href="https://nordwind-shop.example/">n</a><footer><a href="https://www.instagram.com/nordwind.shop">i</a></footer>`, ""},
		"a parent's profile":                 {extracttest.Organization(`"name":"Acme","url":"https://acme.com","parentOrganization":{"@type":"Corporation","name":"Colossal","url":"https://colossal.example"}`) + `<footer><a href="https://x.com/colossal">x</a></footer>`, ""},
		"the agency":                         {`<footer><a href="https://www.instagram.com/theagency">Site by The Agency</a></footer>`, ""},
		"the agency, before the link":        {`<footer><p>Site by <a href="https://www.instagram.com/theagency">The Agency</a></p></footer>`, ""},
		"the photographer":                   {`<footer>Photos: <a href="https://www.instagram.com/joe">Joe</a></footer>`, ""},
		"the photographer, a handle":         {`<footer><small>Fotos: <a href="https://www.instagram.com/joe">@joe</a></small></footer>`, ""},
		"the theme author, German":           {`<footer>Umsetzung: <a href="https://www.facebook.com/studionord">Studio Nord</a></footer>`, ""},
		"the agency, French":                 {`<footer>Réalisé par <a href="https://www.linkedin.com/company/atelier-web">Atelier</a></footer>`, ""},
		"powered by":                         {`<footer><a href="https://x.com/coolcms">Powered by CoolCMS</a></footer>`, ""},
		"designed by the brand":              {`<footer>Designed by <a href="https://www.instagram.com/acme">Acme</a></footer>`, "instagram https://www.instagram.com/acme/"},
		"words of its own at the edge":       {`<footer><a href="https://www.facebook.com/summerfest24">Our friends of the festival</a></footer>`, ""},
		"a sign at the edge":                 {`<footer><a href="https://www.facebook.com/measuredlife">Facebook</a></footer>`, "facebook https://www.facebook.com/measuredlife"},
		"the edge in another language":       {`<footer><a href="https://www.facebook.com/measuredlife">Visítanos en Facebook</a></footer>`, "facebook https://www.facebook.com/measuredlife"},
		"three networks side by side":        {`<div><a href="https://www.facebook.com/measuredlife">Facebook</a> <a href="https://www.instagram.com/measured.life"></a> <a href="https://www.youtube.com/@measured">YouTube</a></div>`, "instagram https://www.instagram.com/measured.life/, facebook https://www.facebook.com/measuredlife, youtube https://www.youtube.com/@measured"},
		"another network between":            {`<div><a href="https://www.facebook.com/acme">f</a> <a href="https://t.me/acme">t</a> <a href="https://www.youtube.com/channel/UC123">YouTube</a> <a href="https://www.tiktok.com/@acme">t</a></div>`, "facebook https://www.facebook.com/acme, youtube https://www.youtube.com/channel/UC123, tiktok https://www.tiktok.com/@acme"},
		"an author's three networks":         {`<div class="author-box"><a href="https://www.facebook.com/jane">Facebook</a> <a href="https://www.instagram.com/jane">Instagram</a> <a href="https://www.youtube.com/@jane">YouTube</a></div>`, ""},
		"somebody's row next to the brand's": {`<header><a href="https://www.facebook.com/acme">f</a></header><div><a href="https://www.facebook.com/jane">Facebook</a> <a href="https://www.instagram.com/jane">Instagram</a> <a href="https://www.youtube.com/@jane">YouTube</a></div>`, "facebook https://www.facebook.com/acme"},
		"the tag is a leftover":              {`<meta name="twitter:site" content="@finance_si"><meta property="og:site_name" content="Precision Gauges Weekly"><footer><a href="https://x.com/PGW_de">x</a></footer>`, "twitter https://x.com/PGW_de"},
		"the tag is the maker's":             {`<meta name="twitter:site" content="@nordwindsoftware">`, ""},
		"the tag is a section's":             {`<meta name="twitter:site" content="@acmeauto"><nav><a href="https://x.com/acme">x</a></nav>`, "twitter https://x.com/acme"},
		"the tag is the brand's":             {`<meta name="twitter:site" content="@measuredlife">`, "twitter https://x.com/measuredlife"},
		"an article on the thing":            {`<nav><a href="https://de.wikipedia.org/wiki/Acme">Was ist Acme</a></nav>`, ""},
		"an article on the parent":           {extracttest.Organization(`"name":"Acme","url":"https://acme.com","sameAs":["https://de.wikipedia.org/wiki/Colossal_Media"]`), ""},
		"another site's name in the handle":  {`<a href="https://nordwindpost.example/">n</a><footer><a href="https://www.youtube.com/user/wwwNORDWINDPOSTde">y</a></footer>`, ""},
		"a page by its number":               {`<footer><a href="https://www.facebook.com/pages/Measured-Life/123456">f</a></footer>`, "facebook https://www.facebook.com/pages/Measured-Life/123456"},
		"two networks at the end":            {`<a href=/a>a</a><a href=/b>b</a><a href=/c>c</a><a href=/d>d</a><a href=/e>e</a><a href=/f>f</a><div><a href="https://www.facebook.com/measuredlife/">f</a><a href="https://www.instagram.com/measured.life"><img src=/i.png></a></div>`, "instagram https://www.instagram.com/measured.life/, facebook https://www.facebook.com/measuredlife/"},
		"two addresses of one page":          {`<header><a href="https://facebook.com/acme/">f</a></header><footer><a href="https://www.facebook.com/acme">f</a><a href="https://www.facebook.com/other">f</a></footer>`, "facebook https://facebook.com/acme/"},
		"a sign in the body":                 {`<div><a href="https://www.linkedin.com/company/acmeprecision-gauges">LinkedIn</a></div>`, "linkedin https://www.linkedin.com/company/acmeprecision-gauges"},
		"a person's own site":                {`<footer><a href="https://www.linkedin.com/in/acme">l</a></footer>`, "linkedin https://www.linkedin.com/in/acme"},
		"handle by the name, not the domain": {`<meta property="og:site_name" content="Measured Life"><p><a href="https://www.instagram.com/measuredlife">i</a></p>`, "instagram https://www.instagram.com/measuredlife/"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			in := extracttest.Read("acme.com", c.body)
			for _, l := range extract.Links(in).Value {
				got = append(got, l.Name+" "+l.URL)
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
				for _, w := range extract.LinksWeighed(in) {
					t.Logf("%6.1f %s %s (%s)", w.Score, w.Value, w.Method, w.Note)
				}
			}
		})
	}
	hosted := readAt("paperstack.example", "https://paperstack.example/watermaps/agency", `<script type="application/ld+json">{"@type":"NewsArticle","publisher":{"@type":"Organization","name":"watermaps","url":"https://paperstack.example/watermaps"}}</script><meta name="twitter:site" content="@watermaps"><title>Agency | Paperstack</title>`)
	if got := extract.Links(hosted).Value; len(got) != 0 {
		t.Errorf("a publication's profile on a shared domain: %v", got)
	}
}

func FuzzProfile(f *testing.F) {
	for _, seed := range []string{"https://x.com/@acme", "https://www.facebook.com/profile.php?id=1", "https://a.medium.com", "https://en.wikipedia.org/wiki/%2F", "https://github.com/orgs/x", "https://youtube.com/@%00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		u, err := url.Parse(address)
		if err != nil {
			return
		}
		name, canonical, ok := extract.Profile(u)
		if !ok {
			return
		}
		again, err := url.Parse(canonical)
		if err != nil || again.Scheme != "https" {
			t.Fatalf("%q is %q", address, canonical)
		}
		if n, c, ok := extract.Profile(again); !ok || n != name || c != canonical {
			t.Errorf("%q is %q, which is %q %t", address, canonical, c, ok)
		}
	})
}
