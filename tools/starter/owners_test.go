package main

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"
)

func TestFit(t *testing.T) {
	for _, c := range []struct {
		name, domain string
		want         fit
	}{
		{"GitHub", "github.com", sameName},
		{"AT&T", "att.com", sameName},
		{"Booking.com", "booking.com", sameName},
		{"Bitly", "bit.ly", sameName},
		{"Three.js", "threejs.org", sameName},
		{"Notepad++", "notepad-plus-plus.org", sameName},
		{"ŠKODA", "skoda.cz", sameName},
		{"Bank of America", "bankofamerica.com", sameName},
		{"Bootstrap", "getbootstrap.com", decorated},
		{"Express", "expressjs.com", decorated},
		{"Khronos Group", "khronos.org", decorated},
		{"Etihad Airways", "etihad.com", decorated},
		{"Burger King", "bk.com", initialed},
		{"Godot", "godotengine.org", related},
		{"Hilton Hotels & Resorts", "hilton.com", related},
		{"Yandex Cloud", "yandex.com", related}, // the cloud of a company is not the company
		{"Volkswagen", "vw.com", unlike},
		{"XAMPP", "apachefriends.org", unlike},
		{"!!!", "example.com", unlike},
	} {
		if got := fitOf(c.name, c.domain); got != c.want {
			t.Errorf("%s and %s: %s, want %s", c.name, c.domain, got, c.want)
		}
	}
}

func TestPlaceOf(t *testing.T) {
	for _, c := range []struct {
		link string
		want place
		ok   bool
	}{
		{"https://www.example.com/", place{Domain: "example.com", Front: true}, true},
		{"https://press.example.co.uk/kit", place{Domain: "example.co.uk"}, true},
		{"https://example.com/de-ch", place{Domain: "example.com", Front: true}, true},
		{"https://example.com/ir", place{Domain: "example.com"}, true},
		{"https://example.com/?topic=1", place{Domain: "example.com"}, true},
		{"https://github.com/a/b", place{Domain: "github.com", Shared: true}, true},
		{"https://github.com", place{Domain: "github.com", Shared: true, Front: true}, true},
		{"https://play.google.com/store", place{Domain: "google.com", Shared: true}, true},
		{"https://esbuild.github.io/", place{Domain: "esbuild.github.io", Shared: true, Front: true}, true},
		{"https://acme.notion.site/brand", place{}, false},
		{"https://web.archive.org/web/2019/https://acme.com", place{Domain: "archive.org", Shared: true}, true},
		{"ftp://example.com/", place{}, false},
		{"https://127.0.0.1/", place{}, false},
		{"https://localhost/", place{}, false},
		{"not a link", place{}, false},
	} {
		if got, ok := placeOf(c.link); got != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %v, want %+v, %v", c.link, got, ok, c.want, c.ok)
		}
	}
}

func TestSharedHosts_AreRegistrableOrSuffixes(t *testing.T) {
	for host := range sharedHosts {
		domain, err := publicsuffix.EffectiveTLDPlusOne(host)
		if suffix, _ := publicsuffix.PublicSuffix(host); err == nil && domain != host && suffix != host {
			t.Errorf("%s has no effect, because its links are attributed to %s", host, domain)
		}
	}
}

// at returns a product with links to its site.
func at(name string, links ...string) product {
	p := product{Source: iconifyLogos, Name: name}
	for _, l := range links {
		p.Links = append(p.Links, link{l, "company link"})
	}
	return p
}

func licensed(p product) product { p.Licensed = true; return p }

func also(p product, aliases ...string) product { p.Aliases = aliases; return p }

// owners returns "domain name" for every product that won a domain.
func owners(products ...product) []string {
	out := []string{}
	for _, o := range findOwners(products) {
		out = append(out, o.Domain+" "+o.Claims[0].Product.Name)
	}
	return out
}

