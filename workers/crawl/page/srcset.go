package page

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"letterhead/internal/css"
)

const (
	maxSrcset  = 40 // limits the candidates of a srcset
	maxSources = 48 // limits the children of a picture element that are searched for files, including white space
	maxLarger  = 3  // limits the files that are tried before src
	// enough is the width in pixels that no stored image exceeds: a wider file only takes longer.
	enough = 1200
)

// srcsets are the attributes with files in several sizes, for scripts that load lazily and for browsers.
var srcsets = []string{"data-srcset", "data-lazy-srcset", "srcset"}

const htmlSpace = "\t\n\f\r "

// sized is a file of a srcset with its descriptor: pixels, or a density, which is 1 without one.
type sized struct {
	ref  string
	size float64
}

// parseSrcset returns the files of a srcset by the algorithm of the HTML standard: a comma ends a file only after white
// space or a descriptor, so that URLs may contain commas.
func parseSrcset(s string) (out []sized) {
	for range maxSrcset {
		s = strings.TrimLeft(s, htmlSpace+",")
		if s == "" {
			break
		}
		end := strings.IndexAny(s, htmlSpace)
		if end < 0 {
			end = len(s)
		}
		ref := s[:end]
		s = s[end:]
		descriptors := ""
		if whole := strings.TrimRight(ref, ","); whole != ref {
			ref = whole
		} else {
			descriptors, s = untilComma(s)
		}
		if size, ok := descriptor(strings.Fields(descriptors)); ok {
			out = append(out, sized{ref, size})
		}
	}
	return out
}

// untilComma cuts a text at its first comma outside of parentheses.
func untilComma(s string) (before, after string) {
	inside := false
	for i := range len(s) {
		switch s[i] {
		case '(':
			inside = true
		case ')':
			inside = false
		case ',':
			if !inside {
				return s[:i], s[i+1:]
			}
		}
	}
	return s, ""
}

// descriptor returns the width in pixels or the density that descriptors declare. ok is false if they are invalid; a
// browser ignores the file then.
func descriptor(words []string) (size float64, ok bool) {
	var width, height, density bool
	size = 1
	for _, word := range words {
		number, unit := word[:len(word)-1], word[len(word)-1]
		v, err := strconv.ParseFloat(number, 64)
		whole := strings.Trim(number, "0123456789") == "" && v > 0
		switch {
		case err != nil || strings.Trim(number, "0123456789.eE+-") != "" || density:
			return 0, false
		case unit == 'w' && whole && !width:
			width, size = true, v
		case unit == 'h' && whole && !height:
			height = true
		case unit == 'x' && v >= 0 && !width && !height:
			density, size = true, v
		default:
			return 0, false
		}
	}
	return size, width || !height
}

// largest returns the URL of the largest useful file of a srcset, and its descriptor: pixels, or a density.
func largest(srcset string) (best string, bestSize float64) {
	bestSize = -1
	for _, f := range parseSrcset(srcset) {
		if best != "" && LastResort(f.ref) != LastResort(best) {
			if LastResort(best) {
				best, bestSize = f.ref, f.size
			}
			continue
		}
		if f.size > bestSize && bestSize < enough || enough <= f.size && f.size < bestSize {
			best, bestSize = f.ref, f.size
		}
	}
	return best, bestSize
}

// LastResort reports whether a reference is to a file that is read only if there is no other, by its name: AVIF takes
// the most to decode, and the other formats cannot be decoded.
func LastResort(ref string) bool {
	ref, _, _ = strings.Cut(ref, "?")
	return slices.Contains([]string{".avif", ".heic", ".heif", ".jxl", ".jp2"}, strings.ToLower(path.Ext(ref)))
}

// sources returns the sources of the picture element around an img that are not for a color scheme, and not a last
// resort, because the same picture follows in another format.
func sources(img *html.Node) (out []*html.Node) {
	if img.Parent == nil || img.Parent.DataAtom != atom.Picture {
		return nil
	}
	for c, left := img.Parent.FirstChild, maxSources; c != nil && left > 0; c, left = c.NextSibling, left-1 {
		kind, _, _ := strings.Cut(strings.ToLower(Attr(c, "type")), ";")
		kind, isImage := strings.CutPrefix(strings.TrimSpace(kind), "image/")
		decodable := kind == "" || isImage && !LastResort("."+kind)
		if c.DataAtom == atom.Source && decodable && ColorScheme(Attr(c, "media")) == "" {
			out = append(out, c)
		}
	}
	return out
}

// setSources sets the files of an img and of the sources of its picture element that are larger than its src. The first
// source that is a vector or for wide screens precedes all others, because those may show something else.
func (g *gatherer) setSources(im *Image, img *html.Node) {
	lazy := slices.ContainsFunc(lazySources, func(name string) bool { return Attr(img, name) != "" })
	var shown, rest, others []Source
	for _, n := range append(sources(img), img) {
		for _, name := range srcsets {
			ref, size := largest(Attr(n, name))
			u := g.page.Resolve(ref)
			if u == nil || g.placeholder(u) {
				continue
			}
			f := Source{u, int(min(size, maxSize))}
			if size > 1 && size > float64(im.Large.Width) {
				im.Large = f
			}
			media, vector := Attr(n, "media"), strings.HasPrefix(Attr(n, "type"), "image/svg")
			switch applies := n != img && css.Applies(media); {
			case applies && shown == nil && (media != "" || vector):
				shown = append(shown, f)
			case applies, n == img && size > 1 && (!lazy || name != "srcset"):
				rest = append(rest, f)
			case n != img && size > 1:
				others = append(others, f)
			}
		}
	}
	slices.SortStableFunc(rest, func(a, b Source) int { return b.Width - a.Width })
	for _, f := range slices.Concat(shown, rest, others) {
		im.Larger = append(im.Larger, f.URL)
	}
	im.Larger = im.Larger[:min(len(im.Larger), maxLarger)]
}
