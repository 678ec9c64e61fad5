package svg

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/css"

	"letterhead/internal/imaging"
	"letterhead/internal/lazyregexp"
)

// Limits of style sheets.
const (
	maxCSSTokens    = 100_000 // total of all style elements
	maxValueTokens  = 512
	maxDeclarations = 128 // of one block
	maxRules        = 4000
	maxBlockDepth   = 8
	maxSelectorPart = 4 // compounds of one selector
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
	"letter-spacing", "word-spacing", "line-height", "text-anchor", "text-decoration", "dominant-baseline",
	"alignment-baseline", "baseline-shift", "writing-mode", "direction", "unicode-bidi",
)

// urlProperties may refer to an element of the same document.
var urlProperties = setOf("fill", "stroke", "clip-path", "mask", "filter")

// functions are the functions allowed in values.
var functions = setOf(
	"rgb", "rgba", "hsl", "hsla", "hwb", "lab", "lch", "oklab", "oklch", "color", "color-mix", "var", "calc",
	"min", "max", "clamp", "matrix", "translate", "translatex", "translatey", "scale", "scalex", "scaley",
	"rotate", "skew", "skewx", "skewy",
)

// declaration is a declaration in the allow-list.
type declaration struct {
	name, value string
	important   bool
}

// rule is a set of selectors and their declarations.
type rule struct {
	selectors    []selector
	declarations []declaration
}

