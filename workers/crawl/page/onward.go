package page

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	maxScriptCalls = 50      // limits the functions that are entered
	maxJoined      = 4 << 10 // limits a text that scripts join, in bytes
)

// Onward returns where the page sends every visitor: the URL that its scripts assign to the location without a
// condition, or its meta refresh if that comes first. It is nil if the page stays. A page whose script sets a cookie
// sends its visitors on with that cookie, so its scripts do not count.
func (p *Page) Onward() *Refresh {
	if p.Root == nil || p.URL == nil {
		return p.Refresh
	}
	s := &scripts{page: p, functions: map[string]*js.BlockStmt{}, values: map[string]string{
		"location.origin": p.URL.Scheme + "://" + p.URL.Host, "location.protocol": p.URL.Scheme + ":",
		"location.host": p.URL.Host, "location.hostname": p.URL.Hostname(), "location.search": "", "location.hash": ""}}
	left, onload := maxRawBytes, ""
	for n := range p.Root.Descendants() {
		kind := strings.ToLower(Attr(n, "type"))
		switch {
		case n.Type != html.ElementNode || n.Namespace != "":
		case n.DataAtom == atom.Body:
			onload = Attr(n, "onload")
		case n.DataAtom == atom.Script && (kind == "" || kind == "module" || strings.HasSuffix(kind, "javascript")):
			if text := inner(n); len(text) <= left {
				left -= len(text)
				s.run(text, 0)
			}
		}
	}
	if len(onload) <= left {
		s.run(onload, 0)
	}
	if s.onward == nil || s.cookie || p.Refresh != nil && p.Refresh.Seconds < s.onward.Seconds {
		return p.Refresh
	}
	return s.onward
}

// scripts reads what the scripts of a page do to its location when the page is loaded.
type scripts struct {
	page      *Page
	values    map[string]string // texts of variables
	functions map[string]*js.BlockStmt
	calls     int
	onward    *Refresh
	cookie    bool // one is set
}

// run reads a script that is run so many milliseconds after the page is loaded.
func (s *scripts) run(source string, after float64) {
	ast, err := js.Parse(parse.NewInputString(source), js.Options{})
	if err == nil {
		s.block(&ast.BlockStmt, after)
	}
}

// block reads statements up to the first that may skip those after it.
func (s *scripts) block(b *js.BlockStmt, after float64) {
	if s.calls++; s.calls > maxScriptCalls {
		return
	}
	for _, statement := range b.List {
		if f, ok := statement.(*js.FuncDecl); ok && f.Name != nil {
			s.functions[string(f.Name.Data)] = &f.Body
		}
	}
	for _, statement := range b.List {
		switch t := statement.(type) {
		case *js.ExprStmt:
			s.does(t.Value, after)
		case *js.VarDecl:
			for _, v := range t.List {
				if name, ok := v.Binding.(*js.Var); ok {
					s.assign(string(name.Data), v.Default)
				}
			}
		case *js.BlockStmt:
			s.block(t, after)
		case *js.TryStmt:
			s.block(t.Body, after)
		case *js.IfStmt:
			if leaves(t.Body) || leaves(t.Else) {
				return
			}
		case *js.ReturnStmt:
			s.does(t.Value, after)
			return
		case *js.ThrowStmt:
			return
		}
	}
}

// leaves reports whether a branch may end the function.
func leaves(statement js.IStmt) bool {
	switch t := statement.(type) {
	case *js.ReturnStmt, *js.ThrowStmt:
		return true
	case *js.BlockStmt:
		return slices.ContainsFunc(t.List, leaves)
	case *js.IfStmt:
		return leaves(t.Body) || leaves(t.Else)
	}
	return false
}

// does reads an expression that is always evaluated.
func (s *scripts) does(e js.IExpr, after float64) {
	switch t := e.(type) {
	case *js.GroupExpr:
		s.does(t.X, after)
	case *js.UnaryExpr:
		s.does(t.X, after)
	case *js.CommaExpr:
		for _, one := range t.List {
			s.does(one, after)
		}
	case *js.BinaryExpr:
		if t.Op != js.EqToken {
			return
		}
		switch name := s.name(t.X); name {
		case "location", "location.href":
			s.leave(t.Y, after)
		case "cookie":
			s.cookie = true
		case "onload", "onpageshow":
			s.callback(t.Y, after)
		default:
			s.assign(name, t.Y)
		}
	case *js.CallExpr:
		s.call(t, after)
	}
}

