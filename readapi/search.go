package readapi

import (
	"context"
	"errors"
	"net/http"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/domain/usage"
	"letterhead/internal/web"
	"letterhead/readapi/lookup"
)

// searchBody is the SearchResponse of the OpenAPI description.
type searchBody struct {
	Query   string         `json:"query"`
	Results []searchResult `json:"results"`
}

// searchResult is the BrandSearchResult of the OpenAPI description.
type searchResult struct {
	BrandID      *string  `json:"brandId"` // null until the brand has been indexed
	Name         string   `json:"name"`
	Domain       string   `json:"domain"`
	Icon         string   `json:"icon"`
	Claimed      bool     `json:"claimed"`
	QualityScore *float64 `json:"qualityScore"`
}

func (x *exchange) serveSearch() error {
	q, limit, problem := parseSearch(x.request.URL.RawQuery)
	if problem != nil {
		return problem
	}
	results, err := x.searchBrands(q, limit)
	if err != nil {
		return err
	}
	return x.sendResults(searchBody{Query: q, Results: results})
}

// sendResults answers with the results of a search. HEAD, which searches nothing, gets only the headers.
func (x *exchange) sendResults(value any) error {
	if x.request.Method != http.MethodHead {
		return x.sendJSON(cachePrivate, value)
	}
	h := x.Header()
	h["Cache-Control"], h["Content-Type"] = cachePrivate, web.JSON
	x.WriteHeader(http.StatusOK)
	return nil
}

// searchBrands searches and counts: a search counts once there is an answer, and the count is
// durable before the answer is sent. The quota is checked first, because an exceeded quota is reported
// before the index is used; the count itself decides between concurrent searches.
//
// Only 200 answers should count, so once counting has begun neither a caller who leaves nor the
// request's deadline ends it, and a counted search is answered. A count cannot be reverted, which
// leaves these cases: a search stays counted if its caller left while it was being counted, or before
// the whole answer was read; if the quota writer did not report in time whether the count was appended (then
// the answer is 503, and counts if it was); and if the process died between the count and the answer.
func (x *exchange) searchBrands(q string, limit int) ([]searchResult, error) {
	ctx, now := x.ctx, x.api.Now()
	allowed := x.caller.Plan.SearchesPerMonth
	if allowed != plan.Unlimited {
		// The count that this node has seen is enough: counts only grow, and CountSearch decides.
		used, err := x.api.Quotas.SearchesSeen(ctx, x.caller.AccountID, usage.MonthOf(now).String())
		if err != nil {
			return nil, err
		}
		if usage.Exhausted(used, allowed) {
			return nil, quotaExceeded(allowed, now, x.api.BillingURL)
		}
	}
	if x.request.Method == http.MethodHead { // without results, the search costs nothing
		return nil, nil
	}
	if id, err := brand.ParseIdentifier(q); err == nil && id.Kind == brand.BrandID {
		if domain, err := x.api.lookup.DomainOf(ctx, id); err == nil {
			q = domain
		} else if !errors.Is(err, lookup.ErrNoSuchBrand) {
			return nil, err
		}
	}
	hits, err := x.api.Search.Search(ctx, q, limit)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err // the caller has left, so nothing counts
	}
	counting, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwardsWithin)
	defer cancel()
	if _, err := x.api.Quotas.CountSearch(counting, x.caller.AccountID, now,
		allowed); errors.Is(err, commands.ErrQuotaExceeded) {
		return nil, quotaExceeded(allowed, now, x.api.BillingURL)
	} else if err != nil {
		return nil, err
	}
	results := make([]searchResult, 0, len(hits))
	for _, hit := range hits {
		results = append(results, searchResult{
			BrandID: hit.BrandID, Name: hit.Name, Domain: hit.Domain, Icon: x.api.iconURL(hit.Domain),
			Claimed: hit.Claimed, QualityScore: hit.QualityScore,
		})
	}
	return results, nil
}
