package brands

import (
	"context"
	"fmt"
	"strings"

	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// Listed is a brand in a listing.
type Listed struct {
	Domain   string  `json:"domain"`
	ID       string  `json:"id"`
	Status   string  `json:"status"` // ready, partial or failed
	Claimed  bool    `json:"claimed"`
	Quality  float64 `json:"quality_score"`
	HasLogo  bool    `json:"has_logo"`
	Revision uint64  `json:"revision"`
}

// listing reads the columns of a listing; nothing is written through it.
var listing = projections.Keyed[string, Listed]{
	Name: "brands",
	Key:  projections.TextKey("domain"),
	Columns: []projections.Column[Listed]{
		projections.Text("id", func(l *Listed) *string { return &l.ID }),
		projections.Text("status", func(l *Listed) *string { return &l.Status }),
		projections.Flag("claimed", func(l *Listed) *bool { return &l.Claimed }),
		projections.Real("quality", func(l *Listed) *float64 { return &l.Quality }),
		projections.Flag("has_logo", func(l *Listed) *bool { return &l.HasLogo }),
		projections.Number("revision", func(l *Listed) *uint64 { return &l.Revision }),
	},
	Compare: strings.Compare,
	Found:   func(domain string, l *Listed) { l.Domain = domain },
}

// sorts are the columns by which List sorts, by the name that a Selection uses.
var sorts = map[string][]string{"": nil, "domain": nil, "status": {"status"}, "quality": {"quality"},
	"logo": {"has_logo"}, "revision": {"revision"}}

// Sorts are the values of Selection.Sort.
var Sorts = []string{"domain", "status", "quality", "logo", "revision"}

// Selection selects and sorts brands.
type Selection struct {
	Domain      string // empty for all
	DomainPart  string // that domains have in them; empty for all
	Status      string // empty for all
	Claimed     bool   // only claimed ones
	WithoutLogo bool   // only those without a logo
	Sort        string // one of Sorts; by domain if empty
	Descending  bool
}

// List returns at most limit readable brands after the given one, which is nil for the first page. Sorted by domain,
// they are no more than MaxPage; any other order sorts all brands for each page, so it has no such maximum. If a brand
// changes its place in the order between two pages, it is returned twice or not at all. Errors:
// projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err(), or an error that names an unknown Sort.
func (m *Model) List(ctx context.Context, s Selection, after *Listed, limit int) ([]Listed, error) {
	by, ok := sorts[s.Sort]
	if !ok {
		return nil, fmt.Errorf("brands cannot be sorted by %q", s.Sort)
	}
	if by == nil {
		limit = min(limit, MaxPage)
	}
	page := projections.Page[string, Listed]{By: by, Descending: s.Descending, Limit: max(limit, 0), After: after}
	page.Where("readable", number(true))
	page.Equal("status", s.Status)
	page.Equal("domain", s.Domain)
	page.Contains("domain", s.DomainPart)
	if s.Claimed {
		page.Where("claimed", number(true))
	}
	if s.WithoutLogo {
		page.Where("has_logo", number(false))
	}
	if after != nil {
		page.AfterKey = after.Domain
	}
	all, err := listing.Page(ctx, m.Handle(), page)
	return all, sqlstore.Wrap(err, "list brands")
}