func (s *scripts) call(c *js.CallExpr, after float64) {
	args := c.Args.List
	arg := func(i int) js.IExpr {
		if i < len(args) {
			return args[i].Value
		}
		return nil
	}
	name := s.name(c.X)
	switch name {
	case "location.replace", "location.assign":
		s.leave(arg(0), after)
	case "setTimeout":
		wait := 0.0
		if number, ok := arg(1).(*js.LiteralExpr); ok {
			wait, _ = strconv.ParseFloat(string(number.Data), 64)
		}
		if text, ok := s.text(arg(0)); ok {
			if s.calls++; s.calls <= maxScriptCalls {
				s.run(text, after+wait)
			}
			return
		}
		s.callback(arg(0), after+wait)
	case "addEventListener", ").on":
		if event, _ := s.text(arg(0)); event == "load" || event == "DOMContentLoaded" || event == "pageshow" {
			s.callback(arg(1), after)
		}
	case "$", "jQuery", ").ready", ").load", "requestAnimationFrame", "queueMicrotask":
		s.callback(arg(0), after)
	default:
		s.callback(c.X, after)
	}
}

// callback reads a function that is certain to be called.
func (s *scripts) callback(f js.IExpr, after float64) {
	if dot, ok := f.(*js.DotExpr); ok { // (function () { … }).call(this)
		f = dot.X
	}
	body := bodyOf(f)
	if name, ok := f.(*js.Var); ok {
		body = s.functions[string(name.Data)]
	}
	if body != nil {
		s.block(body, after)
	}
}

// bodyOf returns the body of a function that an expression defines, or nil.
func bodyOf(e js.IExpr) *js.BlockStmt {
	switch t := e.(type) {
	case *js.GroupExpr:
		return bodyOf(t.X)
	case *js.FuncDecl:
		return &t.Body
	case *js.ArrowFunc:
		return &t.Body
	}
	return nil
}

// assign keeps the value of a variable, if it is known.
func (s *scripts) assign(name string, value js.IExpr) {
	delete(s.values, name)
	delete(s.functions, name)
	if body := bodyOf(value); body != nil {
		s.functions[name] = body
	} else if text, ok := s.text(value); ok {
		s.values[name] = text
	}
}

// leave notes that the page is left for another.
func (s *scripts) leave(to js.IExpr, after float64) {
	text, ok := s.text(to)
	u := s.page.Resolve(text)
	if !ok || text == "" || u == nil || s.onward != nil && float64(s.onward.Seconds) < after/1000 {
		return
	}
	s.onward = &Refresh{Seconds: int(min(after/1000, 1e6)), URL: u}
}

// text returns the value of an expression made of texts, variables, and parts of the page's own location.
func (s *scripts) text(e js.IExpr) (string, bool) {
	switch t := e.(type) {
	case *js.GroupExpr:
		return s.text(t.X)
	case *js.LiteralExpr:
		if t.TokenType == js.StringToken {
			return unquote(string(t.Data)), true
		}
	case *js.TemplateExpr:
		if len(t.List) == 0 && t.Tag == nil {
			return unquote(string(t.Tail)), true
		}
	case *js.BinaryExpr:
		a, ok := s.text(t.X)
		if b, also := s.text(t.Y); ok && also && t.Op == js.AddToken && len(a)+len(b) <= maxJoined {
			return a + b, true
		}
	case *js.Var, *js.DotExpr:
		name := s.name(e)
		value, ok := s.values[name]
		return value, ok
	}
	return "", false
}

// name returns an expression as a path, without the objects through which every page has its location: location.href
// for window.top.document["location"].href.
func (s *scripts) name(e js.IExpr) string {
	of, member := e, ""
	switch t := e.(type) {
	case *js.Var:
		return string(t.Data)
	case *js.LiteralExpr: // this
		return string(t.Data)
	case *js.DotExpr:
		if y, ok := t.Y.(js.LiteralExpr); ok {
			of, member = t.X, string(y.Data)
		}
	case *js.IndexExpr:
		of = t.X
		member, _ = s.text(t.Y)
	}
	if member == "" {
		return ""
	}
	if _, called := of.(*js.CallExpr); called {
		return ")." + member
	}
	switch outer := s.name(of); outer {
	case "window", "document", "self", "top", "parent", "globalThis", "this":
		return member
	default:
		return outer + "." + member
	}
}

// unquote returns the value of a text in a script.
func unquote(text string) string {
	text = strings.Trim(text, text[:min(len(text), 1)])
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, `\`)
		b.WriteString(before)
		if !found || rest == "" {
			return b.String()
		}
		digits := map[byte]int{'x': 2, 'u': 4}[rest[0]]
		if r, err := strconv.ParseUint(rest[1:min(len(rest), 1+digits)], 16, 16); digits > 0 && err == nil {
			b.WriteRune(rune(r))
			text = rest[1+digits:]
			continue
		}
		b.WriteByte(rest[0])
		text = rest[1:]
	}
}
