package css

import (
	"net/url"
	"strings"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/css"
)

// parser reads one sheet from its tokens according to CSS Syntax 3, section 5, with nested rules.
type parser struct {
	book *book
	at   *url.URL
	path []string
	text string

	lex     *css.Lexer
	kind    css.TokenType
	start   int // of the token in text
	end     int
	comment bool // seen since mark
}

// scope is the context of a block.
type scope struct {
	layer   *layer
	parents []string // the selectors of the surrounding style rule, or nil
}

func newParser(b *book, text string, at *url.URL, path []string) *parser {
	return &parser{book: b, at: at, path: path, text: text, lex: css.NewLexer(parse.NewInputString(text))}
}

func (p *parser) next() bool {
	kind, data := p.lex.Next()
	p.kind, p.start, p.end = kind, p.end, p.end+len(data)
	if kind == css.CommentToken {
		p.comment = true
	}
	return kind != css.ErrorToken
}

// block reads rules and, within a style rule, declarations, up to its closing brace.
func (p *parser) block(in scope, depth int) {
	current := -1 // the rule that receives declarations
	for p.next() {
		switch p.kind {
		case css.WhitespaceToken, css.CommentToken, css.CDOToken, css.CDCToken:
		case css.SemicolonToken:
			if in.parents == nil {
				p.qualified(in, depth) // outside of a rule it invalidates the next one
			}
		case css.RightBraceToken:
			if depth > 0 {
				return
			}
			p.qualified(in, depth) // as does a surplus brace
		case css.AtKeywordToken:
			current = -1
			if p.atRule(in, depth) {
				return
			}
		default:
			if in.parents == nil {
				p.qualified(in, depth)
				continue
			}
			d, nested, ended := p.statement(in, depth)
			if nested {
				current = -1
			} else if d.name != "" {
				current = p.declare(in, current, d)
			}
			if ended {
				return
			}
		}
	}
}

// declare adds a declaration to the block's rule, which the first one creates.
func (p *parser) declare(in scope, current int, d declaration) int {
	b := p.book
	if b.declarations >= maxDeclarations {
		return current
	}
	if current < 0 {
		if len(b.rules) >= maxRules {
			return -1
		}
		current = len(b.rules)
		b.rules = append(b.rules, rule{at: p.at, layer: in.layer})
		for _, s := range in.parents {
			b.index(s, int32(current))
		}
	}
	b.declarations++
	b.rules[current].declarations = append(b.rules[current].declarations, d)
	return current
}

// qualified reads a style rule outside of any other, beginning with the current token.
func (p *parser) qualified(in scope, depth int) {
	start, nest := p.start, 0
	p.comment = p.kind == css.CommentToken
	for {
		if p.kind == css.LeftBraceToken && nest == 0 {
			p.style(in, p.slice(start, p.start), depth)
			return
		}
		nest = max(0, nest+p.nesting())
		if !p.next() {
			return
		}
	}
}

// style reads the block of a style rule with a list of selectors.
func (p *parser) style(in scope, prelude string, depth int) {
	if depth >= maxNesting || len(p.book.rules) >= maxRules {
		p.skip()
		return
	}
	selectors := splitSelectors(prelude)
	if in.parents != nil {
		selectors = p.book.nest(in.parents, selectors)
	}
	if len(selectors) == 0 {
		p.skip()
		return
	}
	in.parents = selectors
	p.block(in, depth+1)
}

// statement reads a declaration or a nested rule. ended reports whether the closing brace of its block ended it.
func (p *parser) statement(in scope, depth int) (d declaration, nested, ended bool) {
	start := p.start
	first, nameEnd, colon := p.kind, p.end, -1
	custom := first == css.CustomPropertyNameToken
	p.comment = false
	nest := 0
	named := true // only the name was read
	for {
		switch {
		case p.kind == css.ColonToken && colon < 0 && named:
			colon = p.end
		case nest > 0:
		case p.kind == css.SemicolonToken, p.kind == css.RightBraceToken:
			return p.declaration(start, nameEnd, colon, first), false, p.kind == css.RightBraceToken
		case p.kind == css.LeftBraceToken && !custom:
			p.style(in, p.slice(start, p.start), depth)
			return declaration{}, true, false
		}
		nest = max(0, nest+p.nesting())
		named = named && (p.end == nameEnd || p.kind == css.WhitespaceToken || p.kind == css.CommentToken)
		if !p.next() {
			p.start = p.end
			return p.declaration(start, nameEnd, colon, first), false, true
		}
	}
}

const maxValue = 512 << 10 // limits the bytes of a value: data URLs make values long

// declaration returns the declaration before the current token: a name, a colon
// and a value. The name is "" if it is not one.
func (p *parser) declaration(start, nameEnd, colon int, first css.TokenType) declaration {
	if colon < 0 || first != css.IdentToken && first != css.CustomPropertyNameToken {
		return declaration{}
	}
	d := declaration{name: p.text[start:nameEnd], value: strings.TrimSpace(p.slice(colon, p.start))}
	if first == css.IdentToken {
		d.name = strings.ToLower(d.name)
	}
	d.value, d.important = cutImportant(d.value)
	if d.value == "" || len(d.value) > maxValue {
		return declaration{}
	}
	return d
}

func cutImportant(value string) (string, bool) {
	const word = "important"
	if len(value) <= len(word) || !strings.EqualFold(value[len(value)-len(word):], word) {
		return value, false
	}
	rest, ok := strings.CutSuffix(strings.TrimSpace(value[:len(value)-len(word)]), "!")
	if !ok {
		return value, false
	}
	return strings.TrimSpace(rest), true
}

// slice returns the text between two positions, without comments.
func (p *parser) slice(from, to int) string {
	text := p.text[from:to]
	if !p.comment || !strings.Contains(text, "/*") {
		return text
	}
	var out strings.Builder
	lex := css.NewLexer(parse.NewInputString(text))
	for {
		kind, data := lex.Next()
		switch kind {
		case css.ErrorToken:
			return out.String()
		case css.CommentToken:
		default:
			out.Write(data)
		}
	}
}

// nesting returns by how much the current token changes the number of open brackets.
func (p *parser) nesting() int {
	switch p.kind {
	case css.LeftBraceToken, css.LeftParenthesisToken, css.LeftBracketToken, css.FunctionToken:
		return 1
	case css.RightBraceToken, css.RightParenthesisToken, css.RightBracketToken:
		return -1
	}
	return 0
}

// skip skips the rest of a block whose opening brace is the current token.
func (p *parser) skip() {
	for nest := 1; nest > 0 && p.next(); {
		switch p.kind {
		case css.LeftBraceToken:
			nest++
		case css.RightBraceToken:
			nest--
		}
	}
}
