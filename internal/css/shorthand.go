package css

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/internal/imaging"
)

// longhand extracts one property from a shorthand: font, background, border or mask. An
// omitted property has its initial value.
func longhand(property, value string) (string, bool) {
	switch property {
	case "font-family", "font-weight", "font-size", "font-style":
		return fontPart(property, value)
	case "border-color":
		return borderColor(value), true
	}
	return backgroundPart(property, value)
}

// systemFonts are the single keywords of font.
var systemFonts = map[string]bool{"caption": true, "icon": true, "menu": true, "message-box": true,
	"small-caption": true, "status-bar": true, "-apple-system-body": true}

// fontSizes are the named sizes.
var fontSizes = setOf("xx-small x-small small medium large x-large xx-large xxx-large smaller larger math")

// fontPart reads "italic bold 12px/1.5 Georgia, serif".
func fontPart(property, value string) (string, bool) {
	if systemFonts[strings.ToLower(value)] {
		return "system-ui", property == "font-family"
	}
	weight, style := "normal", "normal"
	rest := words(value)
	for i, word := range rest {
		if lower := strings.ToLower(word); !isFontSize(lower) {
			switch {
			case lower == "bold", lower == "bolder", lower == "lighter", isNumber(lower):
				weight = lower
			case lower == "italic", lower == "oblique":
				style = lower
			}
			continue
		}
		family := rest[i+1:]
		if len(family) > 1 && family[0] == "/" {
			family = family[2:]
		}
		switch property {
		case "font-size":
			return word, true
		case "font-weight":
			return weight, true
		case "font-style":
			return style, true
		}
		return strings.Join(family, " "), len(family) > 0
	}
	return "", false
}

// isFontSize reports whether a word is a length, a percentage, a named size or a calculation.
func isFontSize(word string) bool {
	if fontSizes[word] || strings.HasSuffix(word, ")") {
		return true
	}
	number := strings.TrimLeft(word, "+-.0123456789")
	return len(number) < len(word) && number != "" || word == "0"
}

func isNumber(word string) bool { return word != "" && strings.Trim(word, "0123456789.") == "" }

// borderColor reads "2px solid #c00".
func borderColor(value string) string {
	for _, word := range words(value) {
		if isColor(strings.ToLower(word)) {
			return word
		}
	}
	return "currentcolor"
}

// backgroundPart reads the layers of a background or a mask.
func backgroundPart(property, value string) (string, bool) {
	var images, positions, sizes, repeats []string
	color := "transparent"
	for layer := range Split(value, ',') {
		image, position, size, repeat := "none", []string{}, []string{}, "repeat"
		slashed := false
		for _, word := range words(layer) {
			lower := strings.ToLower(word)
			switch {
			case lower == "/":
				slashed = true
			case isImage(lower):
				image = word
			case strings.HasPrefix(lower, "repeat") || lower == "no-repeat" || lower == "space" || lower == "round":
				repeat = lower
			case slashed && (isLength(lower) || lower == "auto" || lower == "cover" || lower == "contain"):
				size = append(size, word)
			case isLength(lower), lower == "left", lower == "right", lower == "top", lower == "bottom",
				lower == "center":
				position = append(position, word)
			case isColor(lower):
				color = word
			}
		}
		images = append(images, image)
		positions = append(positions, cmp.Or(strings.Join(position, " "), "0% 0%"))
		sizes = append(sizes, cmp.Or(strings.Join(size, " "), "auto"))
		repeats = append(repeats, repeat)
	}
	switch property {
	case "background-color":
		return color, true
	case "background-position":
		return strings.Join(positions, ", "), true
	case "background-size":
		return strings.Join(sizes, ", "), true
	case "background-repeat":
		return strings.Join(repeats, ", "), true
	}
	return strings.Join(images, ", "), true
}