func TestOwners(t *testing.T) {
	for _, c := range []struct {
		why      string
		products []product
		want     []string
	}{
		{"the only product, named like its domain", []product{at("Acme", "https://acme.com/brand")}, []string{"acme.com Acme"}},
		{"the product named like the domain owns it", []product{
			at("Acme", "https://acme.com/brand"), at("Acme Pay", "https://acme.com/pay"), at("Rocket", "https://rocket.acme.com"),
		}, []string{"acme.com Acme"}},
		{"no product is named like the domain", []product{
			at("Rocket", "https://holding.com/"), at("Anvil", "https://holding.com/anvil"),
		}, []string{}},
		{"two products match equally well", []product{
			at("Acme", "https://acme.com"), also(at("Other", "https://acme.com"), "unused"), at("acme!", "https://acme.com/x"), at("A.c.m.e", "https://acme.com/y"),
		}, []string{"acme.com A.c.m.e"}}, // three spellings of one name are one brand
		{"a licensed product keeps its domain but is not used", []product{
			licensed(at("Deno", "https://deno.com")), at("Deno Deploy", "https://deno.com/deploy"),
		}, []string{}},
		{"a shared host identifies no owner", []product{at("Tool", "https://github.com/acme/tool")}, []string{}},
		{"the brand of a shared host owns it", []product{
			at("GitHub", "https://github.com/logos"), at("Tool", "https://github.com/acme/tool"),
		}, []string{"github.com GitHub"}},
		{"the brand of a shared host with another name", []product{at("Internet Archive", "https://archive.org/about")}, []string{"archive.org Internet Archive"}},
		{"the better of two links", []product{
			at("Acme", "https://brand.agency.com/acme", "https://press.acme.com/kit"),
		}, []string{"acme.com Acme"}},
		{"the second-best link of one product competes with others", []product{
			at("Acme", "https://acme.com", "https://parent.com/acme"), at("Rocket", "https://parent.com"),
		}, []string{"acme.com Acme"}},
		{"the domain of a press kit is not the brand's", []product{
			at("Acme", "https://acmebrand.com/"), at("Anvil", "https://anvil.design/logo"),
		}, []string{}},
		{"the only product, with another name, on the front page", []product{at("Volkswagen", "https://www.vw.com")}, []string{"vw.com Volkswagen"}},
		{"the only product, with another name, on a deep page", []product{at("Rocket", "https://holding.com/brands/rocket")}, []string{}},
		{"the only product, with matching initials", []product{at("Burger King", "https://bk.com/trademarks")}, []string{"bk.com Burger King"}},
		{"an alias is a short form", []product{also(at("Bluesky", "https://bsky.social/about/press"), "bsky")}, []string{"bsky.social Bluesky"}},
		{"an alias is the maker", []product{also(at("Octane Render", "https://otoy.com/forum"), "otoy")}, []string{}},
		{"pages of a project host", []product{at("esbuild", "https://esbuild.github.io/"), at("Other", "https://project.github.io/")}, []string{"esbuild.github.io esbuild"}},
	} {
		if got := owners(c.products...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
		}
	}
}

func TestOwners_SameBrandInBothSources(t *testing.T) {
	declared := at("Acme", "https://acme.com")
	declared.Source, declared.Mark = simpleIcons, &mark{Hex: "ff0000", Path: "M0 0h24v24z"}
	drawn := at("acme", "http://www.acme.com/")
	got := findOwners([]product{declared, drawn})
	if len(got) != 1 || len(got[0].Claims) != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestJoinHomeless_ByNameAndColor(t *testing.T) {
	e := testRenderer(t)
	red := drawing{Name: "acme", Body: `<path fill="#f00" d="M0 0h64v64H0z"/>`, Width: 64, Height: 64}
	for name, c := range map[string]struct {
		hex  string
		want int
	}{"same color": {"fe0102", 2}, "another color": {"00aa00", 1}, "gray proves nothing": {"101010", 1}} {
		t.Run(name, func(t *testing.T) {
			homeless := at("Acme", "https://github.com/acme/brand")
			homeless.Source, homeless.Mark = simpleIcons, &mark{Hex: c.hex, Path: "M0 0h24v24z"}
			drawn := at("Acme", "https://acme.com")
			drawn.Icons = []drawing{red}
			products := []product{homeless, drawn}
			got := findOwners(products)
			e.joinHomeless(products, got)
			if len(got) != 1 || len(got[0].Claims) != c.want {
				t.Errorf("%d claims, want %d", len(got[0].Claims), c.want)
			}
		})
	}
}

func FuzzPlaceOf(f *testing.F) {
	for _, s := range []string{"https://example.com/", "https://[::1]/", "http://xn--a/", "https://a..b/", "https://%zz/", "HTTPS://EXAMPLE.COM."} {
		f.Add(s, "Example")
	}
	f.Fuzz(func(t *testing.T, link, name string) {
		p, ok := placeOf(link)
		if !ok {
			return
		}
		if p.Domain == "" || p.Domain != strings.ToLower(p.Domain) {
			t.Errorf("%q is at %q", link, p.Domain)
		}
		if f := fitOf(name, p.Domain); f < unlike || f > sameName {
			t.Errorf("%q and %q: %d, want at least %d and at most %d", name, p.Domain, f, unlike, sameName)
		}
		isKit(name, p.Domain)
	})
}
