package svg_test

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"letterhead/internal/imaging"
	"letterhead/internal/imaging/imagingtest"
	"letterhead/internal/svg"
	"letterhead/internal/svg/svgtest"
	"letterhead/internal/testmust"
)

func readLogo(t testing.TB, name string) []byte {
	t.Helper()
	data := testmust.Get(os.ReadFile(filepath.Join("testdata", "logos", name)))(t)
	return data
}

func sanitize(t *testing.T, markup string) (string, svg.Info) {
	t.Helper()
	clean, info, err := svg.Sanitize([]byte(markup))
	if err != nil {
		t.Fatalf("%v\n%.300s", err, markup)
	}
	return string(clean), info
}

var logos = []struct {
	file          string
	width, height int
}{
	{"google-icon.svg", 256, 262},
	{"slack-icon.svg", 256, 256},
	{"firefox.svg", 256, 265},
	{"gitlab.svg", 512, 111},
	{"nextjs-icon.svg", 256, 256},
	{"moon.svg", 256, 256},
	{"titon.svg", 256, 257},
	{"github-octocat.svg", 256, 259},
	{"simple-github.svg", 24, 24},
	{"illustrator.svg", 200, 50},
	{"inkscape.svg", 242, 242},
	{"scheme.svg", 32, 32},
}

func TestSanitize_RealLogos(t *testing.T) {
	for _, l := range logos {
		t.Run(l.file, func(t *testing.T) {
			in := readLogo(t, l.file)
			clean, info := sanitize(t, string(in))
			checkClean(t, []byte(clean), info)
			if info.Width == nil || info.Height == nil || *info.Width != l.width || *info.Height != l.height {
				t.Errorf("size is not %d×%d: %+v", l.width, l.height, info)
			}
			if p, err := imaging.Probe(in); err != nil || p.Format != imaging.SVG {
				t.Errorf("probe: %+v, %v", p, err)
			}
			if info.Text {
				t.Error("Text = true for a drawing, want false")
			}
		})
	}
}

// TestSanitize_PlainLogos_Unchanged compares the drawing instructions, number by number, in files that contain nothing
// else. Pixels were also compared once, over the whole set of 2,302 files with librsvg at 96 px: one differed, whose
// fill is not valid.
func TestSanitize_PlainLogos_Unchanged(t *testing.T) {
	for _, file := range []string{"google-icon.svg", "slack-icon.svg", "firefox.svg", "gitlab.svg", "nextjs-icon.svg", "moon.svg", "titon.svg", "github-octocat.svg", "simple-github.svg"} {
		in := readLogo(t, file)
		clean, _ := sanitize(t, string(in))
		want, got := drawing(t, in), drawing(t, []byte(clean))
		for i := range max(len(want), len(got)) {
			if i >= len(want) || i >= len(got) || want[i] != got[i] {
				t.Errorf("%s: element %d:\n got %.300s\nwant %.300s", file, i, at(got, i), at(want, i))
				break
			}
		}
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

var (
	anyNumber = regexp.MustCompile(`[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?`)
	anySpace  = regexp.MustCompile(`[\s,]+`)
)

// drawing lists the elements with their attributes in order, with normalized numbers and spaces.
func drawing(t *testing.T, svg []byte) []string {
	t.Helper()
	var out []string
	refs := regexp.MustCompile(`#([\w.:-]+)`).FindAllStringSubmatch(string(svg), -1)
	d := xml.NewDecoder(bytes.NewReader(svg))
	skip := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			return out
		}
		testmust.Succeed(t, err)
		switch e := token.(type) {
		case xml.StartElement:
			if skip > 0 || e.Name.Local == "title" {
				skip++
				continue
			}
			var attrs []string
			for _, a := range e.Attr {
				referred := slices.ContainsFunc(refs, func(m []string) bool { return m[1] == a.Value })
				if a.Name.Local == "role" || a.Name.Space == "xmlns" || a.Name.Local == "xmlns" || a.Name.Local == "id" && !referred || len(out) == 0 && (a.Name.Local == "width" || a.Name.Local == "height") {
					continue
				}
				v := anyNumber.ReplaceAllStringFunc(strings.ToLower(a.Value), func(n string) string {
					f := testmust.Get(strconv.ParseFloat(n, 64))(t)
					return " " + strconv.FormatFloat(f, 'g', -1, 64)
				})
				v = strings.TrimSpace(anySpace.ReplaceAllString(strings.ReplaceAll(v, ")", ") "), " "))
				if a.Name.Local == "id" || a.Name.Local == "href" || strings.Contains(v, "#") {
					v = strings.ToLower(a.Value)
				}
				attrs = append(attrs, a.Name.Local+"="+v)
			}
			slices.Sort(attrs)
			out = append(out, e.Name.Local+" "+strings.Join(attrs, " "))
		case xml.EndElement:
			skip = max(0, skip-1)
		}
	}
}

