package svg

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"letterhead/internal/imaging"
)

// Browsers support variables and color spaces that other renderers, including ours, do not, and a variable defined by a
// page is missing if the file is used alone. Therefore the values are computed here, once.

const (
	// maxVariables limits the custom properties that apply to one element.
	maxVariables = 256
	// maxVarDepth and maxVarSteps limit the depth of references between variables, and the number of references that
	// are followed for one document.
	maxVarDepth = 8
	maxVarSteps = 100_000
	// maxVarBytes limits a value after substitution.
	maxVarBytes = 4 << 10
)

// hasVariables reports whether any value is, or refers to, a variable.
func (d *document) hasVariables() bool {
	return slices.ContainsFunc(d.order, func(n *node) bool {
		return slices.ContainsFunc(n.attrs, func(a attribute) bool { return isVariable(a.name, a.value) }) ||
			slices.ContainsFunc(n.inline, declaration.isVariable) ||
			slices.ContainsFunc(n.rules,
				func(r rule) bool { return slices.ContainsFunc(r.declarations, declaration.isVariable) })
	})
}

func isVariable(name, value string) bool {
	return strings.HasPrefix(name, "--") || strings.Contains(value, "var(")
}

func (d declaration) isVariable() bool { return isVariable(d.name, d.value) }

// resolveVariables writes the values of each element's variables to its own style, and removes the variables. It
// follows the cascade, which must be computed again afterwards. An undefined variable has the value of its fallback. A
// declaration with an invalid result still wins: the property is unset then (CSS Custom Properties 1, section 3.1).
func (d *document) resolveVariables() error {
	r := resolver{scopes: map[*node]map[string]string{}}
	inRules := d.setByRules()
	for _, n := range d.order {
		if err := r.enter(n); err != nil {
			return err
		}
		var resolved []declaration
		for name, value := range n.style {
			if strings.HasPrefix(name, "--") || !strings.Contains(value, "var(") {
				continue
			}
			text, ok := r.fill(value, r.scopes[n], 0)
			if r.steps > maxVarSteps {
				return fmt.Errorf("%w: variables refer to each other too often", imaging.ErrTooLarge)
			}
			clean := ""
			if ok {
				clean, ok = cleanValue(name, lexCSS(text))
			}
			switch {
			case ok && !strings.Contains(clean, "var(") && fits(name, clean):
			case !inRules[name] && !n.setsItself(name): // no weaker declaration would apply instead
				continue
			default:
				clean = unset(name)
			}
			resolved = append(resolved, declaration{name, clean, n.strong[name]})
		}
		slices.SortFunc(resolved, func(a, b declaration) int { return strings.Compare(a.name, b.name) })
		n.attrs = slices.DeleteFunc(n.attrs, func(a attribute) bool { return isVariable(a.name, a.value) })
		n.inline = append(slices.DeleteFunc(slices.Clone(n.inline), declaration.isVariable), resolved...)
	}
	for _, n := range d.order {
		for i := range n.rules {
			n.rules[i].declarations = slices.DeleteFunc(n.rules[i].declarations, declaration.isVariable)
		}
		n.rules = slices.DeleteFunc(n.rules, func(r rule) bool { return len(r.declarations) == 0 })
	}
	return nil
}

// setByRules returns the properties that any rule sets without a variable.
func (d *document) setByRules() map[string]bool {
	set := map[string]bool{}
	for _, r := range d.rules {
		for _, x := range r.declarations {
			if !x.isVariable() {
				set[x.name] = true
			}
		}
	}
	return set
}

// setsItself reports whether an element's own attributes or style set a property without a variable.
func (n *node) setsItself(name string) bool {
	return slices.ContainsFunc(n.attrs,
		func(a attribute) bool { return a.name == name && !isVariable(a.name, a.value) }) ||
		slices.ContainsFunc(n.inline, func(x declaration) bool { return x.name == name && !x.isVariable() })
}

