package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Limits of a drawing for analysis.
const (
	maxNodes = 20_000
	maxDepth = 64
)

// node is one element of a drawing.
type node struct {
	name  string
	attrs map[string]string
	kids  []*node
}

// parseTree parses a drawing to nodes and its ids.
func parseTree(svg string) (*node, map[string]*node, error) {
	dec := xml.NewDecoder(strings.NewReader(svg))
	root := &node{}
	open := []*node{root}
	ids := map[string]*node{}
	for count := 0; ; {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return root, ids, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read drawing: %w", err)
		}
		switch t := tok.(type) {
		case xml.StartElement:
			n := &node{name: t.Name.Local, attrs: map[string]string{}}
			for _, a := range t.Attr {
				n.attrs[a.Name.Local] = a.Value
			}
			for _, decl := range strings.Split(n.attrs["style"], ";") {
				if k, v, ok := strings.Cut(decl, ":"); ok {
					n.attrs[strings.TrimSpace(k)] = strings.TrimSpace(v)
				}
			}
			if id := n.attrs["id"]; id != "" {
				ids[id] = n
			}
			parent := open[len(open)-1]
			parent.kids = append(parent.kids, n)
			open = append(open, n)
			if count++; count > maxNodes || len(open) > maxDepth {
				return nil, nil, errors.New("drawing has too many elements")
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		}
	}
}

// number returns an attribute in user units, or a default.
func (n *node) number(name string, otherwise float64) float64 {
	s := strings.TrimSuffix(strings.TrimSpace(n.attrs[name]), "px")
	if rest, ok := strings.CutSuffix(s, "%"); ok {
		if v, err := strconv.ParseFloat(rest, 64); err == nil {
			return v / 100
		}
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return v
	}
	return otherwise
}

// target returns the id inside url(#id) or #id.
func target(ref string) string {
	ref = strings.TrimSpace(ref)
	if rest, ok := strings.CutPrefix(ref, "url("); ok {
		ref = strings.Trim(strings.TrimSuffix(rest, ")"), `'"`)
	}
	return strings.TrimPrefix(ref, "#")
}

// parseTransform parses a transform attribute. Unknown parts are omitted.
func parseTransform(s string) matrix {
	m := identity
	for {
		name, rest, ok := strings.Cut(s, "(")
		if !ok {
			return m
		}
		args, after, ok := strings.Cut(rest, ")")
		if !ok {
			return m
		}
		s = after
		var v []float64
		for _, f := range strings.FieldsFunc(args, func(r rune) bool { return r == ',' || r == ' ' }) {
			x, err := strconv.ParseFloat(f, 64)
			if err != nil {
				return m
			}
			v = append(v, x)
		}
		m = m.then(oneTransform(strings.Trim(name, " ,"), v))
	}
}

// oneTransform returns the matrix of one transform function, or the identity for other values.
func oneTransform(name string, v []float64) matrix {
	arg := func(i int, otherwise float64) float64 {
		if i < len(v) {
			return v[i]
		}
		return otherwise
	}
	switch name {
	case "translate":
		return matrix{a: 1, d: 1, e: arg(0, 0), f: arg(1, 0)}
	case "scale":
		return matrix{a: arg(0, 1), d: arg(1, arg(0, 1))}
	case "rotate":
		sin, cos := math.Sincos(arg(0, 0) * math.Pi / 180)
		x, y := arg(1, 0), arg(2, 0)
		turn := matrix{cos, sin, -sin, cos, 0, 0}
		return matrix{a: 1, d: 1, e: x, f: y}.then(turn).then(matrix{a: 1, d: 1, e: -x, f: -y})
	case "skewX":
		return matrix{a: 1, c: math.Tan(arg(0, 0) * math.Pi / 180), d: 1}
	case "skewY":
		return matrix{a: 1, b: math.Tan(arg(0, 0) * math.Pi / 180), d: 1}
	case "matrix":
		if len(v) == 6 {
			return matrix{v[0], v[1], v[2], v[3], v[4], v[5]}
		}
	}
	return identity
}
