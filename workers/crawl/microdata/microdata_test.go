package microdata_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/microdata"
	"letterhead/workers/crawl/site"
)

func parse(t testing.TB, text string) *linkeddata.Graph {
	t.Helper()
	root := testmust.Get(html.Parse(strings.NewReader(text)))(t)
	return microdata.Parse(root, &url.URL{Scheme: "https", Host: "acme.com", Path: "/about/"})
}

// first returns the first object of a type.
func first(g *linkeddata.Graph, kind string) *linkeddata.Object {
	for _, o := range g.Objects {
		if o.Is(kind) {
			return o
		}
	}
	return nil
}

const shop = `<div itemscope itemtype="https://schema.org/Store http://schema.org/Organization">
	<h1 itemprop="name">Acme <b>Shop</b></h1><a itemprop="url" href="/">home</a><img itemprop="logo image" src="l.png">
	<div itemprop="address" itemscope itemtype="http://schema.org/PostalAddress"><span itemprop="streetAddress">Main St 1<br>Yard</span>
	<span itemprop="addressLocality">Lisbon</span><meta itemprop="addressCountry" content="PT"></div>
	<time itemprop="foundingDate" datetime="1999-05-01">long ago</time><data itemprop="numberOfEmployees" value="12">a dozen</data></div>`

func TestParse_Items_BecomeLinkedData(t *testing.T) {
	g := parse(t, shop)
	store := first(g, "Store")
	if store == nil || !store.Is("Organization") || store.Text("name") != "Acme Shop" || store.Text("foundingDate") != "1999-05-01" || store.Text("numberOfEmployees") != "12" {
		t.Fatalf("the item became %+v", store)
	}
	if fmt.Sprint(store.URLs("url"), store.URLs("logo"), store.URLs("image")) != "[https://acme.com/] [https://acme.com/about/l.png] [https://acme.com/about/l.png]" {
		t.Error(store.URLs("url"), store.URLs("logo"), store.URLs("image"))
	}
	address := store.Linked("address")
	if len(address) != 1 || address[0].Text("streetAddress") != "Main St 1 Yard" || address[0].Text("addressLocality") != "Lisbon" || address[0].Text("addressCountry") != "PT" {
		t.Errorf("address %+v", address)
	}
	if o := g.Owner(site.New("acme.com"), func(string) float64 { return 0 }); o == nil || o.Text("name") != "Acme Shop" {
		t.Errorf("owner %+v", o)
	}
}

func TestParse_OtherForms_AreRead(t *testing.T) {
	for name, x := range map[string]struct{ text, want string }{
		"itemref":                  {`<p id=a itemprop=name>Acme</p><div itemscope itemtype="http://schema.org/Organization" itemref="a b"></div>`, "Acme"},
		"circular itemref":         {`<div id=a><div id=b itemscope itemtype="http://schema.org/Organization" itemref="a b"><i itemprop=name>Acme</i></div></div>`, "Acme"},
		"RDFa Lite":                {`<div vocab="https://schema.org/" typeof="Organization"><span property="name">Acme</span></div>`, "Acme"},
		"RDFa with prefix":         {`<div typeof="schema:Organization"><span property="schema:name">Acme</span></div>`, "Acme"},
		"og is not RDFa":           {`<meta property="og:title" content="No"><div itemscope itemtype="http://schema.org/Organization"><meta property="name" content="No"><b itemprop=name>Acme</b></div>`, "Acme"},
		"content attribute":        {`<div itemscope itemtype="http://schema.org/Organization"><b itemprop=name content=Acme>Other</b></div>`, "Acme"},
		"full URL":                 {`<div itemscope itemtype="http://schema.org/Organization"><b itemprop="http://schema.org/name">Acme</b></div>`, "Acme"},
		"the name of another item": {`<div itemscope itemtype="http://schema.org/Organization"><div itemprop=founder itemscope itemtype="http://schema.org/Person"><b itemprop=name>Ann</b></div></div>`, ""},
	} {
		o := first(parse(t, x.text), "Organization")
		if o == nil || o.Text("name") != x.want {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if g := microdata.Parse(nil, nil); len(g.Objects) != 0 {
		t.Error("a nil document has items")
	}
	if g := parse(t, `<p itemprop=name>Acme`); len(g.Objects) != 0 {
		t.Error("found a property without an item")
	}
}

func TestParse_HostilePage_StaysWithinLimits(t *testing.T) {
	var ids strings.Builder
	for i := range 200 {
		fmt.Fprintf(&ids, `<div id=i%d itemscope itemprop=x itemref="i%d i%d i%d"></div>`, i, (i+1)%200, (i+2)%200, (i+3)%200)
	}
	for name, text := range map[string]string{
		"many items":      strings.Repeat(`<p itemscope itemtype="http://schema.org/Organization"><b itemprop=name>x</b></p>`, 20_000),
		"many properties": `<div itemscope>` + strings.Repeat(`<b itemprop="a b c d e">x</b>`, 20_000),
		"one long text":   `<div itemscope itemtype="http://schema.org/Organization"><p itemprop=name>` + strings.Repeat("x ", 500_000),
		"nested":          strings.Repeat(`<div itemscope itemprop=x>`, 400),
		"nested text":     `<div itemscope>` + strings.Repeat(`<i itemprop=x>text `, 400),
		"web of itemrefs": ids.String(),
	} {
		if g := parse(t, text); len(g.Objects) > 4000 {
			t.Errorf("%s: %d objects", name, len(g.Objects))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		shop, `<p id=a itemprop=name>A<div itemscope itemref="a a"><div itemscope itemprop=x itemref=a>`, `<div vocab=schema.org typeof="schema: /"><b property="schema:">`,
		`<b itemscope itemtype="/ # x" itemid=a itemprop="@id / x"><time itemprop=t>`, `<a itemscope><a itemprop=u href="%zz:">`,
	} {
		f.Add(seed)
	}
	acme := site.New("acme.com")
	f.Fuzz(func(t *testing.T, text string) {
		root, err := html.Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		g := microdata.Parse(root, nil)
		for _, o := range g.Objects {
			o.Text("name")
			o.URLs("url")
			o.Linked("address")
		}
		g.Owner(acme, func(string) float64 { return 1 })
	})
}

func BenchmarkParse(b *testing.B) {
	root := testmust.Get(html.Parse(strings.NewReader(strings.Repeat(shop, 20))))(b)
	for b.Loop() {
		microdata.Parse(root, nil)
	}
}
