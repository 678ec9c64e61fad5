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
	maxJoined      = 4 << 10 // limits a string that scripts join or run, in bytes
)

// Onward returns where the page sends every visitor: the URL that its scripts assign to the location without a
// condition, or its meta refresh if that comes first. It is nil if the page stays. A page whose script sets a cookie
// sends its visitors on with that cookie, so its scripts do not count.
func (p *Page) Onward() *Refresh {
	if p.onward == nil { // a page that Parse did not make
		return p.Refresh
	}
	return p.onward()
}

func (p *Page) readOnward() *Refresh {
	s := &scripts{page: p, functions: map[string]function{}, values: map[string]string{
		"location.origin": p.URL.Scheme + "://" + p.URL.Host, "location.protocol": p.URL.Scheme + ":",
		"location.host": p.URL.Host, "location.hostname": p.URL.Hostname(), "location.search": "", "location.hash": ""}}
	left, onload := maxRawBytes, ""
	for n := range p.Root.Descendants() {
		kind := strings.ToLower(Attr(n, "type"))
		switch {
		case n.Type != html.ElementNode || n.Namespace != "":
		case n.DataAtom == atom.Body:
			onload = Attr(n, "onload")
		case n.DataAtom == atom.Script && (kind == "" || kind == "module" || strings.HasSuffix(kind, "javascript")) &&
			!slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "src" || a.Key == "nomodule" }):
			if text := inner(n); len(text) <= left {
				left -= len(text)
				s.run(text)
			}
		}
	}
	if len(onload) <= left {
		s.run(onload)
	}
	if s.onward == nil || s.cookie || p.Refresh != nil && p.Refresh.Seconds < s.onward.Seconds {
		return p.Refresh
	}
	return s.onward
}

// scripts finds out what the scripts of a page do to its location while it loads. It visits only code that always runs.
type scripts struct {
	page      *Page
	values    map[string]string // strings in variables
	functions map[string]function
	calls     int
	after     float64 // milliseconds that timers wait
	left      bool    // the rest of the function may not run
	onward    *Refresh
	cookie    bool // a script sets one
}

// function is the definition of a function.
type function struct {
	params *js.Params
	body   *js.BlockStmt
}

func (s *scripts) run(source string) {
	if ast, err := js.Parse(parse.NewInputString(source), js.Options{}); err == nil {
		s.enter(function{&js.Params{}, &ast.BlockStmt}, nil)
	}
}

// enter reads a function that is called with arguments.
func (s *scripts) enter(f function, args []js.Arg) {
	if f.body == nil || s.calls >= maxScriptCalls {
		return
	}
	s.calls++
	for i, param := range f.params.List {
		s.assign(param.Binding, at(args, i))
	}
	for _, statement := range f.body.List { // functions may be called before they are defined
		if f, ok := statement.(*js.FuncDecl); ok {
			s.assign(f.Name, f)
		}
	}
	left := s.left
	js.Walk(s, f.body)
	s.left = left
}

// Exit implements js.IVisitor.
func (s *scripts) Exit(js.INode) {}

// Enter implements js.IVisitor.
func (s *scripts) Enter(n js.INode) js.IVisitor {
	if s.left {
		return nil
	}
	switch t := n.(type) {
	case *js.BlockStmt, *js.ExprStmt, *js.GroupExpr, *js.UnaryExpr, *js.CommaExpr:
		return s
	case *js.TryStmt:
		js.Walk(s, t.Body)
	case *js.ReturnStmt:
		js.Walk(s, t.Value)
		s.left = true
	case *js.VarDecl:
		for _, v := range t.List {
			s.assign(v.Binding, v.Default)
		}
	case *js.BinaryExpr:
		if t.Op == js.EqToken {
			s.set(t.X, t.Y)
		}
	case *js.CallExpr:
		s.call(t)
	case js.IStmt: // a condition or a loop
		js.Walk((*leaves)(&s.left), t)
	}
	return nil
}

// leaves finds statements that end a function.
type leaves bool

// Exit implements js.IVisitor.
func (l *leaves) Exit(js.INode) {}

// Enter implements js.IVisitor.
func (l *leaves) Enter(n js.INode) js.IVisitor {
	switch n.(type) {
	case *js.ReturnStmt, *js.ThrowStmt:
		*l = true
	case *js.FuncDecl, *js.ArrowFunc, *js.MethodDecl:
		return nil
	}
	return l
}

