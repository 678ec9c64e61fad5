package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"go.yaml.in/yaml/v3"
)

// member returns an unresolved member of a mapping, nil if there is none.
func member(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

func sequence(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// followed resolves aliases and references.
func (r *reader) followed(n *yaml.Node) *yaml.Node {
	for range maxDepth {
		if n == nil {
			return nil
		}
		if n.Kind == yaml.AliasNode {
			n = n.Alias
			continue
		}
		to := member(n, "$ref")
		if to == nil {
			return n
		}
		path, ok := strings.CutPrefix(to.Value, "#/")
		target := r.root
		for name := range strings.SplitSeq(path, "/") {
			target = member(target, name)
		}
		if !ok || target == nil {
			r.fault(to, "%s has no target", to.Value)
			return nil
		}
		n = target
	}
	r.fault(n, "references lead around in a circle")
	return nil
}

// at returns a member of a mapping, resolved.
func (r *reader) at(n *yaml.Node, name string) *yaml.Node { return r.followed(member(n, name)) }

// members iterates over the resolved members of a mapping, in their order.
func (r *reader) members(n *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, r.followed(n.Content[i+1])) {
				return
			}
		}
	}
}

// items returns the resolved items of a sequence.
func (r *reader) items(n *yaml.Node) []*yaml.Node {
	var all []*yaml.Node
	for _, item := range sequence(n) {
		all = append(all, r.followed(item))
	}
	return all
}

func (r *reader) text(n *yaml.Node, name string) string {
	if v := r.at(n, name); v != nil {
		return strings.TrimSpace(strings.ReplaceAll(v.Value, writtenBaseURL, r.baseURL))
	}
	return ""
}

func (r *reader) texts(n *yaml.Node, name string) []string {
	var all []string
	for _, v := range r.items(r.at(n, name)) {
		all = append(all, v.Value)
	}
	return all
}

func (r *reader) yes(n *yaml.Node, name string) bool {
	v := r.at(n, name)
	return v != nil && v.Value == "true"
}

// value returns a node as encoding/json would decode it.
func (r *reader) value(n *yaml.Node) any {
	if n == nil {
		return nil
	}
	var buffer bytes.Buffer
	if err := writeJSON(&buffer, n, r.baseURL, 0); err != nil {
		r.errs = append(r.errs, err)
		return nil
	}
	decoder := json.NewDecoder(&buffer)
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		r.fault(n, "%w", err)
	}
	return v
}

func (r *reader) fault(n *yaml.Node, format string, args ...any) {
	line := 0
	if n != nil {
		line = n.Line
	}
	r.errs = append(r.errs, fmt.Errorf("line %d: "+format, append([]any{line}, args...)...))
}
