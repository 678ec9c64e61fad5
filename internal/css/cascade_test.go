package css_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"letterhead/internal/css"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl/site"
)

var base = &url.URL{Scheme: "https", Host: "acme.com", Path: "/en/"}

// cascade parses a page and its style elements.
func cascade(t testing.TB, body string, sheets map[string]string) (*css.Cascade, *html.Node) {
	t.Helper()
	root := testmust.Get(html.Parse(strings.NewReader(body)))(t)
	bytes := map[string][]byte{}
	for at, text := range sheets {
		bytes[at] = []byte(text)
	}
	return css.New(root, base, bytes, site.Resolve), root
}

// element finds the element with the id x.
func element(n *html.Node) *html.Node {
	for _, a := range n.Attr {
		if a.Key == "id" && a.Val == "x" {
			return n
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if found := element(c); found != nil {
			return found
		}
	}
	return nil
}

func TestValue_Cascade_LastDeclarationWins(t *testing.T) {
	for name, c := range map[string]struct{ css, body, property, want string }{
		"by name":                       {`p { color: red }`, `<p id=x>`, "color", "red"},
		"nothing said":                  {`p { color: red }`, `<b id=x>`, "color", ""},
		"later wins":                    {`p { color: red } p { color: blue }`, `<p id=x>`, "color", "blue"},
		"class over name":               {`p.a { color: red } p { color: blue }`, `<p id=x class=a>`, "color", "red"},
		"id over classes":               {`#x { color: red } .a.b.c { color: blue }`, `<p id=x class="a b c">`, "color", "red"},
		"important":                     {`p { color: red !important } #x { color: blue }`, `<p id=x>`, "color", "red"},
		"style attribute":               {`#x { color: blue }`, `<p id=x style="color: red; top: 0">`, "color", "red"},
		"important over attribute":      {`p { color: red ! IMPORTANT }`, `<p id=x style="color:blue">`, "color", "red"},
		"list":                          {`b, p , i { color: red }`, `<p id=x>`, "color", "red"},
		"descendant":                    {`header .a p { color: red }`, `<header><div class=a><div><p id=x>`, "color", "red"},
		"child":                         {`header > p { color: red }`, `<header><div><p id=x>`, "color", ""},
		"sibling":                       {`b + p { color: red } i ~ p { top: 0 }`, `<b></b><p id=x>`, "color", "red"},
		"backtracking":                  {`.a > .b p { color: red }`, `<div class=a><div class=b><div class=b><p id=x>`, "color", "red"},
		"attribute selector":            {`[data-a="1"] { color: red }`, `<p id=x data-a=1>`, "color", "red"},
		"backslash alone":               {"\\\n{ color: blue } p { color: red }", `<p id=x>`, "color", "red"},
		"escaped class":                 {`.md\:a\/2 { color: red }`, `<p id=x class="md:a/2">`, "color", "red"},
		"nth":                           {`p:nth-child(2) { color: red }`, `<b></b><p id=x>`, "color", "red"},
		"not":                           {`p:not(.a) { color: red }`, `<p id=x>`, "color", "red"},
		"hover":                         {`p:hover { color: red }`, `<p id=x>`, "color", ""},
		"hover in a list":               {`p:hover, p { color: red }`, `<p id=x>`, "color", "red"},
		"unknown pseudo":                {`p:frobnicated, p::part(a) { color: red }`, `<p id=x>`, "color", ""},
		"is":                            {`:is(h1, p):not(.b) { color: red }`, `<p id=x>`, "color", "red"},
		"is weighs as its heaviest":     {`:is(p, #none) { color: red } .a.a { color: blue }`, `<p id=x class=a>`, "color", "red"},
		"where weighs nothing":          {`p { color: red } :where(#x) { color: blue }`, `<p id=x>`, "color", "red"},
		"where with ancestors":          {`.a:where(.dark, .dark *) { color: red }`, `<div class=dark><p id=x class=a>`, "color", "red"},
		"where in a preset":             {`:root :where(p) { color: red }`, `<p id=x>`, "color", "red"},
		"comments":                      {`/* a */ p /* b */ { /* c */ color /* d */ : /* e */ red /* f */ ; }`, `<p id=x>`, "color", "red"},
		"broken declaration":            {`p { color; : red; co lor: blue; 12: 3; color: red }`, `<p id=x>`, "color", "red"},
		"star hack":                     {`p { color: red; *color: blue }`, `<p id=x>`, "color", "red"},
		"stray brace spoils a rule":     {`} p { color: red } p { top: 0 }`, `<p id=x>`, "color", ""},
		"unclosed":                      {`p { color: red`, `<p id=x>`, "color", "red"},
		"semicolon spoils a rule":       {`b{}; p { color: red } p { top: 0 }`, `<p id=x>`, "color", ""},
		"brace in a string":             {`p::before { content: "}" } p { color: red }`, `<p id=x>`, "color", "red"},
		"screen":                        {`@media screen { p { color: red } }`, `<p id=x>`, "color", "red"},
		"print":                         {`@media print { p { color: red } }`, `<p id=x>`, "color", ""},
		"wide":                          {`@media (min-width: 48em) { p { color: red } }`, `<p id=x>`, "color", "red"},
		"very wide":                     {`@media (min-width: 1281px) { p { color: red } }`, `<p id=x>`, "color", ""},
		"narrow":                        {`@media only screen and (max-width:600px) { p { color: red } }`, `<p id=x>`, "color", ""},
		"one of several":                {`@media print, (max-width: 1280px) { p { color: red } }`, `<p id=x>`, "color", "red"},
		"range":                         {`@media (400px <= width < 1281px) { p { color: red } }`, `<p id=x>`, "color", "red"},
		"not print":                     {`@media not print { p { color: red } }`, `<p id=x>`, "color", "red"},
		"not all and":                   {`@media not all and (min-width: 100px) { p { color: red } }`, `<p id=x>`, "color", ""},
		"not a condition":               {`@media not (hover: none) { p { color: red } }`, `<p id=x>`, "color", "red"},
		"either condition":              {`@media (max-width: 1px) or (hover) { p { color: red } }`, `<p id=x>`, "color", "red"},
		"dark scheme":                   {`@media (prefers-color-scheme: dark) { p { color: red } }`, `<p id=x>`, "color", ""},
		"retina":                        {`@media (-webkit-min-device-pixel-ratio: 2), (min-resolution: 192dpi) { p { color: red } }`, `<p id=x>`, "color", ""},
		"media within media":            {`@media screen { @media (min-width: 1px) { p { color: red } } @media print { p { color: blue } } }`, `<p id=x>`, "color", "red"},
		"supports":                      {`@supports (display: grid) { p { color: red } } @supports not (display: grid) { p { color: blue } }`, `<p id=x>`, "color", "red"},
		"layers":                        {`@layer a, b; @layer b { p { color: red } } @layer a { #x { color: blue } }`, `<p id=x>`, "color", "red"},
		"no layer":                      {`p { color: red } @layer a { #x { color: blue } }`, `<p id=x>`, "color", "red"},
		"layer within":                  {`@layer a { p { color: red } @layer b { p { color: blue } } }`, `<p id=x>`, "color", "red"},
		"important layers":              {`@layer a { p { color: red !important } } @layer b { p { color: blue !important } } p { color: green !important }`, `<p id=x>`, "color", "red"},
		"nesting":                       {`.a { color: blue; & p { color: red } }`, `<div class=a><p id=x>`, "color", "red"},
		"nesting without ampersand":     {`.a { p { color: red } color: blue }`, `<div class=a><p id=x>`, "color", "red"},
		"nested class":                  {`p { color: blue; &.a { color: red } }`, `<p id=x class=a>`, "color", "red"},
		"nested media":                  {`p { color: blue; @media screen { color: red } }`, `<p id=x>`, "color", "red"},
		"after nesting":                 {`p { b { top: 0 } color: red }`, `<p id=x>`, "color", "red"},
		"keyframes and unknown rules":   {`@keyframes a { from { color: blue } } @page { margin: 0 } @foo x { p { color: blue } } p { color: red }`, `<p id=x>`, "color", "red"},
		"variable":                      {`:root { --c: red } p { color: var(--c) }`, `<p id=x>`, "color", "red"},
		"variable of a variable":        {`:root { --a: var( --b ); --b: red } p { color: var(--a) }`, `<p id=x>`, "color", "red"},
		"variable inherited":            {`:root { --c: blue } .a { --c: red } p { color: var(--c) }`, `<div class=a><p id=x>`, "color", "red"},
		"fallback":                      {`p { color: var(--none, var(--none2, red)) }`, `<p id=x>`, "color", "red"},
		"unknown variable":              {`p { color: red } p { color: var(--none) }`, `<p id=x>`, "color", "red"},
		"cycle":                         {`:root { --a: var(--b); --b: var(--a) } p { color: var(--a, red) }`, `<p id=x>`, "color", "red"},
		"self":                          {`:root { --a: var(--a) } p { color: var(--a, red) }`, `<p id=x>`, "color", "red"},
		"variable within a function":    {`:root { --c: 1 2 3 } p { color: rgb(var(--c) / 1) }`, `<p id=x>`, "color", "rgb(1 2 3 / 1)"},
		"variable keeps its case":       {`:root { --C: red; --c: blue } p { color: var(--C) }`, `<p id=x>`, "color", "red"},
		"variable of a style attribute": {`p { color: var(--c) }`, `<p id=x style="--c: red">`, "color", "red"},
		"light-dark":                    {`p { color: light-dark(red, blue) }`, `<p id=x>`, "color", "red"},
		"light-dark of a dark page":     {`body { color-scheme: dark } p { color: light-dark(red, blue) }`, `<p id=x>`, "color", "blue"},
		"light-dark of both schemes":    {`body { color-scheme: dark light } p { color: light-dark(red, blue) }`, `<p id=x>`, "color", "red"},
		"mixed with the current color":  {`p { color: #046; fill: color-mix(in srgb, currentColor 40%, red) }`, `<p id=x>`, "fill", "color-mix(in srgb, #046 40%, red)"},
		"mixed with the parent's color": {`body { color: #046 } p { color: color-mix(in srgb, currentColor, red) }`, `<p id=x>`, "color", "color-mix(in srgb, #046, red)"},
		"a scheme of schemes":           {`p { color-scheme: light-dark(dark, dark); color: light-dark(red, blue) }`, `<p id=x>`, "color", "red"},
		"inherit":                       {`div { color: red } p { color: inherit }`, `<div><p id=x>`, "color", "red"},
		"initial":                       {`p { color: initial }`, `<p id=x>`, "color", ""},
		"family of a font":              {`p { font: italic 700 12px/1.5 "Open Sans", sans-serif }`, `<p id=x>`, "font-family", `"Open Sans", sans-serif`},
		"family of a font with a var":   {`:root { --f: Lora } p { font: 1em var(--f), serif }`, `<p id=x>`, "font-family", `Lora, serif`},
		"weight of a font":              {`p { font: 700 12px Arial }`, `<p id=x>`, "font-weight", "700"},
		"image of a background":         {`p { background: #fff url(/a.svg) no-repeat center / 10px auto }`, `<p id=x>`, "background-image", `url("https://acme.com/a.svg")`},
		"color of a background":         {`p { background: #fff url(/a.svg) no-repeat center / 10px auto }`, `<p id=x>`, "background-color", "#fff"},
		"size of a background":          {`p { background: #fff url(/a.svg) no-repeat center / 10px auto }`, `<p id=x>`, "background-size", "10px auto"},
		"position of a background":      {`p { background: url(/a.svg) -10px -20px }`, `<p id=x>`, "background-position", "-10px -20px"},
		"a background takes back":       {`p { background-image: url(a.svg) } p { background: red }`, `<p id=x>`, "background-image", "none"},
		"relative address":              {`p { background-image: url( 'a.svg' ) }`, `<p id=x>`, "background-image", `url("https://acme.com/en/a.svg")`},
		"data address":                  {`p { background-image: url(data:image/png;base64,AA==) }`, `<p id=x>`, "background-image", `url(data:image/png;base64,AA==)`},
		"data with brackets":            {`p { background: url("data:image/svg+xml,<g transform='a(1)'/>") }`, `<p id=x>`, "background-image", `url("data:image/svg+xml,<g transform='a(1)'/>")`},
		"mask":                          {`p { -webkit-mask: url(a.svg) }`, `<p id=x>`, "mask-image", `url("https://acme.com/en/a.svg")`},
		"fragment":                      {`p { fill: url(#g) }`, `<p id=x>`, "fill", "url(#g)"},
		"fill attribute":                {``, `<svg><path id=x fill="#f00"/></svg>`, "fill", "#f00"},
		"rule over fill attribute":      {`path { fill: red }`, `<svg><path id=x fill=blue /></svg>`, "fill", "red"},
		"fill attribute with variable":  {`:root{--c:red}`, `<svg><path id=x fill="var(--c)"/></svg>`, "fill", "red"},
		"color of a border":             {`p { border: 2px solid var(--a) } * { --a: #c00 }`, `<p id=x>`, "border-color", "#c00"},
		"border without a color":        {`p { border-color: red; border: 0 }`, `<p id=x>`, "border-color", "currentcolor"},
		"color after a border":          {`p { border: 1px solid red; border-color: #00f }`, `<p id=x>`, "border-color", "#00f"},
		"old page":                      {``, `<table bgcolor="#ff0000" id=x>`, "background-color", "#ff0000"},
		"tricks of style attributes":    {``, `<p id=x style="background:url(&quot;a;b.png&quot;);}color:blue;color:red">`, "background-image", `url("https://acme.com/en/a;b.png")`},
	} {
		t.Run(name, func(t *testing.T) {
			sheet, root := cascade(t, "<style>"+c.css+"</style>"+c.body, nil)
			if got := sheet.Value(element(root), c.property); got != c.want {
				t.Errorf("%q\n%s\ngot  %q\nwant %q", c.css, c.body, got, c.want)
			}
		})
	}
}

func TestValue_Inherited_FromParent(t *testing.T) {
	c, root := cascade(t, `<style>body { font-family: Lora; color: red } div { color: initial } p { font-family: inherit }</style><div><p><b id=x>`, nil)
	if got := c.Inherited(element(root), "font-family"); got != "Lora" {
		t.Errorf("family is %q", got)
	}
	if got := c.Value(element(root), "font-family"); got != "" {
		t.Errorf("the element itself has %q", got)
	}
	if got := c.Inherited(element(root), "color"); got != "" {
		t.Errorf("color is %q after initial", got)
	}
}

func TestGenerated_Content_IsRead(t *testing.T) {
	c, root := cascade(t, `<style>p { color: red } p::before { background: url(a.svg) } p:after { color: blue }</style><p id=x>`, nil)
	x := element(root)
	if got := c.Generated(x, "before", "background-image"); got != `url("https://acme.com/en/a.svg")` {
		t.Errorf("color of ::before = %q", got)
	}
	if got := c.Generated(x, "after", "color"); got != "blue" {
		t.Errorf("color of ::after = %q", got)
	}
	if got := c.Value(x, "color"); got != "red" {
		t.Errorf("the element has %q", got)
	}
}

func TestValue_MediaQueries_LightScheme(t *testing.T) {
	c, root := cascade(t, `<style>:root { --c: red; color-scheme: light dark } @media (prefers-color-scheme: dark) { :root { --c: blue } } @media (prefers-color-scheme: light) { p { top: 0 } } p { color: var(--c); fill: light-dark(red, blue) }</style><p id=x>`, nil)
	x := element(root)
	for property, want := range map[string]string{"color": "red", "fill": "red", "top": "0"} {
		if got := c.Value(x, property); got != want {
			t.Errorf("%s: %q, want %q", property, got, want)
		}
	}
}

func TestSheets_Linked_AreApplied(t *testing.T) {
	page := `<link rel=stylesheet href="/a.css#v"><style>p { color: green }</style>
		<link rel=stylesheet href="https://cdn.test/b.css" media=screen><link rel=stylesheet href=/print.css media=print>
		<link rel=stylesheet href=/late.css media=print onload="this.media='all'"><link rel="alternate stylesheet" href=/other.css><noscript><style>p{top:9}</style></noscript><p id=x>`
	c, root := cascade(t, page, map[string]string{
		"https://acme.com/a.css":     `@import "/c.css"; @import url(//cdn.test/no.css) print; p { color: red; fill: red }`,
		"https://acme.com/c.css":     `@import url(a.css); p { fill: blue; stroke: red }`,
		"https://cdn.test/b.css":     `p { color: blue; background: url(b.png) }`,
		"https://acme.com/print.css": `p { color: black }`,
		"https://acme.com/late.css":  `p { top: 1px }`,
		"https://acme.com/other.css": `p { color: white }`,
	})
	x := element(root)
	for property, want := range map[string]string{
		"color": "blue", "fill": "red", "stroke": "red", "top": "1px", "background-image": `url("https://cdn.test/b.png")`,
	} {
		if got := c.Value(x, property); got != want {
			t.Errorf("%s is %q, want %q", property, got, want)
		}
	}
	if got := fmt.Sprint(c.Imported()); got != "[https://acme.com/c.css https://acme.com/a.css https://cdn.test/no.css]" {
		t.Errorf("imported %s", got)
	}
}

func TestImports_Sheet_AreListed(t *testing.T) {
	sheet := `@charset "utf-8"; /* a */ @import url("b.css"); @import 'https://cdn.test/c.css' screen; @import url(d.css) layer(x) print;
		@import url(e.css) layer supports(display:grid); @import url(b.css); @import "ftp://acme.com/f.css"; @layer a; p { } @import "late.css";`
	got := fmt.Sprint(css.Imports([]byte(sheet), base, site.Resolve))
	if want := "[https://acme.com/en/b.css https://cdn.test/c.css https://acme.com/en/e.css]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestValue_Variables_AreResolved(t *testing.T) {
	c, _ := cascade(t, `<style>:root { --b: var(--a); --a: red } html { --a: blue } body { --c: 1 } p { --no: 1 } @media print { :root { --no2: 1 } }</style>`, nil)
	if got := fmt.Sprint(c.Variables()); got != "[{--b red https://acme.com/en/} {--a red https://acme.com/en/} {--c 1 https://acme.com/en/}]" {
		t.Error(got)
	}
}

func TestFaces_FontFaceRules_AreRead(t *testing.T) {
	c, _ := cascade(t, `<link rel=stylesheet href=/a.css>`, map[string]string{"https://acme.com/a.css": `
		@font-face { font-family: "Open Sans"; src: local("x"), url(o.woff2) format("woff2"), url('https://fonts.gstatic.com/o.woff'); font-weight: 300 800 }
		@font-face { font-family: Bold\ Face; src: url(b.woff); font-weight: bold }
		@font-face { src: url(n.woff) } @media print { @font-face { font-family: Print } }`})
	if got := fmt.Sprint(c.Faces()); got != "[{Open Sans [https://acme.com/o.woff2 https://fonts.gstatic.com/o.woff] [300 800]} {Bold Face [https://acme.com/b.woff] [700]}]" {
		t.Error(got)
	}
}

func TestCascade_Nil_IsEmpty(t *testing.T) {
	var c *css.Cascade
	if c.Value(&html.Node{}, "color") != "" || c.Inherited(nil, "color") != "" || c.Variables() != nil || !c.Empty() {
		t.Error("the nil cascade has values")
	}
	c = css.New(nil, nil, nil, site.Resolve)
	if c.Value(&html.Node{Type: html.ElementNode, Data: "p"}, "color") != "" || c.Variables() != nil || !c.Empty() {
		t.Error("the cascade of a nil document has values")
	}
}

// TestSheets_Hostile_StayWithinLimits reads malicious sheets: without the limits on work, several
// of them would run until the test times out.
func TestSheets_Hostile_StayWithinLimits(t *testing.T) {
	vars := &strings.Builder{}
	for i := range 40 {
		fmt.Fprintf(vars, "--v%d: var(--v%d) var(--v%d);", i, i+1, i+1)
	}
	many := func(count int, format string) string {
		out := &strings.Builder{}
		for i := range count {
			fmt.Fprintf(out, format, i)
		}
		return out.String()
	}
	deep := strings.Repeat("<div class=a>", 500) + "<p id=x class=a>"
	for name, c := range map[string]struct{ css, body string }{
		"braces":                {strings.Repeat("{", 1<<20), "<p id=x>"},
		"nested rules":          {strings.Repeat("a{", 400_000) + "color:red", "<p id=x>"},
		"nested lists":          {strings.Repeat("a,b,c,d{", 100_000), "<p id=x>"},
		"long parents":          {strings.Repeat("."+strings.Repeat("a", 980)+",", 500) + "b{" + strings.Repeat(strings.Repeat("&", 1000)+"{color:red}", 500), "<p id=x>"},
		"nested media":          {strings.Repeat("@media screen{", 70_000), "<p id=x>"},
		"parentheses":           {"p{color:" + strings.Repeat("(", 1<<19), "<p id=x>"},
		"vars":                  {":root{" + vars.String() + "--v40: aaaaaaaaaa} p{color:var(--v0)}", "<p id=x>"},
		"long chain":            {":root{" + many(20_000, "--v%[1]d: var(--w%[1]d, 1);") + "}", "<p id=x>"},
		"nested fallbacks":      {"p{color:" + strings.Repeat("var(--a,", 100_000), "<p id=x>"},
		"data":                  {"p{background:url(data:image/png;base64," + strings.Repeat("A", 5<<20) + ")}", "<p id=x>"},
		"descendants":           {many(2000, strings.Repeat("div ", 14)+".b%d p{color:red}"), deep},
		"nots":                  {many(5000, "p:not(div div div div .c%d){color:red}"), deep},
		"alternatives":          {many(500, strings.Repeat(":is(.a,.b,.c,.d,.e,.f,.g,.h)", 12)+"{color:red%d}"), deep},
		"is within is":          {strings.Repeat(":is(", 100_000), deep},
		"nth":                   {many(20_000, "p:nth-last-of-type(%dn+1){color:red}"), strings.Repeat("<p></p>", 50_000) + "<p id=x>"},
		"one class":             {many(60_000, "div .a p{color:#%06d}.a{color:#%06[1]d}"), deep},
		"many rules":            {many(60_000, "*{color:#%06d}"), deep},
		"layers":                {many(50_000, "@layer a%d{p{color:red}}"), "<p id=x>"},
		"deep layers":           {"@layer " + strings.Repeat("a.", 100_000) + "a{p{color:red}}", "<p id=x>"},
		"faces":                 {many(20_000, `@font-face{font-family:a%d;src:url(a)}`), "<p id=x>"},
		"a string without end":  {`p{font-family:"` + strings.Repeat("a", 1<<20), "<p id=x>"},
		"escapes":               {"." + strings.Repeat(`\`, 100_001) + "{color:red} p{color:\\", "<p id=x>"},
		"end of the page":       {`p{font-family:"&lt;/style&gt;"}`, "<p id=x>"},
		"style attribute":       {"", `<p id=x style="` + strings.Repeat("a:(;", 200_000) + `">`},
		"backgrounds":           {"p{background:" + strings.Repeat("url(a) ,", 60_000) + "red}", "<p id=x>"},
		"media of many queries": {"@media " + strings.Repeat("(min-width:1px) and ", 50_000) + "screen{p{color:red}}", "<p id=x>"},
	} {
		t.Run(name, func(t *testing.T) {
			root := testmust.Get(html.Parse(strings.NewReader("<link rel=stylesheet href=/a.css>" + c.body)))(t)
			sheet := css.New(root, base, map[string][]byte{"https://acme.com/a.css": []byte(c.css)}, site.Resolve)
			x := element(root)
			for _, property := range []string{"color", "font-family", "background-image"} {
				if got := sheet.Inherited(x, property); len(got) > css.MaxSheetBytes {
					t.Errorf("%s has %d bytes", property, len(got))
				}
			}
			sheet.Variables()
			sheet.Faces()
		})
	}
}

// TestSheets_ImportLoop_Ends reads sheets that import each other endlessly.
func TestSheets_ImportLoop_Ends(t *testing.T) {
	sheets := map[string]string{}
	for i := range 60 {
		text := ""
		for j := range 60 {
			text += fmt.Sprintf("@import '/%d.css';", j)
		}
		sheets[fmt.Sprintf("https://acme.com/%d.css", i)] = text + "p{color:red}" + strings.Repeat("/**/", 50_000)
	}
	c, root := cascade(t, `<link rel=stylesheet href=/0.css><p id=x>`, sheets)
	if got := c.Value(element(root), "color"); got != "red" {
		t.Errorf("color is %q", got)
	}
}

// Page builders write a style element for every block.
func TestSheets_ManyStyleElements_StayWithinLimits(t *testing.T) {
	c, root := cascade(t, strings.Repeat("<style>b{top:0}</style>", 300)+"<style>p{color:red}</style><p id=x>", nil)
	if got := c.Value(element(root), "color"); got != "red" {
		t.Errorf("color is %q", got)
	}
}

func FuzzCascade(f *testing.F) {
	for _, seed := range []string{
		`p{color:red}`, `@media (min-width:1px){.a>p:not(.b){color:var(--a,red)!important}}`, `:root{--a:var(--b);--b:var(--a)}p{font:12px/1.5 var(--a)}`,
		`@layer a{@layer b.c{p{background:url(a.svg) 1px 2px/3px #fff}}}`, `@import url(a.css) layer(x) supports(a:b) screen;`, `.a{&:is(p,.b) c{color:red}}`,
		`@font-face{font-family:"a\62 c";src:url(a),url("b");font-weight:1 900}`, `p::before{content:"\`, `:where(:is(a,b)c,d>e)p{color:light-dark(a,b)}`, `p{mask:url(`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sheet string) {
		root := testmust.Get(html.Parse(strings.NewReader(`<link rel=stylesheet href=/a.css><div class="a b"><p id=x class=b><svg><path fill=red></svg>`)))(t)
		c := css.New(root, base, map[string][]byte{"https://acme.com/a.css": []byte(sheet)}, site.Resolve)
		x := element(root)
		for _, property := range []string{"color", "font-family", "font-weight", "background-image", "background-color", "mask-image", "--a"} {
			c.Value(x, property)
			c.Inherited(x, property)
			c.Generated(x, "before", property)
		}
		c.Variables()
		for _, face := range c.Faces() {
			if face.Family == "" {
				t.Error("a face without a family")
			}
		}
		for _, u := range css.Imports([]byte(sheet), base, site.Resolve) {
			if u.Scheme != "http" && u.Scheme != "https" {
				t.Errorf("imports %s", u)
			}
		}
	})
}