// set reads an assignment.
func (s *scripts) set(to, value js.IExpr) {
	switch s.name(to) {
	case "location", "location.href":
		s.leave(value)
	case "cookie":
		s.cookie = true
	case "onload", "onpageshow":
		s.enter(s.function(value), nil)
	default:
		s.assign(to, value)
	}
}

// at returns an argument, or nil if the call has fewer.
func at(args []js.Arg, i int) js.IExpr {
	if i < len(args) {
		return args[i].Value
	}
	return nil
}

func (s *scripts) call(c *js.CallExpr) {
	first, second := at(c.Args.List, 0), at(c.Args.List, 1)
	switch s.name(c.X) {
	case "location.replace", "location.assign":
		s.leave(first)
	case "setTimeout":
		before := s.after
		if number, ok := second.(*js.LiteralExpr); ok {
			wait, _ := strconv.ParseFloat(string(number.Data), 64)
			s.after += max(wait, 0)
		}
		if text, ok := s.text(first); ok && len(text) <= maxJoined && s.calls < maxScriptCalls {
			s.run(text)
		}
		s.enter(s.function(first), nil)
		s.after = before
	case "addEventListener", ").on":
		if event, _ := s.text(first); event == "load" || event == "DOMContentLoaded" || event == "pageshow" {
			s.enter(s.function(second), nil)
		}
	case "$", "jQuery", ").ready", ").load", "requestAnimationFrame", "queueMicrotask":
		s.enter(s.function(first), nil)
	default:
		if dot, ok := c.X.(*js.DotExpr); ok { // (function () { … }).call(this)
			s.enter(definition(dot.X), nil)
			return
		}
		s.enter(s.function(c.X), c.Args.List)
	}
}

// function returns the function that an expression names or defines.
func (s *scripts) function(e js.IExpr) function {
	if name, ok := e.(*js.Var); ok {
		return s.functions[string(name.Data)]
	}
	return definition(e)
}

func definition(e js.IExpr) function {
	switch t := e.(type) {
	case *js.GroupExpr:
		return definition(t.X)
	case *js.FuncDecl:
		return function{&t.Params, &t.Body}
	case *js.ArrowFunc:
		return function{&t.Params, &t.Body}
	}
	return function{}
}

// assign keeps the value of a variable or a member, if it is known.
func (s *scripts) assign(to js.INode, value js.IExpr) {
	e, _ := to.(js.IExpr)
	name := s.name(e)
	delete(s.values, name)
	delete(s.functions, name)
	if f := definition(value); f.body != nil {
		s.functions[name] = f
	} else if text, ok := s.text(value); ok && name != "" {
		s.values[name] = text
	}
}

// leave records that a script leaves the page for another.
func (s *scripts) leave(to js.IExpr) {
	text, ok := s.text(to)
	u := s.page.Resolve(text)
	if ok && text != "" && u != nil && (s.onward == nil || float64(s.onward.Seconds) >= s.after/1000) {
		s.onward = &Refresh{Seconds: int(min(s.after/1000, 1e6)), URL: u}
	}
}

// text returns the value of an expression made of strings, variables, and parts of the page's own location.
func (s *scripts) text(e js.IExpr) (string, bool) {
	switch t := e.(type) {
	case *js.GroupExpr:
		return s.text(t.X)
	case *js.LiteralExpr:
		return unquote(t.Data)
	case *js.TemplateExpr:
		if len(t.List) == 0 && t.Tag == nil {
			return unquote(t.Tail)
		}
	case *js.BinaryExpr:
		a, ok := s.text(t.X)
		if b, also := s.text(t.Y); ok && also && t.Op == js.AddToken && len(a)+len(b) <= maxJoined {
			return a + b, true
		}
	case *js.Var, *js.DotExpr:
		value, ok := s.values[s.name(e)]
		return value, ok
	}
	return "", false
}

// name returns an expression as a path, without the objects through which scripts reach the location: location.href
// for window.top.document["location"].href.
func (s *scripts) name(e js.IExpr) string {
	of, member := e, ""
	switch t := e.(type) {
	case *js.Var:
		if t != nil {
			return string(t.Data)
		}
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

// escapes turns the escapes of scripts into those of Go.
var escapes = strings.NewReplacer(`\\`, `\\`, `\"`, `\"`, `"`, `\"`, `\'`, `'`, `\/`, `/`, "\\`", "`")

// unquote returns the value of a string literal.
func unquote(text []byte) (string, bool) {
	if len(text) < 2 || !strings.ContainsRune("'\"`", rune(text[0])) {
		return "", false
	}
	out, err := strconv.Unquote(`"` + escapes.Replace(string(text[1:len(text)-1])) + `"`)
	return out, err == nil
}
