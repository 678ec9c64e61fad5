package colors_test

import (
	"fmt"
	"strings"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/css"
	"letterhead/internal/imaging"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/colors"
	"letterhead/workers/crawl/extract/extracttest"
	"letterhead/workers/crawl/manifest"
	"letterhead/workers/crawl/site"
)

func colorsOf(in extract.Input, inks ...imaging.Swatch) string {
	var palettes []colors.Palette
	if len(inks) > 0 {
		palettes = []colors.Palette{{Source: "logo", Inks: inks}}
	}
	var out []string
	for _, c := range colors.Decide(in, palettes).Value {
		out = append(out, c.Type+" "+c.Hex)
	}
	return strings.Join(out, ", ")
}

// swatches reads "#rrggbb share" pairs.
func swatches(t *testing.T, text string) []imaging.Swatch {
	t.Helper()
	var out []imaging.Swatch
	for pair := range strings.SplitSeq(text, ", ") {
		var hex string
		var share float64
		if _, err := fmt.Sscanf(pair, "%s %g", &hex, &share); err != nil {
			t.Fatal(err)
		}
		c, ok := colors.Parse(hex)
		if !ok {
			t.Fatal(hex)
		}
		out = append(out, imaging.Swatch{Color: c, Share: share})
	}
	return out
}

// TestDecide_LogoColors_OneBecomesAccent checks which of a logo's colors becomes the accent.
func TestDecide_LogoColors_OneBecomesAccent(t *testing.T) {
	for name, c := range map[string]struct{ inks, want string }{
		"the color among black letters": {"#000000 0.9, #e50914 0.1", "#e50914"},
		"vivid over pale":               {"#f0d6b7 0.5, #d33833 0.3, #231f20 0.2", "#d33833"},
		"all shades of one hue":         {"#f79838 0.4, #0a62c4 0.2, #1478d6 0.2, #2a86dc 0.2", "#0a62c4"},
		"a glaring yellow":              {"#fed30c 0.35, #3186ff 0.3, #000000 0.35", "#3186ff"},
		"yellow when it is all":         {"#fffc00 0.7, #ffffff 0.3", "#fffc00"},
		"no color at all":               {"#222222 0.6, #999999 0.4", "#222222"},
		"ink of a grey brand on white":  {"#ffffff 0.7, #f4f4f4 0.2, #333333 0.1", "#333333"},
		"pale yellow is not white":      {"#ffffff 0.7, #ffef6b 0.3", "#ffef6b"},
		"a pixel of noise":              {"#222222 0.99, #e50914 0.01", "#222222"},
	} {
		t.Run(name, func(t *testing.T) {
			got := colorsOf(extracttest.Read("acme.com", ""), swatches(t, c.inks)...)
			if first, _, _ := strings.Cut(got, ","); first != "accent "+c.want {
				t.Errorf("got %q, want the accent %s", got, c.want)
			}
		})
	}
}