func TestSanitize_Details(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string // in the result
		not      []string
	}{
		{"a size gives a viewBox", `<svg xmlns="http://www.w3.org/2000/svg" width="2in" height="96">` + honest + `</svg>`, []string{`width="192"`, `height="96"`, `viewBox="0 0 192 96"`}, nil},
		{"a size in percent is none", `<svg width="100%" height="100%" viewBox="0 0 10 10">` + honest + `</svg>`, []string{`viewBox="0 0 10 10"`}, []string{`100%`}},
		{"href comes before xlink:href", around(`<g id="a"><path d="M0 0h1"/></g><g id="b"><path d="M0 0h1"/></g><use xlink:href="#a" href="#b"/>`), []string{`xlink:href="#b"`}, []string{`#a`}},
		{"a link becomes a group", around(`<a href="http://x/" fill="red"><path d="M0 0h9v9z"/></a>`), []string{`<g fill="red"><path d="M0 0h9v9z"/></g>`}, []string{"<a"}},
		{"names that nothing refers to go", around(`<g id="x" class="y"><path d="M0 0h9v9z"/></g>`), []string{`<g><path`}, []string{"id=", "class="}},
		{"a fill that leads nowhere is none", around(`<path fill="url(#gone)" d="M0 0h9v9z"/><path fill="url(#gone) red" d="M0 0h9v9z"/>`), []string{`<path fill="none"`, `<path fill="red"`}, []string{"gone"}},
		{"a filter that leads nowhere goes", around(`<path filter="url(#gone)" style="mask:url(#gone);stroke:red" d="M0 0h9v9z"/>`), []string{`style="stroke:red"`}, []string{"gone", "filter", "mask"}},
		{"a path is kept up to its mistake", around(`<path d="M0 0h9v9zX9 9"/>`), []string{`d="M0 0h9v9z"`}, []string{"X9"}},
		{"arc flags need no space", around(`<path d="M0 0a9 9 0 0110 10A5,5,0,1,0-1-1z"/>`), []string{`d="M0 0a9 9 0 0110 10A5,5,0,1,0-1-1z"`}, nil},
		{"rules become styles of elements", around(`<style> .a , .b:hover, c[d] { FILL : RED ; width: 9; fill-opacity : .5 !important } @media print{.a{fill:blue}} </style><path class="a b q" d="M0 0h9v9z"/>`), []string{`<path d="M0 0h9v9z" style="fill:RED;fill-opacity:.5"/>`}, []string{"hover", "blue", "width:", "<style", "class="}},
		{"rules for a screen hold", around(`<style>@media screen{.a{fill:red}}</style><style media="print">.a{fill:blue}</style><path class="a" d="M0 0h9v9z"/>`), []string{`style="fill:red"`}, []string{"blue", "screen", "print"}},
		{"a variable becomes its value", around(`<style>:root{--brand:#123456}.a{fill:var(--brand,red)}</style><path class="a" d="M0 0h9v9z"/>`), []string{`<path d="M0 0h9v9z" style="fill:#123456"/>`}, []string{"var(", "--", "<style"}},
		{"an undefined variable becomes its fallback", around(`<path fill="var(--page-ink, #123456)" d="M0 0h9v9z"/>`), []string{`<path fill="#123456"`}, []string{"var("}},
		{"a variable without a value or fallback goes", around(`<g fill="red"><path fill="var(--page-ink)" d="M0 0h9v9z"/></g>`), []string{`<g fill="red"><path d="M0 0h9v9z"/></g>`}, []string{"var("}},
		{"it wins all the same", around(`<style>.a{fill:red}</style><g fill="blue"><path class="a" style="fill:var(--x)" d="M0 0h9v9z"/></g>`), []string{`style="fill:inherit"`}, []string{"var("}},
		{"over its own attribute", around(`<path fill="red" style="fill:var(--x)" d="M0 0h9v9z"/>`), []string{`style="fill:inherit"`}, []string{"var("}},
		{"an important one over a stronger rule", around(`<style>.a{fill:var(--x)!important}#i{fill:red}</style><path id="i" class="a" d="M0 0h9v9z"/>`), []string{`style="fill:inherit"`}, []string{"var("}},
		{"the weaker one loses", around(`<style>path{fill:var(--x)}.a{fill:red}</style><path class="a" d="M0 0h9v9z"/>`), []string{`<path d="M0 0h9v9z" style="fill:red"/>`}, []string{"inherit", "var("}},
		{"what is not inherited is what it is at first", around(`<style>.a{opacity:.2;display:none}</style><path class="a" style="opacity:var(--x);display:var(--y)" d="M0 0h9v9z"/>`), []string{`style="display:inline;opacity:1"`}, []string{"var("}},
		{"a variable that is no paint", around(`<path fill="red" style="--x:12px;fill:var(--x)" d="M0 0h9v9z"/>`), []string{`style="fill:inherit"`}, []string{"12px", "--"}},
		{"a variable that leads outside", around(`<path fill="red" style="--x:url(http://x/y#z);fill:var(--x,blue)" d="M0 0h9v9z"/>`), []string{`style="fill:inherit"`}, []string{"http://x", "--"}},
		{"a paint from outside has its fallback", around(`<path fill="red" style="fill:url(http://x/y#z) blue;stroke:url('other.svg#p')rgb(1,2,3)" d="M0 0h9v9z"/>`), []string{`style="fill:blue;stroke:rgb(1,2,3)"`}, []string{"http://x", "url", "other"}},
		{"a paint from outside without one gives way", around(`<style>.a{fill:lime}</style><path fill="red" style="fill:url(http://x/y#z)" d="M0 0h9v9z"/><path class="a" style="fill:url(http://x/y#z)" d="M0 0h9v9z"/><path fill="url(//x/y#z)" d="M0 0h9v9z"/>`), []string{`<path fill="red" d="M0 0h9v9z"/>`, `<path d="M0 0h9v9z" style="fill:lime"/>`, `<path d="M0 0h9v9z"/>`}, []string{"//x/", "url"}},
		{"two paints from outside are none", around(`<path fill="red" style="fill:url(http://x/y#z) url(http://x/q#z)" d="M0 0h9v9z"/>`), []string{`<path fill="red" d="M0 0h9v9z"/>`}, []string{"url"}},
		{"variables in a color and in each other", around(`<g style="--r:18;--rgb:var(--r),52,var(--b,86)"><path style="fill:rgb(var(--rgb))" d="M0 0h9v9z"/></g>`), []string{`fill:rgb(18,52,86)`}, []string{"var(", "--"}},
		{"the nearest variable counts", around(`<g style="--a:red"><g style="--a:blue"><path fill="var(--a)" d="M0 0h9v9z"/></g></g>`), []string{`fill="blue"`}, []string{"red"}},
		{"importance decides", around(`<style>.a{fill:#123456!important}#i{fill:red}</style><path id="i" class="a" style="fill:blue;opacity:.5" d="M0 0h9v9z"/>`), []string{`style="fill:#123456;opacity:.5"`}, []string{"blue"}},
		{"a mask says its type as an attribute", around(`<mask id="m" style="mask-type:alpha"><path d="M0 0h9v9z"/></mask><path mask="url(#m)" d="M0 0h9v9z"/>`), []string{`mask-type="alpha"`}, nil},
		{"transforms with units become attributes", around(`<style>.a{transform:translate(1px,2px) skewX(3deg);fill:red}</style><path class="a" d="M0 0h9v9z"/><path transform="scale(2)" style="transform:none" d="M0 0h9v9z"/>`), []string{`transform="translate(1 2) skewX(3)"`, `style="fill:red"`}, []string{"px", "scale"}},
		{"transforms that have no such form stay", around(`<style>.a{transform:rotate(1turn)}</style><path class="a" d="M0 0h9v9z"/>`), []string{`style="transform:rotate(1turn)"`}, nil},
		{"names of colors that not all renderers support", around(`<path fill="CURRENTCOLOR" stroke="RebeccaPurple" d="M0 0h9v9z"/>`), []string{`fill="currentColor"`, `stroke="#663399"`}, nil},
		{"shapes in percent are drawn", open + `<circle cx="50%" cy="50%" r="10%" fill="#0b5fff"/></svg>`, []string{`r="10%"`}, nil},
		{"an important variable wins", around(`<style>path{fill:var(--a,blue)!important}</style><path style="fill:red" d="M0 0h9v9z"/>`), []string{`style="fill:blue"`}, []string{"red"}},
		{"variables that refer to each other in a circle", around(`<path style="--a:var(--b);--b:var(--a);fill:var(--a,red);stroke:var(--c,var(--d,blue))" d="M0 0h9v9z"/>`), []string{`stroke:blue`}, []string{"var(", "--"}},
		{"a paint by variable", around(`<linearGradient id="g"><stop stop-color="red"/></linearGradient><path fill="var(--gone,url(#g))" d="M0 0h9v9z"/>`), []string{`id="g"`, `fill="url(#g)"`}, []string{"var("}},
		{"newer colors become plain", around(`<path fill="oklch(62.8% 0.25768 29.23)" stroke="rgb(1 2 3 / 50%)" d="M0 0h9v9z" style="color:hwb(240 0% 0%)"/>`), []string{`fill="#ff0000"`, `stroke="rgba(1,2,3,0.5)"`, `color:#0000ff`}, []string{"oklch", "hwb"}},
		{"text keeps its spaces and loses its comments", around(`<text xml:space="preserve" x="1 2">字 <!-- b -->c<tspan font-family="'My Font', serif">&lt;&amp;&gt;</tspan></text>`), []string{`<text xml:space="preserve" x="1 2">字 c<tspan font-family="&apos;My Font&apos;, serif">&lt;&amp;&gt;</tspan></text>`}, nil},
		{"text outside of text goes", around(`hello<g>world</g>`), []string{"<g/>"}, []string{"hello", "world"}},
		{"the first of two attributes counts", around(`<path d="M0 0h9v9z" fill="red" fill="blue"/>`), []string{`fill="red"`}, []string{"blue"}},
		{"Latin-1 is read", "<?xml version='1.0' encoding='ISO-8859-1'?>" + around("<text>caf\xe9&#23383;</text>"), []string{"café"}, nil},
		{"ids in other scripts", around(`<g id="слой_1"><path d="M0 0h9"/></g><use href="#слой_1"/>`), []string{`id="слой_1"`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			clean, info := sanitize(t, c.in)
			for _, w := range c.want {
				if !strings.Contains(clean, w) {
					t.Errorf("%s\nlacks %s", clean, w)
				}
			}
			for _, n := range c.not {
				if strings.Contains(clean, n) {
					t.Errorf("%s\nholds %s", clean, n)
				}
			}
			checkClean(t, []byte(clean), info)
		})
	}
}

