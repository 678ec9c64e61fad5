package main

import (
	"cmp"
	"fmt"
	"slices"
)

// Verdict is the result of one field of one page.
type Verdict struct {
	Group string `json:"group"`
	ID    string `json:"id"`
	Field string `json:"field"`
	Kind  Kind   `json:"kind"`
	Ours  string `json:"ours,omitempty"`
	Truth string `json:"truth,omitempty"`
}

// Kind is right, wrong, missing, or none: correctly empty.
type Kind string

// Kinds.
const (
	Right   Kind = "right"
	Wrong   Kind = "wrong"
	Missing Kind = "missing"
	None    Kind = "none"
)

// Tally counts the verdicts of one field of one group.
type Tally struct {
	Group, Field                string
	Right, Wrong, Missing, None int
}

func (t *Tally) add(k Kind) {
	*map[Kind]*int{Right: &t.Right, Wrong: &t.Wrong, Missing: &t.Missing, None: &t.None}[k]++
}

// Total returns the number of verdicts.
func (t Tally) Total() int { return t.Right + t.Wrong + t.Missing + t.None }

// Precision returns the share of the results that is right.
func (t Tally) Precision() float64 { return share(t.Right, t.Right+t.Wrong) }

// Recall returns the share of the expected values that was found.
func (t Tally) Recall() float64 { return share(t.Right, t.Right+t.Wrong+t.Missing) }

// Share returns the share of all verdicts that is right, including correctly empty ones.
func (t Tally) Share() float64 { return share(t.Right+t.None, t.Total()) }

func share(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

// fieldOrder is the order of fields in tables.
var fieldOrder = []string{
	"outcome", "name", "description", "share image", "logo", "icon", "foreign logo", "logo type", "logo theme", "links",
	"accent", "accent top 5", "title font", "body font", "nsfw", "founded", "employees", "country", "city", "state",
	"kind", "ticker", "industry", "shape", "theme",
}

// allPages is the sum of the groups of real home pages.
const allPages = "all pages"

// tally counts verdicts by group and field, in the order of groups and
// fieldOrder. The groups of whole pages are also added up.
func tally(verdicts []Verdict, groups []string) []Tally {
	type key struct{ group, field string }
	at := map[key]*Tally{}
	count := func(group string, v Verdict) {
		k := key{group, v.Field}
		if at[k] == nil {
			at[k] = &Tally{Group: group, Field: v.Field}
		}
		at[k].add(v.Kind)
	}
	for _, v := range verdicts {
		count(v.Group, v)
		if v.Group == saved || v.Group == recorded || v.Group == built || v.Group == fresh {
			count(allPages, v)
		}
	}
	var out []Tally
	for _, t := range at {
		out = append(out, *t)
	}
	order := append(slices.Clone(groups), allPages)
	slices.SortFunc(out, func(a, b Tally) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Group), slices.Index(order, b.Group)),
			cmp.Compare(slices.Index(fieldOrder, a.Field), slices.Index(fieldOrder, b.Field)),
			cmp.Compare(a.Field, b.Field))
	})
	return out
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
