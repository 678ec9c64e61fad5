package svg_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"letterhead/internal/svg"
)

// Parts of generated documents, valid and malicious ones.
var (
	elementWords = strings.Fields(`g g g svg defs symbol switch use image style path rect circle ellipse line polyline polygon text tspan textPath
		linearGradient radialGradient stop pattern clipPath mask filter feGaussianBlur feOffset feImage feTurbulence a script SCRIPT
		foreignObject set animate metadata title desc iframe svg:g x:g html:script`)
	attributeWords = strings.Fields(`id id id href xlink:href zz:href class style fill stroke filter mask clip-path transform d points x y width
		height r rx viewBox opacity stroke-dasharray stroke-width display visibility color stop-color font-family patternUnits
		patternTransform gradientTransform stdDeviation in result offset type media xml:space xml:base onload onclick ev:click xmlns src
		preserveAspectRatio requiredExtensions data-x`)
	valueWords = []string{
		"a", "b", "c", "#a", "#b", "#c", "url(#a)", "url(#b)", "url( '#c' ) red", "url(#gone)", "url(http://x/y#a)", "url(#a) url(#b)", "none", "red", "#FFF",
		"rgb(1,2,3)", "rgba( 1 2 3 / 50% )", "currentColor", "inherit", "var(--a)", "var(--a, url(#b))", "0", "1", "-1.5e1", "1e9", ".5.5", "50%", "1e-12",
		"10px", "2em", "0 0 10 10", "0 0 NaN 1", "0,0,1e7,1", "M0 0h9v9z", "m1,1 2-2.5.5zl3 3", "M0 0a1 1 0 0110 5", "M1 1X", "h9", "1,1 2,2 3", "translate(1)",
		"scale(2)rotate(45 1 1) , skewX(3)", "matrix(1 0 0 1 1e8 0)", "rotate(a)", "javascript:alert(1)", "JaVa&#x0A;script:x", "data:image/png;base64,AAAA",
		"data:image/svg+xml,<svg/>", "&lt;script&gt;", "&quot; onload=&quot;x", "fill:red;stroke:url(#a)", "fill:url(//x);opacity:.5", "fill : RED !important ;;; --a : #123",
		"color:red;fill:currentColor;{x}stroke:blue", "a b c", " ", "", "preserve", "xMidYMid meet", "userSpaceOnUse", "text/css", "(prefers-color-scheme:dark)", "screen",
		"'Font X', serif", "\\75 rl(x)", "expression(alert(1))", "12 4,4", "0.00001", "calc(1px + 2px)", "calc(1px", "слой", "a&#9;b", "]]&gt;",
	}
	sheetWords = []string{
		".a", "#b", "rect", "g > path", "svg .a", "*", ":root", ":hover", "[x]", ",", ",", "{", "}", "{fill:red}", "{fill:url(#a)}", "{--a:#00f;stroke:var(--a)}", "fill:", "blue;", "url(#b)", "url(http://x)",
		"@import 'x';", "@media screen{", "@media (prefers-color-scheme: dark){", "@font-face{src:url(x)}", "<!--", "-->", "/*", "*/", "!important", "\\", "'", "\"", ";", "opacity:.5;", "&lt;/style>", " ", "\n",
	}
	textWords = []string{"word", "a&amp;b", "&lt;script>", " ", "\r\n", "<!-- c -->", "&#13;", "&#x2028;", "<![CDATA[<x>]]>", "<?pi x?>", "é"}
)

func drawSVG(t *rapid.T) string {
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:zz="http://www.w3.org/1999/xlink" xmlns:svg="http://www.w3.org/2000/svg" xmlns:x="urn:x" xmlns:html="http://www.w3.org/1999/xhtml"`)
	drawAttributes(t, &b)
	b.WriteString(`><path d="M0 0h9v9z" fill="#0b5fff"/>`)
	drawChildren(t, &b, 4)
	b.WriteString(`</svg>`)
	return b.String()
}

func drawAttributes(t *rapid.T, b *strings.Builder) {
	for range rapid.IntRange(0, 4).Draw(t, "attributes") {
		b.WriteString(" " + rapid.SampledFrom(attributeWords).Draw(t, "name") + "='")
		b.WriteString(strings.NewReplacer("'", "&apos;", "<", "&lt;").Replace(rapid.SampledFrom(valueWords).Draw(t, "value")) + "'")
	}
}

func drawChildren(t *rapid.T, b *strings.Builder, depth int) {
	for range rapid.IntRange(0, 4).Draw(t, "children") {
		name := rapid.SampledFrom(elementWords).Draw(t, "element")
		b.WriteString("<" + name)
		drawAttributes(t, b)
		b.WriteString(">")
		switch name {
		case "style":
			for range rapid.IntRange(0, 12).Draw(t, "tokens") {
				b.WriteString(strings.ReplaceAll(rapid.SampledFrom(sheetWords).Draw(t, "token"), "<!--", "&lt;!--"))
			}
		case "text", "tspan", "textPath":
			for range rapid.IntRange(0, 4).Draw(t, "texts") {
				b.WriteString(rapid.SampledFrom(textWords).Draw(t, "text"))
			}
		}
		if depth > 0 {
			drawChildren(t, b, depth-1)
		}
		b.WriteString("</" + name + ">")
	}
}

// TestSanitize_GeneratedFiles generates random documents; rapid prints the seed and the smallest failing one.
func TestSanitize_GeneratedFiles(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		in := drawSVG(t)
		clean, info, err := svg.Sanitize([]byte(in))
		if err != nil {
			return
		}
		accepted++
		checkClean(t, clean, info)
	})
	if accepted == 0 {
		t.Error("no document was accepted")
	}
}