// TestSanitize_Cascade checks which rule sets a variable, whose value the sanitizer writes.
func TestSanitize_Cascade(t *testing.T) {
	const shape = `<path class="b a" id="i" fill="var(--c)" d="M0 0h9v9z"/>`
	for _, c := range []struct{ name, in, want string }{
		{"inherited", `<g style="--c:tomato">` + shape + `</g>`, "tomato"},
		{"a class of the parent", `<style>.g{--c:lime}</style><g class="g">` + shape + `</g>`, "lime"},
		{"the stronger rule", `<style>#i{--c:red}.a{--c:blue}path{--c:green}</style>` + shape, "red"},
		{"the later rule", `<style>.a{--c:red}.b{--c:blue}</style>` + shape, "blue"},
		{"importance", `<style>path{--c:red!important}#i{--c:lime}</style><path id="i" style="--c:blue;fill:var(--c)" d="M0 0h9v9z"/>`, "red"},
		{"style over attribute", `<path fill="var(--c)" style="--c:red;--d:blue;fill:var(--d)" d="M0 0h9v9z"/>`, "blue"},
		{"descendants", `<style>g>path{--c:red}svg g path{--c:lime}</style><g>` + shape + `</g>`, "lime"},
		{"a child only", `<style>path{--c:lime}svg>path{--c:red}</style><g>` + shape + `</g>`, "lime"},
		{"the root", `<style>:root{--a:#0c0ffe}path{--c:var(--b,var(--a))}</style>` + shape, "#0c0ffe"},
	} {
		if clean, _ := sanitize(t, open+c.in+`</svg>`); !strings.Contains(clean, `fill="`+c.want+`"`) && !strings.Contains(clean, `style="fill:`+c.want+`"`) {
			t.Errorf("%s: %s, want the fill %s", c.name, clean, c.want)
		}
	}
}

