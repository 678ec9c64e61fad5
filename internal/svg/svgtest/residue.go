package svgtest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"regexp"
	"strings"

	nethtml "golang.org/x/net/html"

	"letterhead/internal/imaging"
)

// Residue searches a finished SVG for anything that could run, load, or refer outside. It shares no code with the
// sanitizer and parses the file with an HTML parser, the most tolerant one. The result is empty if nothing was found.
func Residue(svg []byte) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if bytes.Contains(svg, []byte("<!")) || bytes.Contains(svg, []byte("<?")) || bytes.Contains(svg, []byte("]]>")) {
		report("a declaration, a comment, or an instruction")
	}
	if m := oddEntity.Find(svg); m != nil {
		report("entity %s", m)
	}
	tokens := nethtml.NewTokenizer(bytes.NewReader(svg))
	within := ""
	for {
		switch tokens.Next() {
		case nethtml.ErrorToken:
			return found
		case nethtml.StartTagToken, nethtml.SelfClosingTagToken:
			t := tokens.Token()
			within = t.Data
			if !harmless[t.Data] {
				report("element %s", t.Data)
			}
			for _, a := range t.Attr {
				if complaint := attributeResidue(t.Data, strings.ToLower(a.Key), a.Val); complaint != "" {
					report("%s: %s", t.Data, complaint)
				}
			}
		case nethtml.TextToken:
			if text := string(tokens.Raw()); within == "style" {
				if complaint := valueResidue(text); complaint != "" {
					report("style: %s", complaint)
				}
			}
		case nethtml.EndTagToken:
			within = ""
		}
	}
}

var (
	oddEntity = &entityFinder{regexp.MustCompile(`&(?:[A-Za-z]\w*|#\w+);?`)}
	harmless  = map[string]bool{}
	functionX = regexp.MustCompile(`url\(([^)]*)\)?`)
)

// entityFinder finds entities other than the five predefined ones.
type entityFinder struct{ re *regexp.Regexp }

func (f *entityFinder) Find(svg []byte) []byte {
	for _, m := range f.re.FindAll(svg, -1) {
		switch string(m) {
		case "&amp;", "&lt;", "&gt;", "&quot;", "&apos;":
		default:
			return m
		}
	}
	return nil
}

func init() {
	for name := range strings.FieldsSeq(`svg g defs symbol switch use image path rect circle ellipse line polyline
		polygon text tspan textpath lineargradient radialgradient stop pattern clippath mask filter feblend fecolormatrix
		fecomponenttransfer fecomposite fedropshadow feflood fefunca fefuncb fefuncg fefuncr fegaussianblur femerge
		femergenode femorphology feoffset`) {
		harmless[name] = true
	}
}

func attributeResidue(element, name, value string) string {
	switch {
	case strings.HasPrefix(name, "on"):
		return "handler " + name
	case name == "xmlns" && value == "http://www.w3.org/2000/svg", name == "xmlns:xlink" && value == "http://www.w3.org/1999/xlink":
		return ""
	case strings.Contains(name, ":") && name != "xlink:href" && name != "xml:space", strings.HasPrefix(name, "xmlns"):
		return "foreign attribute " + name
	case strings.HasSuffix(name, "href") && element == "image":
		return rasterResidue(value)
	case strings.HasSuffix(name, "href") && !strings.HasPrefix(value, "#"):
		return "link to " + value
	case strings.HasSuffix(name, "href"), name == "id":
		return ""
	}
	return valueResidue(value)
}

// rasterResidue accepts only PNG data that decodes within small limits.
func rasterResidue(value string) string {
	data, isPNG := strings.CutPrefix(value, "data:image/png;base64,")
	raw, err := base64.StdEncoding.DecodeString(data)
	if !isPNG || err != nil {
		return "image from " + value[:min(len(value), 60)]
	}
	if info, err := imaging.Probe(raw); err != nil || info.Format != imaging.PNG || info.Width > 1024 || info.Height > 1024 {
		return fmt.Sprintf("image %+v %v", info, err)
	}
	return ""
}

// valueResidue first removes every known escape.
func valueResidue(value string) string {
	plain := value
	for range 3 {
		plain = html.UnescapeString(plain)
	}
	if strings.Contains(plain, `\`) {
		return "an escape in " + value
	}
	plain = strings.ToLower(strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || r == 0xad || r >= 0x200b && r <= 0x200f {
			return -1
		}
		return r
	}, plain))
	for _, bad := range []string{"javascript:", "vbscript:", "data:", "http:", "https:", "file:", "ftp:", "//", "@import", "@font-face",
		"expression(", "behavior", "-moz-binding", "src(", "image(", "image-set(", "attr(", "element(", "<", "alert("} {
		if strings.Contains(plain, bad) {
			return bad + " in " + value
		}
	}
	for _, m := range functionX.FindAllStringSubmatch(plain, -1) {
		if !strings.HasPrefix(m[1], "#") {
			return "url in " + value
		}
	}
	return ""
}
