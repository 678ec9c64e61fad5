package svg

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/css"

	"letterhead/internal/lazyregexp"
)

// Limits of values.
const (
	maxValueTokens = 512
	maxValueBytes  = 4 << 10
	maxBlockDepth  = 8 // parentheses of a value
)

// properties is the allow-list of CSS properties, also as attributes. None of them can load anything: a url() is only
// accepted as url(#id), and only where it is meaningful.
var properties = setOf(
	"fill", "fill-opacity", "fill-rule", "stroke", "stroke-opacity", "stroke-width", "stroke-linecap",
	"stroke-linejoin", "stroke-miterlimit", "stroke-dasharray", "stroke-dashoffset", "paint-order",
	"vector-effect", "color", "opacity", "stop-color", "stop-opacity", "flood-color", "flood-opacity",
	"clip-path", "clip-rule", "mask", "mask-type", "filter", "display", "visibility", "overflow",
	"transform", "transform-origin", "transform-box", "mix-blend-mode", "isolation",
	"color-interpolation", "color-interpolation-filters", "shape-rendering", "text-rendering", "image-rendering",
	"font-family", "font-size", "font-style", "font-weight", "font-stretch", "font-variant",
	"letter-spacing", "word-spacing", "line-height", "text-anchor", "text-transform",
	"text-decoration", "dominant-baseline",
	"alignment-baseline", "baseline-shift", "writing-mode", "direction", "unicode-bidi",
)

// urlProperties may refer to an element of the same document.
var urlProperties = setOf("fill", "stroke", "clip-path", "mask", "filter")

// functions are the functions allowed in values.
var functions = setOf(
	"rgb", "rgba", "hsl", "hsla", "hwb", "lab", "lch", "oklab", "oklch", "color", "color-mix", "calc",
	"min", "max", "clamp", "matrix", "translate", "translatex", "translatey", "scale", "scalex", "scaley",
	"rotate", "skew", "skewx", "skewy",
)

// lexCSS splits a value into tokens, just more than maxValueTokens if it has too many.
func lexCSS(text string) []css.Token {
	lexer := css.NewLexer(parse.NewInputString(strings.TrimSpace(text)))
	var tokens []css.Token
	for len(tokens) <= maxValueTokens {
		kind, data := lexer.Next()
		if kind == css.ErrorToken {
			break
		}
		if kind != css.CommentToken {
			tokens = append(tokens, css.Token{TokenType: kind, Data: slices.Clone(data)})
		}
	}
	return tokens
}

var (
	cssNumber = lazyregexp.New(`^([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)(%|[A-Za-z]{0,5})$`)
	cssHash   = lazyregexp.New(`^#(?:[0-9A-Fa-f]{3,4}|[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$`)
	cssString = lazyregexp.New(`^["']([\p{L}\p{N} _.,-]{0,128})["']$`)
)

// cleanValue rebuilds a property's value from its tokens, or returns false if one of them is not allowed there.
func cleanValue(name string, tokens []css.Token) (string, bool) {
	tokens = withoutOutsidePaint(name, tokens)
	if len(tokens) == 0 || len(tokens) > maxValueTokens {
		return "", false
	}
	var b strings.Builder
	depth := 0
	for _, t := range tokens {
		text, ok := cleanToken(name, t, depth)
		if !ok {
			return "", false
		}
		switch t.TokenType {
		case css.FunctionToken, css.LeftParenthesisToken:
			if depth++; depth > maxBlockDepth {
				return "", false
			}
		case css.RightParenthesisToken:
			if depth--; depth < 0 {
				return "", false
			}
		}
		b.WriteString(text)
	}
	value := strings.TrimSpace(b.String())
	if colorProperties[name] {
		var ok bool
		value, ok = plainColor(value)
		return value, ok && depth == 0
	}
	if urlProperties[name] && !strings.Contains(value, "url(") && !paintWords[strings.ToLower(value)] {
		return "", false
	}
	if name == "stroke-dasharray" && value != "none" && value != "inherit" {
		// Plain lengths only, so that checkRepeats sees the same as a renderer.
		list, plain := parseLengths(strings.ReplaceAll(value, ",", " "))
		if !plain || slices.ContainsFunc(list, func(l length) bool { return relativeUnits[l.unit] }) {
			return "", false
		}
	}
	return value, depth == 0
}

// withoutOutsidePaint removes a reference to another file from a paint, whose fallback applies instead. A paint without
// a fallback is invalid then, so that a weaker declaration or the inherited value shows the shape. SVG 2 (section 13.2)
// would leave it unpainted, which was not intended.
func withoutOutsidePaint(name string, tokens []css.Token) []css.Token {
	if name != "fill" && name != "stroke" || len(tokens) == 0 || tokens[0].TokenType != css.URLToken {
		return tokens
	}
	if _, local := localURL(string(tokens[0].Data)); local {
		return tokens
	}
	return tokens[1:]
}

func cleanToken(property string, t css.Token, depth int) (string, bool) {
	data := string(t.Data)
	switch t.TokenType {
	case css.WhitespaceToken:
		return " ", true
	case css.IdentToken:
		return data, isIdent(data)
	case css.NumberToken, css.PercentageToken, css.DimensionToken:
		m := cssNumber.FindStringSubmatch(data)
		if m == nil {
			return "", false
		}
		v, err := strconv.ParseFloat(m[1], 64)
		return data, err == nil && math.Abs(v) <= maxCoordinate
	case css.HashToken:
		return strings.ToLower(data), cssHash.MatchString(data)
	case css.StringToken:
		m := cssString.FindStringSubmatch(data)
		if m == nil || property != "font-family" {
			return "", false
		}
		return "'" + m[1] + "'", true
	case css.CommaToken:
		return ",", true
	case css.FunctionToken:
		return strings.ToLower(data), functions[strings.ToLower(strings.TrimSuffix(data, "("))]
	case css.LeftParenthesisToken:
		return "(", depth > 0
	case css.RightParenthesisToken:
		return ")", true
	case css.DelimToken:
		return data, depth > 0 && (data == "+" || data == "-" || data == "*" || data == "/")
	case css.URLToken:
		id, ok := localURL(data)
		return "url(#" + id + ")", ok && urlProperties[property]
	}
	return "", false
}

// localURL returns the id in url(#id), with or without quotes.
func localURL(token string) (string, bool) {
	if len(token) < len("url()") || !strings.EqualFold(token[:4], "url(") || token[len(token)-1] != ')' {
		return "", false
	}
	inside := strings.TrimSpace(token[4 : len(token)-1])
	if n := len(inside); n >= 2 && (inside[0] == '"' || inside[0] == '\'') && inside[n-1] == inside[0] {
		inside = strings.TrimSpace(inside[1 : n-1])
	}
	id, local := strings.CutPrefix(inside, "#")
	return id, local && isID(id)
}

func writeDeclarations(ds []attribute) string {
	var b strings.Builder
	for i, d := range ds {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(d.name + ":" + d.value)
	}
	return b.String()
}
