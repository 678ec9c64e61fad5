package readapi

import (
	"letterhead/domain/plan"
)

// accountBody is the Account of the OpenAPI description.
type accountBody struct {
	Plan    string         `json:"plan"`
	Credits accountCredits `json:"credits"`
	Period  string         `json:"period"` // YYYY-MM, UTC
	Usage   accountUsage   `json:"usage"`
	Limits  accountLimits  `json:"limits"`
	Key     accountKey     `json:"key"`
}

type accountCredits struct {
	Balance   int64 `json:"balance"`   // may be below zero after a refund of spent credits
	Remaining int64 `json:"remaining"` // the balance, never below zero
}

type accountUsage struct {
	Lookups  int64 `json:"lookups"`
	Logos    int64 `json:"logos"`
	Searches int64 `json:"searches"`
}

type accountLimits struct {
	PerMinute        int    `json:"perMinute"`
	BatchSize        int    `json:"batchSize"`
	CrawlsPerMinute  int    `json:"crawlsPerMinute"`
	LogosPerMonth    *int64 `json:"logosPerMonth"` // null = unlimited
	SearchesPerMonth *int64 `json:"searchesPerMonth"`
}

type accountKey struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
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
	x.Header()["Cache-Control"] = cacheNever
	x.setCredits(standing.Remaining)
	return x.sendJSON(accountBody{
		Plan:    string(standing.Plan),
		Credits: accountCredits{Balance: standing.Balance, Remaining: max(0, standing.Balance)},
		Period:  standing.Month,
		Usage:   accountUsage{Lookups: standing.Lookups, Logos: counted.Logos, Searches: searches},
		Limits: accountLimits{
			PerMinute: row.PerMinute, BatchSize: row.BatchSize, CrawlsPerMinute: row.CrawlsPerMinute,
			LogosPerMonth: allowance(row.LogosPerMonth), SearchesPerMonth: allowance(row.SearchesPerMonth),
		},
		Key: accountKey{ID: caller.KeyID, Kind: string(caller.Kind)},
	})
}

// allowance converts a plan's limit to its API form: null if unlimited.
func allowance(perMonth int64) *int64 {
	if perMonth == plan.Unlimited {
		return nil
	}
	return &perMonth
}
