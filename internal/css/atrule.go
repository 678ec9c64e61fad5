package css

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tdewolff/parse/v2/css"
)

// atRule reads an at-rule, whose keyword is the current token. ended reports
// whether the closing brace of the surrounding block ended it.
func (p *parser) atRule(in scope, depth int) (ended bool) {
	name := strings.ToLower(p.text[p.start+1 : p.end])
	start, nest := p.end, 0
	p.comment = false
	for p.next() {
		switch {
		case nest > 0:
		case p.kind == css.SemicolonToken:
			p.statementRule(in, name, strings.TrimSpace(p.slice(start, p.start)))
			return false
		case p.kind == css.RightBraceToken && depth > 0:
			return true
		case p.kind == css.LeftBraceToken:
			p.blockRule(in, name, strings.TrimSpace(p.slice(start, p.start)), depth)
			return false
		}
		nest = max(0, nest+p.nesting())
	}
	p.statementRule(in, name, strings.TrimSpace(p.slice(start, p.end)))
	return true
}

// statementRule adds an at-rule without a block.
func (p *parser) statementRule(in scope, name, prelude string) {
	switch name {
	case "layer":
		for part := range strings.SplitSeq(prelude, ",") {
			p.book.layer(in.layer, strings.TrimSpace(part))
		}
	case "import":
		if in.parents == nil {
			p.imports(in, prelude)
		}
	}
}

// blockRule adds an at-rule with a block, whose opening brace is the current token.
func (p *parser) blockRule(in scope, name, prelude string, depth int) {
	if depth >= maxNesting {
		p.skip()
		return
	}
	applies := true
	switch name {
	case "media":
		applies = Applies(prelude)
	case "container":
		applies = containerApplies(prelude)
	case "supports":
		applies = supported(prelude)
	case "layer":
		in.layer = p.book.layer(in.layer, prelude)
	case "font-face":
		p.fontFace()
		return
	default:
		p.skip()
		return
	}
	if !applies || in.layer == nil {
		p.skip()
		return
	}
	p.block(in, depth+1)
}

// layer finds or creates a layer by its name within another; an unnamed one is
// always new. It returns nil beyond the limit.
func (b *book) layer(within *layer, name string) *layer {
	for part := range strings.SplitSeq(name, ".") {
		part = strings.TrimSpace(part)
		at := slices.IndexFunc(within.children, func(l *layer) bool { return l.name == part && part != "" })
		if at < 0 {
			if b.layerCount >= maxLayers {
				return nil
			}
			b.layerCount++
			at = len(within.children)
			within.children = append(within.children, &layer{name: part, parent: within})
		}
		within = within.children[at]
	}
	return within
}

// supported assumes that a browser supports all requested features, except those that only old browsers had.
func supported(condition string) bool {
	condition = strings.ToLower(condition)
	return !strings.HasPrefix(condition, "not ") && !strings.HasPrefix(condition, "not(") &&
		!strings.Contains(condition, "(-ms-")
}

// imports reads the sheet of an @import, if its text was given.
func (p *parser) imports(in scope, prelude string) {
	at, rest := p.book.importAddress(prelude, p.at)
	if at == nil {
		return
	}
	b := p.book
	if len(b.imported) < maxImports && !slices.ContainsFunc(b.imported, func(u *url.URL) bool { return *u == *at }) {
		b.imported = append(b.imported, at)
	}
	if name, after, ok := cutFunction(rest, "layer"); ok {
		in.layer, rest = b.layer(in.layer, name), after
	} else if after, ok := strings.CutPrefix(rest, "layer"); ok {
		in.layer, rest = b.layer(in.layer, ""), strings.TrimSpace(after)
	}
	if condition, after, ok := cutFunction(rest, "supports"); ok {
		rest = after
		if !supported(condition) {
			return
		}
	}
	key := at.String()
	text, given := b.sheets[key]
	if !Applies(rest) || !given || in.layer == nil || len(p.path) > maxImportDepth ||
		slices.Contains(p.path, key) {
		return
	}
	b.sheet(string(text[:min(len(text), MaxSheetBytes)]), at, in, append(slices.Clone(p.path), key))
}

