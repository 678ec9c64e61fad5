package logofinder

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/inlinesvg"
	"letterhead/workers/crawl/page"
)

const maxWithin = 8 // limits the descendants of an element that are checked for a background

// backgrounds finds logos shown as backgrounds or masks of elements.
func (c *collector) backgrounds() []pageImage {
	var out []pageImage
	left := maxBackgrounds
	for _, im := range c.in.Page.Backgrounds {
		if !c.possible(im) || left == 0 {
			continue
		}
		left--
		around := []*html.Node{im.Node}
		for n := range im.Node.Descendants() {
			if len(around) > maxWithin {
				break
			}
			if n.Type == html.ElementNode {
				around = append(around, n)
			}
		}
		for _, n := range around {
			if s, ok := c.background(im, n); ok {
				out = append(out, s)
				break
			}
		}
	}
	return out
}

// background checks the background of one element, and of its generated content before and after.
func (c *collector) background(im page.Image, n *html.Node) (pageImage, bool) {
	for _, from := range []func(string) string{
		func(property string) string { // a value with a variable of a sheet that could not be read has none in the cascade
			return cmp.Or(c.in.Style.Value(n, property), inlinesvg.Inline(n, property))
		},
		func(property string) string { return c.in.Style.Generated(n, "before", property) },
		func(property string) string { return c.in.Style.Generated(n, "after", property) },
	} {
		for _, property := range []string{"background-image", "background", "mask-image", "content"} {
			u := c.cssFile(from(property))
			if u == nil {
				continue
			}
			s := pageImage{Image: im, file: u, method: "background"}
			s.URL = u
			s.width, s.height = inlinesvg.Length(from("width")), inlinesvg.Length(from("height"))
			if u.Fragment != "" {
				file := *u
				file.Fragment = ""
				s.part = &inlinesvg.Sprite{URL: &file, ID: u.Fragment}
			}
			return s, s.cut(from)
		}
	}
	return pageImage{}, false
}

// cut finds the part of a raster sprite that an element shows. It returns false if the part is unknown.
func (s *pageImage) cut(says func(string) string) bool {
	if isVector(s.file) && s.file.Scheme != "data" && !slices.Contains(page.SplitWords(fileName(s.file)), "sprite") ||
		s.file.Scheme == "data" {
		return true
	}
	x, y, placed := position(says("background-position"))
	sprite := strings.Contains(strings.ToLower(s.file.Path), "sprite") || placed && (x < 0 || y < 0)
	switch {
	case !sprite:
		return true
	case s.width <= 0 || s.height <= 0, x > 0 || y > 0:
		return false
	}
	s.crop = &Crop{X: -x, Y: -y, Width: s.width, Height: s.height}
	across, _, _ := strings.Cut(strings.TrimSpace(says("background-size")), " ")
	s.crop.Across = inlinesvg.Length(across)
	fragment := *s.file
	fragment.Fragment = strings.NewReplacer(" ", "", "-", "", ".", "_").Replace(says("background-position"))
	s.file = &fragment
	s.method = "sprite"
	return true
}

// position parses a background-position in pixels. ok is false for percentages and words.
func position(v string) (x, y float64, ok bool) {
	fields := strings.Fields(v)
	if len(fields) == 0 || len(fields) > 2 {
		return 0, 0, false
	}
	var at [2]float64
	for i, f := range fields {
		switch f {
		case "0", "0px", "0%", "left", "top":
			continue
		}
		if strings.HasSuffix(f, "%") || inlinesvg.Length(f) == 0 {
			return 0, 0, false
		}
		at[i] = inlinesvg.Length(f)
	}
	return at[0], at[1], true
}

var cssURL = lazyregexp.New(`url\(\s*(?:"([^"]*)"|'([^']*)'|([^"')\s]*))\s*\)`)

// cssFile returns the URL of the file in a value, or nil.
func (c *collector) cssFile(value string) *url.URL {
	if !strings.Contains(value, "url(") || len(value) > page.MaxDataURLBytes {
		return nil
	}
	m := cssURL.FindStringSubmatch(value)
	if m == nil {
		return nil
	}
	return c.in.Page.ResolveImage(m[1] + m[2] + m[3])
}
