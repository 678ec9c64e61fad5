package readapi

import (
	"letterhead/domain/plan"
)

// accountBody is the Account of the OpenAPI description.
type accountBody struct {
	Plan    string `json:"plan"`
	Credits struct {
		Balance   int64 `json:"balance"`   // may be below zero after a refund of spent credits
		Remaining int64 `json:"remaining"` // the balance, never below zero
	} `json:"credits"`
	Period string `json:"period"` // YYYY-MM, UTC
	Usage  struct {
		Lookups  int64 `json:"lookups"`
		Logos    int64 `json:"logos"`
		Searches int64 `json:"searches"`
	} `json:"usage"`
	Limits struct {
		PerMinute        int    `json:"perMinute"`
		BatchSize        int    `json:"batchSize"`
		CrawlsPerMinute  int    `json:"crawlsPerMinute"`
		LogosPerMonth    *int64 `json:"logosPerMonth"` // null = unlimited
		SearchesPerMonth *int64 `json:"searchesPerMonth"`
	} `json:"limits"`
	Key struct {
		ID   string `json:"id"`
		Kind string `json:"kind"`
	} `json:"key"`
}

// serveMe answers GET and HEAD /v1/me. Everything in it except the logos comes from the commands, not from a
// read model, so that it reflects every answer sent before it.
func (x *exchange) serveMe() error {
	ctx, caller := x.ctx, x.caller
	standing, err := x.api.Credits.Standing(ctx, caller.AccountID)
	if err != nil {
		return err
	}
	row, err := x.api.Plans.Get(standing.Plan)
	if err != nil {
		return err
	}
	searches, err := x.api.Quotas.Searches(ctx, caller.AccountID, standing.Month)
	if err != nil {
		return err
	}
	counted, err := x.api.Usage.Get(ctx, caller.AccountID, standing.Month)
	if err != nil {
		return err
	}
	x.setCredits(standing.Remaining)
	body := accountBody{Plan: string(standing.Plan), Period: standing.Month}
	body.Credits.Balance, body.Credits.Remaining = standing.Balance, max(0, standing.Balance)
	body.Usage.Lookups, body.Usage.Logos, body.Usage.Searches = standing.Lookups, counted.Logos, searches
	body.Limits.PerMinute, body.Limits.BatchSize = row.PerMinute, row.BatchSize
	body.Limits.CrawlsPerMinute = row.CrawlsPerMinute
	body.Limits.LogosPerMonth = allowance(row.LogosPerMonth)
	body.Limits.SearchesPerMonth = allowance(row.SearchesPerMonth)
	body.Key.ID, body.Key.Kind = caller.KeyID, string(caller.Kind)
	return x.sendJSON(cacheNever, body)
}

// allowance converts a plan's limit to its API form: null if unlimited.
func allowance(perMonth int64) *int64 {
	if perMonth == plan.Unlimited {
		return nil
	}
	return &perMonth
}