// cutFunction cuts name(argument) from the beginning of a text.
func cutFunction(text, name string) (argument, rest string, ok bool) {
	if len(text) <= len(name) || !strings.EqualFold(text[:len(name)], name) || text[len(name)] != '(' {
		return "", text, false
	}
	end := closing(text, len(name))
	return strings.TrimSpace(text[len(name)+1 : end]), strings.TrimSpace(text[min(end+1, len(text)):]), true
}

// importAddress reads the URL at the beginning of the text after @import.
func (b *book) importAddress(prelude string, at *url.URL) (*url.URL, string) {
	if ref, rest, ok := cutFunction(prelude, "url"); ok {
		return b.resolve(at, unquote(ref)), rest
	}
	if prelude == "" || prelude[0] != '"' && prelude[0] != '\'' {
		return nil, ""
	}
	end := stringEnd(prelude, 0)
	return b.resolve(at, unquote(prelude[:end])), strings.TrimSpace(prelude[end:])
}

// Imports lists the URLs of the sheets that a sheet imports, without those only
// for print or a dark scheme. Browsers obey an @import only before any rule.
func Imports(sheet []byte, at *url.URL, resolve Resolve) []*url.URL {
	var out []*url.URL
	p := newParser(&book{layers: &layer{}, resolve: resolve}, string(sheet[:min(len(sheet), MaxSheetBytes)]), at, nil)
	for len(out) < maxImports && p.next() {
		switch p.kind {
		case css.WhitespaceToken, css.CommentToken, css.CDOToken, css.CDCToken, css.SemicolonToken:
			continue
		case css.AtKeywordToken:
			name, start := strings.ToLower(p.text[p.start+1:p.end]), p.end
			for p.next() && p.kind != css.SemicolonToken && p.kind != css.LeftBraceToken {
			}
			if p.kind == css.LeftBraceToken || p.kind == css.ErrorToken && name != "import" {
				return out
			}
			if name != "import" {
				continue
			}
			p.comment = true
			u, rest := p.book.importAddress(strings.TrimSpace(p.slice(start, p.start)), at)
			_, rest, _ = cutFunction(rest, "layer")
			_, rest, _ = cutFunction(strings.TrimSpace(strings.TrimPrefix(rest, "layer")), "supports")
			if u != nil && Applies(rest) &&
				!slices.ContainsFunc(out, func(have *url.URL) bool { return *have == *u }) {
				out = append(out, u)
			}
		default:
			return out
		}
	}
	return out
}

// Limits of one @font-face.
const (
	maxFaceSources = 10
	maxFamilyBytes = 200
)

// fontFace reads the block of an @font-face.
func (p *parser) fontFace() {
	var f Face
	local := scope{parents: []string{}}
	for p.next() {
		if p.kind == css.RightBraceToken {
			break
		}
		if p.kind != css.IdentToken {
			continue
		}
		d, _, ended := p.statement(local, maxNesting)
		switch d.name {
		case "font-family":
			f.Family = unquote(d.value)
		case "src":
			f.Sources = append(f.Sources, p.book.sources(d.value, p.at)...)
		case "font-weight":
			f.Weights = weights(d.value)
		}
		if ended {
			break
		}
	}
	f.Sources = f.Sources[:min(len(f.Sources), maxFaceSources)]
	if f.Family == "" || len(f.Family) > maxFamilyBytes || len(p.book.faces) >= maxFaces {
		return
	}
	p.book.faces = append(p.book.faces, f)
}

// sources lists the URLs in a src.
func (b *book) sources(value string, at *url.URL) []*url.URL {
	var out []*url.URL
	for len(out) < maxFaceSources {
		i := indexURL(value)
		if i < 0 {
			break
		}
		ref, rest, _ := cutFunction(value[i:], "url")
		value = rest
		if u := b.resolve(at, unquote(ref)); u != nil {
			out = append(out, u)
		}
	}
	return out
}

// weights parses the font-weight of a face: one value, or both ends of a range.
func weights(value string) []int {
	var out []int
	for word := range strings.FieldsSeq(value) {
		switch word = strings.ToLower(word); word {
		case "normal":
			word = "400"
		case "bold":
			word = "700"
		}
		if w, err := strconv.ParseFloat(word, 64); err == nil && w >= 1 && w <= 1000 {
			out = append(out, int(w))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