func isImage(word string) bool {
	name, _, call := strings.Cut(word, "(")
	return call && (name == "url" || strings.HasSuffix(name, "gradient") || strings.HasSuffix(name, "image-set") ||
		name == "image" || name == "element" || name == "cross-fade")
}

// isLength reports whether a word is a length, a percentage or a calculation.
func isLength(word string) bool {
	if strings.HasPrefix(word, "calc(") || strings.HasPrefix(word, "min(") || strings.HasPrefix(word, "max(") ||
		strings.HasPrefix(word, "clamp(") {
		return true
	}
	return word != "" && strings.IndexByte("+-.0123456789", word[0]) >= 0
}

func isColor(word string) bool {
	switch name, _, call := strings.Cut(word, "("); {
	case call:
		return slices.Contains([]string{"rgb", "rgba", "hsl", "hsla", "hwb", "lab", "lch", "oklab", "oklch", "color",
			"color-mix"}, name)
	case word == "transparent", word == "currentcolor":
		return true
	}
	_, _, ok := imaging.ParseColor(word)
	return ok
}

// absolute makes the URLs in a value absolute. Those that refer to the document or contain data are kept.
func (b *book) absolute(value string, at *url.URL) string {
	i := indexURL(value)
	if i < 0 {
		return value
	}
	var out strings.Builder
	for count := 0; i >= 0 && count < maxAddresses; i, count = indexURL(value), count+1 {
		end := min(urlEnd(value, i)+1, len(value))
		out.WriteString(value[:i])
		whole := value[i:end]
		ref := unquote(strings.TrimSuffix(whole[len("url("):], ")"))
		if u := b.resolve(at, ref); u != nil && !strings.HasPrefix(ref, "#") {
			whole = `url("` + u.String() + `")`
		}
		out.WriteString(whole)
		value = value[end:]
	}
	out.WriteString(value)
	return out.String()
}

const maxAddresses = 64 // limits the URLs of one value that are made absolute

// urlEnd returns where url( closes: without quotes, brackets within it do not count.
func urlEnd(value string, at int) int {
	i := at + len("url(")
	for i < len(value) && isSpace(value[i]) {
		i++
	}
	if i < len(value) && (value[i] == '"' || value[i] == '\'') {
		i = stringEnd(value, i)
	}
	for ; i < len(value); i++ {
		switch value[i] {
		case '\\':
			i++
		case ')':
			return i
		}
	}
	return len(value)
}

// presentational are the attributes of drawings that are also properties (SVG 2, section 6.6).
var presentational = setOf(`fill stroke color opacity fill-opacity stroke-opacity stroke-width fill-rule clip-rule
	clip-path mask filter display visibility stop-color stop-opacity stroke-linecap stroke-linejoin stroke-dasharray
	stroke-miterlimit font-family font-size font-weight text-anchor transform`)

// presentation returns the value of a property from an attribute: of a drawing, or of an old HTML page.
func (c *Cascade) presentation(n *html.Node, property string) string {
	if n.Type != html.ElementNode {
		return ""
	}
	if n.Namespace == "svg" {
		if !presentational[property] {
			return ""
		}
		v, _ := c.substitute(n, strings.TrimSpace(attr(n, property)), 0) // browsers also resolve var() there
		return v
	}
	switch {
	case property == "background-color":
		return strings.TrimSpace(attr(n, "bgcolor"))
	case property == "background-image" && attr(n, "background") != "":
		if u := c.resolve(c.base, attr(n, "background")); u != nil {
			return `url("` + u.String() + `")`
		}
	case n.Data == "font" && property == "color":
		return strings.TrimSpace(attr(n, "color"))
	case n.Data == "font" && property == "font-family":
		return strings.TrimSpace(attr(n, "face"))
	case n.Data == "body" && property == "color":
		return strings.TrimSpace(attr(n, "text"))
	case n.Data == "a" && property == "color" && c.body != nil:
		return strings.TrimSpace(attr(c.body, "link"))
	}
	return ""
}
