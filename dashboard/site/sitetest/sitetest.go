// Package sitetest reads pages in tests.
package sitetest

import (
	"iter"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// Elements returns the elements of a page with a name.
func Elements(page *html.Node, name string) (all []*html.Node) {
	for n := range page.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			all = append(all, n)
		}
	}
	return all
}

// Attribute returns an attribute of an element, or an empty text.
func Attribute(n *html.Node, name string) string {
	value, _ := attribute(n, name)
	return value
}

func attribute(n *html.Node, name string) (value string, ok bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// Text returns the text of an element, with single spaces.
func Text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// Rows returns the texts of the cells of the rows of tables' bodies.
func Rows(page *html.Node) (rows [][]string) {
	for _, tr := range Elements(page, "tr") {
		if tr.Parent.Data != "tbody" {
			continue
		}
		var cells []string
		for n := range elements(tr.ChildNodes()) {
			cells = append(cells, Text(n))
		}
		rows = append(rows, cells)
	}
	return rows
}

func elements(nodes iter.Seq[*html.Node]) iter.Seq[*html.Node] {
	return func(yield func(*html.Node) bool) {
		for n := range nodes {
			if n.Type == html.ElementNode && !yield(n) {
				return
			}
		}
	}
}

// Link returns the address of the first link whose text begins so, and reports whether there is one.
func Link(page *html.Node, text string) (address string, ok bool) {
	for _, n := range Elements(page, "a") {
		if strings.HasPrefix(Text(n), text) {
			return Attribute(n, "href"), true
		}
	}
	return "", false
}

// Form returns the fields, as they are, of the form that leads to an address, and reports whether there is one. A form that
// changes something takes precedence over one that filters.
func Form(page *html.Node, action string) (fields url.Values, ok bool) {
	forms := Elements(page, "form")
	leads := func(n *html.Node) bool { return Attribute(n, "action") == action }
	i := slices.IndexFunc(forms, func(n *html.Node) bool { return leads(n) && Attribute(n, "method") == "post" })
	if i < 0 {
		i = slices.IndexFunc(forms, leads)
	}
	if i < 0 {
		return nil, false
	}
	fields = url.Values{}
	for n := range elements(forms[i].Descendants()) {
		name, kind := Attribute(n, "name"), Attribute(n, "type")
		switch n.Data {
		case "textarea":
			fields.Add(name, Text(n))
		case "select":
			fields.Add(name, chosen(n))
		case "input":
			if _, checked := attribute(n, "checked"); checked || kind != "radio" && kind != "checkbox" {
				fields.Add(name, Attribute(n, "value"))
			}
		}
	}
	return fields, true
}

// chosen returns the value of the selected option, or else of the first one.
func chosen(selection *html.Node) (value string) {
	for i, option := range Elements(selection, "option") {
		_, selected := attribute(option, "selected")
		if i > 0 && !selected {
			continue
		}
		var ok bool
		if value, ok = attribute(option, "value"); !ok {
			value = Text(option)
		}
	}
	return value
}