func TestDecide_FirstLogoWeighsMost(t *testing.T) {
	red, blue := swatches(t, "#e50914 1"), swatches(t, "#0b5fff 1")
	for want, palettes := range map[string][]colors.Palette{
		"#e50914": {{Source: "a", Inks: red}, {Source: "b", Inks: blue}},
		"#0b5fff": {{Source: "b", Inks: blue}, {Source: "a", Inks: red}},
	} {
		if got := colors.Decide(extracttest.Read("acme.com", ""), palettes); got.Value[0].Hex != want || got.Method != "logo palette" {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// White and almost white are the usual background of a brand.
func TestDecide_WhiteIsNotAccent(t *testing.T) {
	mask := `<link rel=mask-icon href=/m.svg color=`
	for name, c := range map[string]struct{ page, inks, want string }{
		"white ink alone":                {"", "#ffffff 1", "light #ffffff"},
		"white ink, a dark theme":        {`<meta name=theme-color content="#112233">`, "#ffffff 1", "accent #112233, light #ffffff"},
		"white ink, a black theme":       {`<meta name=theme-color content="#000">`, "#ffffff 1", "accent #000000, light #ffffff"},
		"white ink, a dark page":         {`<style>body{background:#14161a}</style>`, "#fefefe 1", "accent #14161a, light #fefefe"},
		"white ink, a light page":        {`<style>body{background:#f3f3f3}</style>`, "#ffffff 1", "light #ffffff"},
		"white ink, a colored button":    {`<style>button{background:#e50914}</style><button>Buy</button>`, "#ffffff 1", "accent #e50914, light #ffffff"},
		"a dark page has no other say":   {`<style>body{background:#14161a}</style>`, "#ffffff 0.9, #999999 0.1", "accent #999999, light #ffffff"},
		"a black theme has no other say": {`<meta name=theme-color content="#000">`, "#0b5fff 1", "accent #0b5fff"},
		"a white mask":                   {mask + `"#fff">`, "", ""},
		"a nearly white mask":            {mask + `"#fdfdfd">`, "#333333 1", "accent #333333"},
		"a black mask":                   {mask + `"#000">`, "", "accent #000000"},
		"a colored mask":                 {mask + `"#e50914">`, "#ffffff 1", "accent #e50914, light #ffffff"},
		"pale greys alone":               {mask + `"#ffffff">`, "#ffffff 0.5, #d0d0d0 0.5", "light #ffffff, brand #d0d0d0"},
	} {
		t.Run(name, func(t *testing.T) {
			var inks []imaging.Swatch
			if c.inks != "" {
				inks = swatches(t, c.inks)
			}
			in := extracttest.Styled(c.page, "")
			if got := colorsOf(in, inks...); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for _, w := range colors.Weighed(in, []colors.Palette{{Inks: inks}}) {
				if w.Won != strings.Contains(c.want, "accent "+w.Value) {
					t.Errorf("%+v, want %q", w, c.want)
				}
			}
		})
	}
}

// A color of Microsoft's palette for tiles counts only if another source agrees, or if it is declared elsewhere.
func TestDecide_TileColor_NeedsSecondSource(t *testing.T) {
	for _, hex := range []string{"#2b5797", "#603cba", "#00aba9", "#b91d47", "#ffc40d", "#2d89ef", "#9f00a7", "#00a300", "#1e7145", "#99b433", "#e3a21a", "#7e3878", "#ee1111", "#da532c", "#ffffff"} {
		tile := `<meta name=msapplication-TileColor content="` + hex + `">`
		if got := colorsOf(extracttest.Read("acme.com", tile)); got != "" {
			t.Errorf("%s in a tile: %q", hex, got)
		}
		config := extracttest.Read("acme.com", "")
		config.Config = &manifest.Manifest{TileColor: hex}
		if got := colorsOf(config); got != "" {
			t.Errorf("%s in a configuration of tiles: %q", hex, got)
		}
		if hex == "#ffffff" {
			continue
		}
		for _, witness := range []string{`<meta name=theme-color content="` + hex + `">`, `<link rel=mask-icon href=/m.svg color="` + hex + `">`} {
			if got := colorsOf(extracttest.Read("acme.com", tile+witness)); got != "accent "+hex {
				t.Errorf("%s in a tile and %s: %q", hex, witness, got)
			}
		}
	}
	if got := colorsOf(extracttest.Read("acme.com", `<meta name=msapplication-TileColor content="#0b5fff">`)); got != "accent #0b5fff" {
		t.Errorf("own tile: %q", got)
	}
}

func TestDecide_Stylesheets_GiveColors(t *testing.T) {
	buttons := `<a class="btn btn-primary">Buy</a><button>Send</button><p>Read <a href=/x>more</a> of it</p>`
	for name, c := range map[string]struct{ css, want string }{
		"a variable":                     {`:root{--brand-color:#e50914}`, "accent #e50914"},
		"brand before accent":            {`:root{--accent:#0b5fff;--color-brand:#e50914}`, "accent #e50914, brand #0b5fff"},
		"camel case":                     {`:root{--themeColorPrimary:#e50914}`, "accent #e50914"},
		"through a variable":             {`:root{--red:#e50914;--primary:var(--red)}`, "accent #e50914"},
		"channels":                       {`:root{--primary:229 9 20}`, "accent #e50914"},
		"hue and percentages":            {`:root{--primary:0 100% 50%}`, "accent #ff0000"},
		"channels with a suffix":         {`:root{--primary-rgb:229, 9, 20}`, "accent #e50914"},
		"oklch":                          {`:root{--primary:oklch(0.6279 0.2577 29.23)}`, "accent #ff0000"},
		"display-p3":                     {`:root{--primary:color(display-p3 1 0 0)}`, "accent #ff0000"},
		"mixed":                          {`:root{--primary:color-mix(in srgb, red 50%, black)}`, "accent #800000"},
		"faint":                          {`:root{--primary:rgba(229,9,20,.4)}`, ""},
		"faintly mixed":                  {`:root{--primary:color-mix(in srgb, red 40%, transparent)}`, ""},
		"states, texts and shades":       {`:root{--primary-hover:#e50914;--brand-text:#e50914;--color-danger-primary:#e50914;--primary-100:#e50914;--on-primary:#e50914;--brand-secondary:#e50914}`, ""},
		"the middle of a scale":          {`:root{--brand-50:#00ff00;--brand-500:#e50914;--brand-900:#000055}`, "accent #e50914"},
		"a theme's palette":              {`:root{--global-palette1:#e50914;--global-palette2:#00ff00}`, "accent #e50914"},
		"other meanings":                 {`:root{--error:#e50914;--red:#e50914}`, ""},
		"a framework's":                  {`:root{--bs-primary:#0d6efd;--swiper-theme-color:#123456;--wp-admin-theme-color:#123456}`, ""},
		"a button":                       {`.btn{background:#e50914 none} button{background-color:#e50914}`, "accent #e50914"},
		"a framework's color, own rule":  {`.btn-primary{background-color:#007bff}`, "accent #007bff"},
		"a button with a gradient":       {`.btn{background:linear-gradient(90deg,rgb(229,9,20) 10%,#ff8000)} button{background-image:radial-gradient(#e50914,#ff8000)}`, "accent #e50914"},
		"a gradient below a picture":     {`button{background:url(/a.png), LINEAR-gradient(color-mix(in srgb, #e50914 100%, #fff) calc(10% + 2px), #ff8000)}`, "accent #e50914"},
		"a button with a picture":        {`button{background-image:cross-fade(#e50914,#e50914)}`, ""},
		"links":                          {`a{color:#e50914}`, "accent #e50914"},
		"grey buttons are the page's":    {`button{background:#222} a{color:#e50914}`, "accent #e50914, dark #222222"},
		"not a hovered button":           {`button:hover{background:#e50914}`, ""},
		"not a color":                    {`:root{--primary:12px;--brand:var(--none);--accent:url(x)}`, ""},
		"variable before link and black": {`:root{--brand:#000} a{color:#0b5fff} button{background:#e50914}`, "accent #0b5fff, dark #000000, brand #e50914"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := colorsOf(extracttest.Styled("<style>"+c.css+"</style>"+buttons, "")); got != c.want && c.want != "" || c.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDecide_VariableThatThePageDoesNotShow_CountsForNothing(t *testing.T) {
	page := `<style>:root{--primary:#e50914;--brand:#0b5fff}a{color:var(--brand)}</style><p><a href=/x>More</a></p>`
	if got := colorsOf(extracttest.Styled(page, "")); got != "accent #0b5fff" {
		t.Errorf("got %q", got)
	}
	hidden := `<style>.btn{background:#e50914}a{color:#0b5fff}</style><p><a href=/x>More</a></p><div style="display: none"><a class=btn href=/y>Buy</a></div><div hidden><a class=btn href=/z>Buy</a></div>`
	if got := colorsOf(extracttest.Styled(hidden, "")); got != "accent #0b5fff" {
		t.Errorf("hidden buttons: %q", got)
	}
}

func TestDecide_VariableOfABorderOrGradient_IsShown(t *testing.T) {
	for name, style := range map[string]string{
		"border":   `.btn{border:2px solid var(--brand)}`,
		"gradient": `.btn{background:linear-gradient(to right, #222 0%, var(--brand) 100%)}`,
		"section":  `section{background-image:radial-gradient(circle, #222, var(--brand)), url(/a.png)}`,
		"second":   `section{background-image:linear-gradient(#222, #333), linear-gradient(#222, var(--brand))}`,
	} {
		page := `<style>:root{--brand:#0b5fff;--primary:#e50914}` + style + `</style><section><a class=btn href=/y>Buy</a></section>`
		if got := colorsOf(extracttest.Styled(page, "")); !strings.HasPrefix(got, "accent #0b5fff") || strings.Contains(got, "e50914") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// A menu with many links displaces neither the colors of the rest of the page nor its own links' colors.
func TestDecide_LargeMenu_LeavesTheRestOfThePageToBeSeen(t *testing.T) {
	menu := `<nav><ul>` + strings.Repeat(`<li><a href=/m>Menu</a></li>`, 300) + `</ul></nav>`
	page := `<style>:root{--primary:#e50914;--brand:#0b5fff}nav a{color:#00aa55}h2{color:var(--brand)}</style>` + menu + `<h2>Our work</h2>`
	if got := colorsOf(extracttest.Styled(page, "")); !strings.HasPrefix(got, "accent #0b5fff") || strings.Contains(got, "e50914") {
		t.Errorf("a heading's color: got %q", got)
	}
	links := `<style>a{color:#0b5fff}nav a{color:#00aa55}</style>` + menu + strings.Repeat(`<p><a href=/x>More</a></p>`, 50)
	if got := colorsOf(extracttest.Styled(links, "")); !strings.HasPrefix(got, "accent #0b5fff") {
		t.Errorf("links: got %q", got)
	}
}

func TestDecide_LoneThemeColor_YieldsToTheLogo(t *testing.T) {
	page := `<meta name=theme-color content="#e50914"><meta name=msapplication-TileColor content="#e50914">`
	if got := colorsOf(extracttest.Read("acme.com", page), swatches(t, "#0b5fff 0.6, #222222 0.4")...); !strings.HasPrefix(got, "accent #0b5fff") {
		t.Errorf("got %q", got)
	}
	if got := colorsOf(extracttest.Read("acme.com", page), swatches(t, "#222222 1")...); !strings.HasPrefix(got, "accent #e50914") {
		t.Errorf("a grey logo: %q", got)
	}
}

func TestDecide_IgnoresForeignBlocks(t *testing.T) {
	page := `<style>button{background:#00aa55}</style><div id=onetrust-consent-sdk><button>Accept</button></div><div class="cookie-banner"><p><a style="color:#00aa55" href=/c>more</a></p></div>`
	if got := colorsOf(extracttest.Styled(page, "")); got != "" {
		t.Errorf("got %q", got)
	}
}

// A brand may have the same blue as a framework, whose own sheet does not declare it for the brand.
func TestDecide_FrameworkColor_NeedsSecondSource(t *testing.T) {
	const rules = `:root{--primary:#0d6efd}.btn{background:#0d6efd}`
	for file, want := range map[string]string{"/a.css": "accent #0d6efd", "/css/bootstrap.min.css": "", "/npm/kit@5/all.css": "", "/wp-includes/a.css": ""} {
		in := extracttest.Read("acme.com", `<link rel=stylesheet href="`+file+`"><a class=btn href=/b>Buy</a>`)
		in.Style = css.New(in.Page.Root, in.Page.Base, map[string][]byte{"https://www.acme.com" + file: []byte(rules)}, site.Resolve)
		if got := colorsOf(in); got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
	page := `<link rel=stylesheet href=/bootstrap.css><style>:root{--bs-primary:#0d6efd}</style>`
	if got := colorsOf(extracttest.Styled(page, ""), swatches(t, "#0d6efd 1")...); got != "accent #0d6efd" {
		t.Errorf("with a logo: %q", got)
	}
	if got := colorsOf(extracttest.Read("acme.com", `<meta name=msapplication-TileColor content="#da532c"><link rel=mask-icon href=/m.svg color="#5bbad5">`)); got != "" {
		t.Errorf("color of a generator: %q", got)
	}
}

func TestWeighed_Colors_WinnerFirst(t *testing.T) {
	in := extracttest.Styled(`<meta name=theme-color content="#e50914"><style>:root{--brand:#e50915}a{color:#0b5fff}button{color:var(--brand)}</style><p><a href=/>x</a></p><button>y</button>`, "")
	list := colors.Weighed(in, nil)
	decided := colors.Decide(in, nil)
	if len(list) != 2 || !list[0].Won || list[1].Won || list[0].Value != decided.Value[0].Hex || list[0].Method != decided.Method {
		t.Fatalf("Weighed = %+v, want the decided color %+v first", list, decided)
	}
	if !strings.Contains(list[0].Note, "also") || list[0].Score <= list[1].Score {
		t.Errorf("the winner has no other source or no higher score: %+v", list)
	}
	if colors.Weighed(extracttest.Read("acme.com", ""), nil) != nil {
		t.Error("evidence without a result")
	}
}

// A white logo has the color of what it lies on, as a browser shows it.
func TestDecide_WhiteLogo_HasColorOfSurface(t *testing.T) {
	for name, c := range map[string]struct{ css, body, want string }{
		"header":              {`header{background-color:#3b0a5c}`, `<header><a href=/><img src=/w.png></a></header>`, "#3b0a5c"},
		"class":               {`body{background:#fff}.top{background:#3b0a5c url(/x.png)}`, `<div class=top><div><img src=/w.png></div></div>`, "#3b0a5c"},
		"inline":              {``, `<header style="background:#10264f;padding:1em"><img src=/w.png></header>`, "#10264f"},
		"variable":            {`:root{--deep:#10264f}header{background:var(--deep)}`, `<header><img src=/w.png></header>`, "#10264f"},
		"gradient":            {`header{background:linear-gradient(#10264f,#0b5fff)}`, `<header><img src=/w.png></header>`, "#10264f"},
		"attribute":           {``, `<table><tr><td bgcolor="#3b0a5c"><img src=/w.png></table>`, "#3b0a5c"},
		"body":                {`body{background:#3b0a5c}`, `<header><img src=/w.png></header>`, "#3b0a5c"},
		"hero under a header": {`body{background:#fff}.hero{background:#3b0a5c}header{position:absolute}`, `<header><img src=/w.png></header><main><section class=hero><h1>x</h1></section></main>`, "#3b0a5c"},
		"nearest":             {`header{background:#fff}.tag{background:#3b0a5c}`, `<header><div class=tag><img src=/w.png></div></header>`, "#3b0a5c"},
		"black":               {`header{background:#111}`, `<header><img src=/w.png></header>`, "#111111"},
		"a declared color":    {`:root{--brand:#e50914}header{background:#3b0a5c}`, `<header><img src=/w.png><a style="color:var(--brand)" href=/a>a</a></header>`, "#e50914"},
	} {
		t.Run(name, func(t *testing.T) {
			in := extracttest.Styled("<style>"+c.css+"</style><body>"+c.body, "")
			logo := colors.Palette{Source: "logo", Inks: swatches(t, "#ffffff 1"), Node: in.Page.Images[0].Node}
			got := ""
			for _, x := range colors.Decide(in, []colors.Palette{logo}).Value {
				if x.Type == "accent" {
					got = x.Hex
				}
			}
			if got != c.want {
				t.Errorf("accent %q, want %q", got, c.want)
			}
			logo.Inks = swatches(t, "#0b5fff 1")
			if first := colors.Decide(in, []colors.Palette{logo}).Value[0].Hex; first != "#0b5fff" && c.want != "#e50914" {
				t.Errorf("a blue logo: accent %s", first)
			}
		})
	}
}

func TestDecide_DeclaredAndUsed_OutranksSmallInk(t *testing.T) {
	const page = `<style>:root{--accent:#0b7a75}.btn{background:var(--accent)}</style><a class=btn href=/b>Buy</a>`
	for name, c := range map[string]struct{ page, inks, want string }{
		"a vivid small ink":     {page, "#222222 0.5, #7a4b1e 0.3, #ff0066 0.2", "#0b7a75"},
		"the largest ink":       {page, "#222222 0.1, #e50914 0.9", "#e50914"},
		"declared but not used": {`<style>:root{--accent:#0b7a75}</style>`, "#222222 0.2, #e50914 0.8", "#e50914"},
		"several small hues":    {`<style>.btn{background:#0b7a75}</style><a class=btn href=/b>Buy</a>`, "#222222 0.8, #ff0066 0.07, #ffcc00 0.07, #00cc44 0.06", "#0b7a75"},
		"small hues alone":      {``, "#1d1d1f 0.8, #ff0066 0.07, #ffcc00 0.07, #00cc44 0.06", "#1d1d1f"},
	} {
		got := colorsOf(extracttest.Styled(c.page, ""), swatches(t, c.inks)...)
		if !strings.HasPrefix(got, "accent "+c.want) {
			t.Errorf("%s: got %q, want the accent %s", name, got, c.want)
		}
	}
}

func TestDecide_InlineStyles_GiveColors(t *testing.T) {
	for body, want := range map[string]string{
		`<div><a style="color:#e50914" href=/a>a</a></div>`:              "accent #e50914",
		`<div style="background:#0b5fff;color:#fff">Opening hours</div>`: "accent #0b5fff",
		`<table><tr><td bgcolor=#0b5fff>Menu</td></tr></table>`:          "accent #0b5fff",
		`<div style="background:#eeeeee">Opening hours</div>`:            "",
	} {
		if got := colorsOf(extracttest.Styled(body, "")); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

// Dark is what looks dark: pure red and pure blue do not.
func TestDecide_Dark_LooksDark(t *testing.T) {
	for hex, want := range map[string]string{"#ff0000": "brand", "#0000ff": "brand", "#10264f": "dark", "#3b0a5c": "dark", "#4a0404": "dark", "#222222": "dark"} {
		got := colorsOf(extracttest.Read("acme.com", ""), swatches(t, "#00b050 0.8, "+hex+" 0.2")...)
		if !strings.Contains(got, want+" "+hex) {
			t.Errorf("%s: got %q, want %s", hex, got, want)
		}
	}
}

func FuzzColorsOfSheets(f *testing.F) {
	for _, seed := range []string{"#e50914", "229 9 20", "0 100% 50%", "color-mix(in oklab, red 10%, rgb(0 0 0 / .5))", "color-mix(in srgb,red 0%,blue 0%)", "color(display-p3 1 0", "hsl(NaN 1% 1%)", "light-dark(red,blue)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		in := extracttest.Styled(`<link rel=stylesheet href=/a.css>`, ":root{--brand:"+value+"}")
		for _, c := range colors.Decide(in, nil).Value {
			if len(c.Hex) != 7 || c.Brightness < 0 || c.Brightness > 255 {
				t.Errorf("%q: %+v", value, c)
			}
		}
	})
}

func TestDecide_Sources_GiveColors(t *testing.T) {
	palette := func(swatches ...imaging.Swatch) []colors.Palette {
		return []colors.Palette{{Source: "logo", Inks: swatches}}
	}
	red, blue, grey := imaging.RGB{R: 0xe5, G: 0x09, B: 0x14}, imaging.RGB{R: 0x0b, G: 0x5f, B: 0xff}, imaging.RGB{R: 0x33, G: 0x33, B: 0x33}
	for name, c := range map[string]struct {
		body     string
		palettes []colors.Palette
		want     string
	}{
		"logo before declared":    {`<meta name="theme-color" content="#0b5fff">`, palette(imaging.Swatch{Color: red, Share: 1}), "accent #e50914, brand #0b5fff"},
		"declared only":           {`<meta name="theme-color" content="#0B5FFF">`, nil, "accent #0b5fff"},
		"white and black are not": {`<meta name="theme-color" content="#ffffff"><meta name="msapplication-TileColor" content="black">`, nil, ""},
		"alike colors are one":    {`<meta name="theme-color" content="#0b5ffe">`, palette(imaging.Swatch{Color: blue, Share: 1}), "accent #0b5fff"},
		"dark, light and the rest": {`<meta name="theme-color" content="#14213d">`, palette(imaging.Swatch{Color: blue, Share: 0.5}, imaging.Swatch{Color: imaging.White, Share: 0.3}, imaging.Swatch{Color: red, Share: 0.2}),
			"accent #0b5fff, dark #14213d, light #ffffff, brand #e50914"},
		"grey brand":       {``, palette(imaging.Swatch{Color: grey, Share: 0.6}, imaging.Swatch{Color: imaging.White, Share: 0.4}), "accent #333333, light #ffffff"},
		"stray pixels":     {``, palette(imaging.Swatch{Color: blue, Share: 0.99}, imaging.Swatch{Color: red, Share: 0.01}), "accent #0b5fff"},
		"mask icon":        {`<link rel="mask-icon" href="/m.svg" color="#e50914">`, nil, "accent #e50914"},
		"transparent":      {`<meta name="theme-color" content="rgba(11,95,255,0.2)">`, nil, ""},
		"hsl":              {`<meta name="theme-color" content="hsl(0, 100%, 50%)">`, nil, "accent #ff0000"},
		"by mixing":        {`<meta name="theme-color" content="color-mix(in srgb, #f00, #00f)"><meta name="msapplication-TileColor" content="tomato">`, nil, "accent #ff6347"},
		"by name":          {`<meta name="theme-color" content="rebeccapurple"><meta name="msapplication-TileColor" content="tomato">`, nil, "accent #ff6347"},
		"not a color":      {`<meta name="theme-color" content="javascript:alert(1)">`, nil, ""},
		"first of several": {`<meta name="theme-color" content="#e50914" media="(prefers-color-scheme: light)"><meta name="theme-color" content="#0b5fff" media="(prefers-color-scheme: dark)">`, nil, "accent #e50914"},
	} {
		t.Run(name, func(t *testing.T) {
			found := colors.Decide(extracttest.Read("acme.com", c.body), c.palettes).Value
			var got []string
			for _, x := range found {
				got = append(got, x.Type+" "+x.Hex)
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
			if found == nil {
				t.Error("colors are nil, want an empty list")
			}
		})
	}
	in := extracttest.Read("acme.com", "")
	in.Manifest = &manifest.Manifest{ThemeColor: "#0b5fff", BackgroundColor: "#ffffff"}
	in.Config = &manifest.Manifest{TileColor: "#e50914"}
	in.Known = &eventschemas.Record{Colors: []eventschemas.Color{{Hex: "#00aa55", Type: "accent"}}}
	if got := colors.Decide(in, nil).Value; len(got) != 4 || got[0].Hex != "#00aa55" {
		t.Errorf("manifest, tile and data set: %v", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"#fff", "#12345678", "rgb(1,2,3)", "rgb(1 2 3 / 50%)", "hsl(-1e9deg, 200%, -5%)", "red", "rgba(,,,)", "hsl(nan,1,1)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if c, ok := colors.Parse(text); ok {
			if again, ok := colors.Parse(c.Hex()); !ok || again != c {
				t.Errorf("%q is %s, which reads as %s", text, c.Hex(), again.Hex())
			}
		}
	})
}