// TestSanitize_NoInk_Fails checks that documents without ink are rejected, and no others.
func TestSanitize_NoInk_Fails(t *testing.T) {
	for body, draws := range map[string]bool{
		`<rect width="9" height="9"/>`:                                             true,
		`<rect width="9" height="9" fill="none"/>`:                                 false,
		`<rect width="9" height="9" fill="none" stroke="red"/>`:                    true,
		`<rect width="9" height="9" fill="none" stroke="red" stroke-width="0"/>`:   false,
		`<rect width="9" height="9" fill="transparent"/>`:                          false,
		`<rect width="9" height="9" fill-opacity="0"/>`:                            false,
		`<g opacity="0"><rect width="9" height="9"/></g>`:                          false,
		`<g display="none"><rect width="9" height="9"/></g>`:                       false,
		`<rect width="9" height="9" visibility="hidden"/>`:                         false,
		`<rect width="0" height="9"/>`:                                             false,
		`<clipPath id="c"><rect width="9" height="9"/></clipPath>`:                 false,
		`<switch><g/><rect width="9" height="9"/></switch>`:                        false,
		`<defs><rect id="r" width="9" height="9"/></defs><use href="#r"/>`:         true,
		`<symbol id="s"><rect width="9" height="9"/></symbol>`:                     false,
		`<symbol id="s"><rect width="9" height="9"/></symbol><use href="#s"/>`:     true,
		`<text y="9">Acme</text>`:                                                  true,
		`<text y="9" fill="none">Acme</text>`:                                      false,
		`<g color="red" fill="currentColor"><rect width="9" height="9"/></g>`:      true,
		`<g color="#0000" fill="currentColor"><rect width="9" height="9"/></g>`:    false,
		`<linearGradient id="a"/><rect width="9" height="9" fill="url(#a) none"/>`: false,
		`<linearGradient id="a"/><rect width="9" height="9" fill="url(#a) red"/>`:  true,
		`<pattern id="a"/><rect width="9" height="9" fill="url(#a)"/>`:             false,
		`<linearGradient id="a"><stop stop-color="#0a0b0c"/></linearGradient><linearGradient id="b" href="#a"/><rect fill="url(#b)" width="9" height="9"/>`: true,
		`<pattern id="a" width="2" height="2"><rect width="1" height="1" fill="red"/></pattern><rect width="9" height="9" fill="url(#a)"/>`:                 true,
	} {
		_, _, err := svg.Sanitize([]byte(open + body + `</svg>`))
		if draws && err != nil || !draws && !errors.Is(err, imaging.ErrMalformed) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestSanitize_ColorSchemeAndSize(t *testing.T) {
	if clean, _ := sanitize(t, string(readLogo(t, "scheme.svg"))); strings.Contains(clean, "#fff") || strings.Contains(clean, "media") {
		t.Errorf("the dark scheme is still there: %s", clean)
	}
	_, info := sanitize(t, `<svg>`+honest+`</svg>`)
	if info.Width != nil || info.Height != nil {
		t.Errorf("a size from nowhere: %v×%v", info.Width, info.Height)
	}
}

func TestSanitize_SVGZ(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, around(""))
	z.Close()
	if p, err := imaging.Probe(packed.Bytes()); err != nil || p.Format != imaging.SVGZ {
		t.Errorf("probe: %+v, %v", p, err)
	}
	clean, _, err := svg.Sanitize(packed.Bytes())
	if err != nil || !bytes.HasPrefix(clean, []byte("<svg ")) {
		t.Errorf("%v: %s", err, clean)
	}
	packed.Reset()
	z = gzip.NewWriter(&packed)
	fmt.Fprint(z, open)
	testmust.Succeed(t, testmust.Err(io.CopyN(z, imagingtest.Zeros{}, 5<<20)))
	z.Close()
	if _, _, err := svg.Sanitize(packed.Bytes()); !errors.Is(err, imaging.ErrTooLarge) {
		t.Errorf("5 MB in %d bytes: %v, want ErrTooLarge", packed.Len(), err)
	}
}

func TestSanitize_ByteOrders(t *testing.T) {
	want, _ := sanitize(t, around("<text>ü</text>"))
	little := svgtest.UTF16(around("<text>ü</text>"))
	big := []byte(little)
	for i := 0; i+1 < len(big); i += 2 {
		big[i], big[i+1] = big[i+1], big[i]
	}
	for name, in := range map[string]string{
		"little endian": little, "big endian": string(big), "without a mark": little[2:], "UTF-8 with a mark": "\xef\xbb\xbf" + around("<text>ü</text>"),
	} {
		if got, _ := sanitize(t, in); got != want {
			t.Errorf("%s: %s, want %v", name, got, want)
		}
	}
	for name, in := range map[string]string{
		"UTF-32": "\xff\xfe\x00\x00<\x00\x00\x00s\x00\x00\x00", "invalid UTF-8": around("<text>\xff\xff</text>"), "a zero": around("<text>a\x00b</text>"), "UTF-16 cut": little[:len(little)-9],
	} {
		if _, _, err := svg.Sanitize([]byte(in)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// Rule 12.
func FuzzSanitize(f *testing.F) {
	for _, h := range svgtest.Hostile() {
		if len(h.SVG) < 4096 {
			f.Add([]byte(h.SVG))
		}
	}
	for _, l := range logos {
		if data := readLogo(f, l.file); len(data) < 8192 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		clean, info, err := svg.Sanitize(data)
		if err != nil {
			if clean != nil {
				t.Fatalf("Sanitize returned both %d bytes and an error: %v", len(clean), err)
			}
			return
		}
		checkClean(t, clean, info)
		recolored, err := svg.Recolor(data, func(c imaging.RGB) imaging.RGB { return c.TurnedFor(imaging.Black) })
		if err != nil || len(residue(recolored)) > 0 {
			t.Fatalf("recolored: %v\n%s", err, recolored)
		}
		framed, err := svg.Framed(data, svg.Frame{Square: true, Margin: 0.1, Plate: &imaging.White})
		if err != nil || len(residue(framed)) > 0 {
			t.Fatalf("framed: %v\n%s", err, framed)
		}
		if _, err := imaging.Probe(clean); err != nil {
			t.Fatalf("probe: %v\n%s", err, clean)
		}
	})
}

func BenchmarkSanitize(b *testing.B) {
	for _, name := range []string{"gitlab.svg", "illustrator.svg", "firefox.svg"} {
		data := readLogo(b, name)
		b.Run(strings.TrimSuffix(name, ".svg"), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := svg.Sanitize(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestSanitize_TextThatIsLeft_IsReported checks drawings that a renderer without fonts would spoil.
func TestSanitize_TextThatIsLeft_IsReported(t *testing.T) {
	for _, c := range []struct {
		name, svg string
		want      bool
	}{
		{"letters", `<text y="30" font-size="30">Acme</text>`, false},
		{"another script", `<text y="30" font-size="30">電機</text>`, true},
		{"in an SVG in an image", `<image width="90" height="30" href="` + inBase64(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 30"><text y="30" font-size="30">電機</text></svg>`) + `"/>`, true},
		{"letters from right to left", `<text y="30" font-size="30">שלום</text>`, true},
		{"on a plate", `<rect width="100" height="40" fill="red"/><text y="30" font-size="30">電機</text>`, true},
		{"along a path", `<path id="a" d="M0 30h90" fill="none"/><text font-size="30"><textPath href="#a">Acme</textPath></text>`, true},
		{"a mark with small print", `<path d="M0 0h40v40h-40z"/><text x="50" y="30" font-size="4">年年</text>`, false},
		{"a mark", `<path d="M0 0h40v40h-40z"/>`, false},
		{"text that is hidden", `<path d="M0 0h4v4h-4z"/><text y="30" font-size="30" display="none">電機</text>`, false},
		{"text in nothing", `<path d="M0 0h4v4h-4z"/><text y="30" font-size="30"> </text>`, false},
		{"HTML", `<path d="M0 0h4v4h-4z"/><foreignObject width="90" height="30"><p xmlns="http://www.w3.org/1999/xhtml">Acme</p></foreignObject>`, true},
		{"HTML without text", `<path d="M0 0h4v4h-4z"/><foreignObject width="90" height="30"> </foreignObject>`, false},
		{"HTML of scripts and styles", `<path d="M0 0h4v4h-4z"/><foreignObject width="90" height="30"><body xmlns="http://www.w3.org/1999/xhtml"><script>go()</script><style>p { color: red }</style></body></foreignObject>`, false},
		{"HTML for a viewer that has it", `<switch><foreignObject width="90" height="30">Acme</foreignObject><path d="M0 0h4v4h-4z"/></switch>`, false},
		{"an editor's data", `<path d="M0 0h4v4h-4z"/><foreignObject requiredExtensions="x" width="1" height="1">Acme</foreignObject>`, false},
	} {
		if _, info := sanitize(t, open+c.svg+`</svg>`); (info.Text || info.Lost) != c.want || info.Lost && c.name != "HTML" {
			t.Errorf("%s: %+v, want %v", c.name, info, c.want)
		}
	}
}

// TestSanitize_VariableBombs_TakeBoundedWork checks that variables that double are unset, and that many uses of a long
// one are too much.
func TestSanitize_VariableBombs_TakeBoundedWork(t *testing.T) {
	var doubling strings.Builder
	for i := range 60 {
		fmt.Fprintf(&doubling, "--v%d:var(--v%d) var(--v%d);", i, i+1, i+1)
	}
	clean, _ := sanitize(t, around(`<path style="`+doubling.String()+`--v60:red;fill:var(--v0)" d="M0 0h9v9z"/>`))
	if !strings.Contains(clean, `style="fill:inherit"`) {
		t.Errorf("doubling: %s", clean)
	}
	many := open + `<g style="--long:` + strings.Repeat("1 ", 30_000) + `">` + strings.Repeat(`<path fill="var(--long)" d="M0 0h1"/>`, 9000) + honest + "</g></svg>"
	if _, _, err := svg.Sanitize([]byte(many)); !errors.Is(err, imaging.ErrTooLarge) {
		t.Errorf("a long variable: %v, want ErrTooLarge", err)
	}
}

func TestSanitize_ColorOfWideGamut_IsDrawn(t *testing.T) {
	for _, body := range []string{
		`<path style="fill:#f00;fill:color(display-p3 1 0 0)" d="M0 0h9v9z"/>`,
		`<path fill="color(display-p3 1 0 0)" d="M0 0h9v9z"/>`,
		`<style>.a{fill:#f00;fill:color(rec2020 1 0 0)}</style><path class="a" d="M0 0h9v9z"/>`,
	} {
		clean, _, err := svg.Sanitize([]byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10">` + body + `</svg>`))
		if err != nil || strings.Contains(string(clean), "color(") || !regexp.MustCompile(`#f00\b|#ff0000`).Match(clean) {
			t.Errorf("%s: %s, %v", body, clean, err)
		}
	}
}

func TestSanitize_TextBecomesPaths_NothingIsLeftToTidy(t *testing.T) {
	for name, text := range map[string]string{
		"only spaces in a part":    `<text y="30" font-size="30">A<tspan> </tspan></text>`,
		"a path that is not used":  `<path id="a" d="M0 30h90"/><text y="30" font-size="30">A<textPath xlink:href="#a"></textPath></text>`,
		"a target in the text":     `<g fill="url(#a)"/><clipPath id="c"><text y="30" font-size="30">A<tspan id="a"/></text></clipPath><path clip-path="url(#c)" d="M0 0h90v30H0z"/>`,
		"a reference in the text":  `<path id="a" d="M0 30h90"/><clipPath id="c"><text y="30" font-size="30">A<textPath xlink:href="#a"/></text></clipPath><path clip-path="url(#c)" d="M0 0h90v30H0z"/>`,
		"letters in a part of two": `<text y="30" font-size="30"><tspan>A</tspan><tspan>B</tspan></text>`,
	} {
		t.Run(name, func(t *testing.T) {
			clean, info := sanitize(t, `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 90 40"><path d="M0 0h9v9z"/>`+text+`</svg>`)
			checkClean(t, []byte(clean), info)
		})
	}
}
