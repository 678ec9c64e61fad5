package search

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"letterhead/domain/brand"
	"letterhead/internal/searchindex"
)

// Hit is a brand that was found, or a domain that is not indexed, in the form of the API.
type Hit struct {
	BrandID      *string // nil until the brand has been indexed
	Name         string
	Domain       string
	Claimed      bool
	QualityScore *float64 // nil until the brand has been indexed
}

// Search returns at most limit hits, best first. If q is a domain that is not in the index, there is one hit for that
// domain, after exact matches and before all others. Errors: as searchindex.Index.Search.
func (p *Projection) Search(ctx context.Context, q string, limit int) ([]Hit, error) {
	began := time.Now()
	domain, named := namedDomain(q)
	if _, err := brand.ParseDomain(q); named && err != nil {
		q = domain // a URL or an e-mail address, in any form that a look-up takes
	}
	_, _, err := p.own(ctx) // which the index compares
	var found []searchindex.Hit
	if err == nil {
		found, err = p.index.Search(ctx, q, limit)
	}
	if err != nil {
		p.metrics.searchFailures.Inc()
		return nil, err
	}
	p.metrics.seconds.Observe(time.Since(began).Seconds())
	hits := make([]Hit, 0, len(found)+1)
	for _, f := range found {
		hits = append(hits, indexed(f.Document))
	}
	if named && !slices.ContainsFunc(found, func(f searchindex.Hit) bool { return f.Domain == domain }) {
		exact := 0
		for exact < len(found) && found[exact].Match == searchindex.Exact {
			exact++
		}
		hits = slices.Insert(hits, exact, Hit{Name: label(domain), Domain: domain})
	}
	return hits[:min(limit, len(hits))], nil
}

func indexed(d searchindex.Document) Hit {
	return Hit{BrandID: &d.BrandID, Name: cmp.Or(d.Name, label(d.Domain)), Domain: d.Domain, Claimed: d.Claimed,
		QualityScore: &d.Quality}
}

// namedDomain returns the domain that a query names as the identifier of a look-up, if its suffix exists: "next.js" is
// a name. No identifier has spaces, but "Acme.com, Inc." names a domain, too.
func namedDomain(q string) (string, bool) {
	id, err := brand.ParseIdentifier(q)
	if err != nil && strings.Contains(strings.Trim(q, " "), " ") {
		id, err = brand.ParseIdentifier(searchindex.ReadQuery(q).Domain)
	}
	suffix, icann := publicsuffix.PublicSuffix(id.Domain)
	return id.Domain, err == nil && id.Kind == brand.Domain && (icann || strings.Contains(suffix, "."))
}

// label returns the first label of a registrable domain, in its own script.
func label(domain string) string {
	own, _, _ := strings.Cut(domain, ".")
	return searchindex.OwnScript(own)
}