// lexCSS splits CSS into at most maxCSSTokens tokens.
func lexCSS(text string) []css.Token {
	lexer := css.NewLexer(parse.NewInputString(text))
	var tokens []css.Token
	for len(tokens) < maxCSSTokens {
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

// parseInline parses a style attribute.
func parseInline(text string) []declaration { return parseDeclarations(lexCSS(text)) }

// readStyle parses a style element.
func (d *document) readStyle(n *node) {
	text := n.text
	n.text = ""
	if n.ignored {
		return
	}
	tokens := lexCSS(text)
	if d.cssTokens += len(tokens); d.cssTokens <= maxCSSTokens {
		n.rules = d.parseSheet(tokens, 0)
	}
}

// parseSheet parses rules. At-rules are omitted, with their content, except for media that always apply.
func (d *document) parseSheet(tokens []css.Token, depth int) []rule {
	var rules []rule
	for len(tokens) > 0 && len(rules) < maxRules && depth < maxBlockDepth {
		switch tokens[0].TokenType {
		case css.WhitespaceToken, css.CDOToken, css.CDCToken, css.SemicolonToken, css.RightBraceToken:
			tokens = tokens[1:]
			continue
		}
		isAtRule := tokens[0].TokenType == css.AtKeywordToken
		open := findDelimiter(tokens, isAtRule)
		if open >= len(tokens) || tokens[open].TokenType == css.SemicolonToken {
			tokens = tokens[min(open+1, len(tokens)):]
			continue
		}
		prelude := tokens[:open]
		end := blockEnd(tokens, open)
		block := tokens[open+1 : end]
		tokens = tokens[min(end+1, len(tokens)):]
		if isAtRule {
			if strings.EqualFold(string(prelude[0].Data), "@media") && applies(joinTokens(prelude[1:])) {
				rules = append(rules, d.parseSheet(block, depth+1)...)
			}
			continue
		}
		r := rule{selectors: parseSelectors(prelude), declarations: parseDeclarations(block)}
		if len(r.selectors) > 0 && len(r.declarations) > 0 {
			rules = append(rules, r)
		}
	}
	return rules[:min(len(rules), maxRules)]
}

// applies reports whether a media query matches by default, whatever the
// viewer's settings: a logo chosen for a background must not change with them.
func applies(query string) bool {
	query = strings.ToLower(strings.Join(strings.Fields(query), ""))
	switch query {
	case "", "all", "screen", "(prefers-color-scheme:light)", "screenand(prefers-color-scheme:light)":
		return true
	}
	return false
}

// findDelimiter returns the index of the "{" that ends a prelude, or of the ";" that ends an at-rule.
func findDelimiter(tokens []css.Token, isAtRule bool) int {
	for i, t := range tokens {
		if t.TokenType == css.LeftBraceToken || isAtRule && t.TokenType == css.SemicolonToken {
			return i
		}
	}
	return len(tokens)
}

// blockEnd returns the index of the "}" that closes the "{" at open, or the end.
func blockEnd(tokens []css.Token, open int) int {
	depth := 0
	for i := open; i < len(tokens); i++ {
		switch tokens[i].TokenType {
		case css.LeftBraceToken:
			depth++
		case css.RightBraceToken:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(tokens)
}

func joinTokens(tokens []css.Token) string {
	var b strings.Builder
	for _, t := range tokens {
		b.Write(t.Data)
	}
	return b.String()
}

// parseDeclarations parses a block and keeps the declarations in the allow-list. Nested blocks are omitted.
func parseDeclarations(tokens []css.Token) []declaration {
	var out []declaration
	for len(tokens) > 0 && len(out) < maxDeclarations {
		end := declarationEnd(tokens)
		if d, ok := parseDeclaration(tokens[:end]); ok {
			out = append(out, d)
		}
		tokens = tokens[min(end+1, len(tokens)):]
	}
	return out
}

func declarationEnd(tokens []css.Token) int {
	for i := 0; i < len(tokens); i++ {
		switch tokens[i].TokenType {
		case css.SemicolonToken:
			return i
		case css.LeftBraceToken:
			return blockEnd(tokens, i)
		}
	}
	return len(tokens)
}

var customProperty = lazyregexp.New(`^--[A-Za-z0-9_-]{1,64}$`)

func parseDeclaration(tokens []css.Token) (declaration, bool) {
	tokens = trimSpace(tokens)
	colon := slices.IndexFunc(tokens, func(t css.Token) bool { return t.TokenType == css.ColonToken })
	if colon < 1 {
		return declaration{}, false
	}
	name := strings.TrimSpace(joinTokens(tokens[:colon]))
	if !customProperty.MatchString(name) {
		name = strings.ToLower(name)
		if !properties[name] {
			return declaration{}, false
		}
	}
	value := trimSpace(tokens[colon+1:])
	d := declaration{name: name}
	if value, d.important = cutImportant(value); len(value) == 0 {
		return declaration{}, false
	}
	var ok bool
	d.value, ok = cleanValue(name, value)
	// Like a browser, which keeps an earlier declaration if it does not know the function of a later one.
	return d, ok && !(colorProperties[name] && isUnknownColor(d.value))
}

// isUnknownColor reports whether a value is a color function that cannot be drawn.
func isUnknownColor(value string) bool {
	name, _, isFunction := strings.Cut(strings.ToLower(value), "(")
	if !isFunction || name == "url" || name == "var" || strings.Contains(value, "var(") {
		return false
	}
	_, _, ok := imaging.ParseColor(value)
	return !ok
}

func trimSpace(tokens []css.Token) []css.Token {
	for len(tokens) > 0 && tokens[0].TokenType == css.WhitespaceToken {
		tokens = tokens[1:]
	}
	for len(tokens) > 0 && tokens[len(tokens)-1].TokenType == css.WhitespaceToken {
		tokens = tokens[:len(tokens)-1]
	}
	return tokens
}

func cutImportant(tokens []css.Token) ([]css.Token, bool) {
	n := len(tokens)
	if n < 2 || !strings.EqualFold(string(tokens[n-1].Data), "important") {
		return tokens, false
	}
	rest := trimSpace(tokens[:n-1])
	if len(rest) == 0 || string(rest[len(rest)-1].Data) != "!" {
		return tokens, false
	}
	return trimSpace(rest[:len(rest)-1]), true
}

var (
	cssNumber = lazyregexp.New(`^([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)(%|[A-Za-z]{0,5})$`)
	cssHash   = lazyregexp.New(`^#(?:[0-9A-Fa-f]{3,4}|[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$`)
	cssString = lazyregexp.New(`^["']([\p{L}\p{N} _.,-]{0,128})["']$`)
)

// cleanValue rebuilds a property's value from its tokens, or returns false if one of them is not allowed there.
func cleanValue(name string, tokens []css.Token) (string, bool) {
	tokens = trimSpace(withoutOutsidePaint(name, trimSpace(tokens)))
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
	value := b.String()
	if colorProperties[name] {
		value = plainColor(value)
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
	case css.IdentToken, css.CustomPropertyNameToken:
		return data, isIdent(data) || depth > 0 && customProperty.MatchString(data)
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

func writeDeclarations(ds []declaration) string {
	var b strings.Builder
	for i, d := range ds {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(d.name + ":" + d.value)
		if d.important {
			b.WriteString("!important")
		}
	}
	return b.String()
}

func writeRules(rules []rule) string {
	var b strings.Builder
	for _, r := range rules {
		for i, s := range r.selectors {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(s.String())
		}
		b.WriteString("{" + writeDeclarations(r.declarations) + "}")
	}
	return b.String()
}
