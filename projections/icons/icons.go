// Package icons is the read model of icons that were found by convention, and of the brands on whose sites each was
// seen. A crawl asks it whether an icon is the stock icon of a template.
package icons

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "icons"
	// format is the data format with which events begin to say which icons were found by convention.
	format = 4
	// keptRows limits the rows that the fold keeps between batches. It never reads one again.
	keptRows = 1
	// maxSightings limits the brands that are read for one icon.
	maxSightings = 64
)

type key struct{ icon, domain string }

// A row stays when the brand loses the icon: it was seen there.
type row struct{ name, at, linked string }

var table = projections.Keyed[key, row]{
	Name: "icons",
	Key: []projections.Column[key]{
		projections.Text("icon", func(k *key) *string { return &k.icon }),
		projections.Text("domain", func(k *key) *string { return &k.domain }),
	},
	Columns: []projections.Column[row]{
		projections.Text("name", func(r *row) *string { return &r.name }),
		projections.Text("at", func(r *row) *string { return &r.at }),
		projections.Text("linked", func(r *row) *string { return &r.linked }),
	},
	Compare: func(a, b key) int { return cmp.Or(cmp.Compare(a.icon, b.icon), cmp.Compare(a.domain, b.domain)) },
}

// Model is the read model.
type Model struct{ projections.Model }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{projections.NewModel(Name, store, projections.Version{
		Number:  1,
		Format:  format,
		Streams: []string{brand.StreamPrefix},
		Tables:  []projections.Table{table.Table()},
		NewFold: table.Fold(keptRows, nil, fold),
	})}
}

// IsStock reports whether an icon that was just seen at a brand is the stock icon of a template; see brand.IsStock.
// Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) IsStock(ctx context.Context, icon string, now brand.Sighting) (bool, error) {
	seen := []brand.Sighting{now}
	err := m.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		seen = seen[:1] // drops rows of an earlier attempt
		return table.Each(ctx, q, t, func(k key, r row) {
			if k.domain != now.Domain {
				seen = append(seen, brand.Sighting{Domain: k.domain, Name: r.name, At: r.at,
					Linked: strings.Fields(r.linked)})
			}
		}, fmt.Sprintf("WHERE icon = $1 ORDER BY domain LIMIT %d", maxSightings), icon)
	})
	if err != nil {
		return false, fmt.Errorf("read where icon %s was seen: %w", icon, err)
	}
	return brand.IsStock(seen), nil
}

func fold(rows *projections.Rows[key, row], e *projections.Event) error {
	ev, ok := e.Body.(eventschemas.CrawlSucceeded)
	if !ok || ev.ByConvention == nil {
		return nil
	}
	r := row{at: e.Subject, linked: strings.Join(ev.ByConvention.Linked, " ")}
	if ev.Record.Name != nil {
		r.name = *ev.Record.Name
	}
	if u, err := url.Parse(ev.FinalURL); err == nil {
		if domain, err := brand.RegistrableDomain(u.Hostname()); err == nil {
			r.at = domain
		}
	}
	for _, icon := range ev.ByConvention.Assets {
		*rows.Change(key{icon, e.Subject}) = r
	}
	return nil
}