// initials are the initial values of properties that are not inherited (SVG 2,
// property index, and the modules of CSS to which it refers).
var initials = map[string]string{
	"opacity": "1", "stop-color": "black", "stop-opacity": "1", "flood-color": "black", "flood-opacity": "1",
	"clip-path": "none", "mask": "none", "mask-type": "luminance", "filter": "none", "display": "inline",
	"overflow": "visible", "transform": "none", "transform-origin": "0 0", "transform-box": "view-box",
	"mix-blend-mode": "normal", "isolation": "auto", "vector-effect": "none", "text-decoration": "none",
	"alignment-baseline": "baseline", "baseline-shift": "0", "unicode-bidi": "normal",
}

// unset returns the value of a property that is not set.
func unset(name string) string {
	if value, ok := initials[name]; ok {
		return value
	}
	return "inherit"
}

// paintWords are the keywords of a paint.
var paintWords = setOf("none", "inherit", "initial", "currentcolor", "context-fill", "context-stroke")

// fits reports whether a value is valid for a property, checking only colors and paints.
func fits(name, value string) bool {
	if !colorProperties[name] || strings.Contains(value, "(") || paintWords[strings.ToLower(value)] {
		return true
	}
	_, _, ok := imaging.ParseColor(value)
	return ok
}

// resolver computes the variables of elements.
type resolver struct {
	scopes map[*node]map[string]string
	steps  int
}

// enter computes the variables of an element. Its parent must have been entered before.
func (r *resolver) enter(n *node) error {
	scope := r.scopes[n.parent]
	copied := false
	for name, value := range n.style {
		if !strings.HasPrefix(name, "--") {
			continue
		}
		if !copied {
			own := make(map[string]string, len(scope)+1)
			maps.Copy(own, scope)
			r.steps += len(scope)
			scope, copied = own, true
		}
		scope[name] = value
	}
	if len(scope) > maxVariables || r.steps > maxVarSteps {
		return fmt.Errorf("%w: more than %d variables", imaging.ErrTooLarge, maxVariables)
	}
	r.scopes[n] = scope
	return nil
}

// fill replaces each var() by its value, or its fallback. It returns false if one has neither.
func (r *resolver) fill(value string, scope map[string]string, depth int) (string, bool) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(value, "var(")
		b.WriteString(before)
		if b.Len() > maxVarBytes {
			return "", false
		}
		if !found {
			return b.String(), true
		}
		end := closingParenthesis(after)
		if r.steps++; end < 0 || depth >= maxVarDepth || r.steps > maxVarSteps {
			return "", false
		}
		name, fallback, hasFallback := strings.Cut(after[:end], ",")
		text, ok := scope[strings.TrimSpace(name)]
		if ok {
			text, ok = r.fill(text, scope, depth+1)
		}
		if !ok && hasFallback {
			text, ok = r.fill(strings.TrimSpace(fallback), scope, depth+1)
		}
		if !ok {
			return "", false
		}
		b.WriteString(text)
		value = after[end+1:]
	}
}

// closingParenthesis returns the index of the parenthesis that closes the one before s, or -1.
func closingParenthesis(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return i
			}
		}
	}
	return -1
}

// colorProperties are the properties with a color, or a paint.
var colorProperties = setOf("fill", "stroke", "color", "stop-color", "flood-color")

// plainColor rewrites a color of a newer form (oklch(), rgb() with spaces, …) in a form that every renderer supports.
// Other values, and colors of the old form with commas, are unchanged.
func plainColor(value string) string {
	switch strings.ToLower(value) { // names that not every renderer supports, or not in this form
	case "currentcolor":
		return "currentColor"
	case "rebeccapurple":
		return "#663399"
	}
	name, _, isFunction := strings.Cut(value, "(")
	if !isFunction || strings.Contains(value, ",") || name == "url" {
		return value
	}
	c, alpha, ok := imaging.ParseColor(value)
	switch {
	case !ok:
		return value
	case alpha >= 1:
		return c.Hex()
	}
	return fmt.Sprintf("rgba(%d,%d,%d,%s)", c.R, c.G, c.B, strconv.FormatFloat(alpha, 'f', -1, 32))
}
