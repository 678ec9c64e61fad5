package adminapi

import (
	_ "embed"
	"net/http"

	"letterhead/internal/web"
)

//go:embed openapi.yaml
var description []byte

type operation struct {
	method, path string
	name         string // operationId of the description; for logs and metrics
	requires     permission
	serve        func(*exchange) error
}

// table returns the table of the API. Each operation is described in openapi.yaml.
func table() []operation {
	return []operation{
		{"GET", "/admin/accounts", "listAccounts", reading, listed("accounts", []string{"account.id", "account.name",
			"account.plan", "account.status", "opened_at", "last_used_at", "credits.balance", "spent.month", "spent.credits"},
			(*exchange).listAccounts)},
		{"POST", "/admin/accounts", "openAccount", everything, (*exchange).openAccount},
		{"GET", "/admin/accounts/{id}", "getAccount", reading, about((*exchange).getAccount)},
		{"PUT", "/admin/accounts/{id}/plan", "changePlan", finances, aboutTaking((*exchange).changePlan)},
		{"POST", "/admin/accounts/{id}/notes", "noteAccount", supporting, aboutTaking((*exchange).noteAccount)},
		{"POST", "/admin/accounts/{id}/suspend", "suspendAccount", supporting, about((*exchange).suspendAccount)},
		{"POST", "/admin/accounts/{id}/reinstate", "reinstateAccount", supporting,
			plain(about((*exchange).reinstateAccount))},
		{"POST", "/admin/accounts/{id}/close", "closeAccount", everything, plain(about((*exchange).closeAccount))},
		{"POST", "/admin/accounts/{id}/grants", "grantCredits", finances, about((*exchange).grantCredits)},
		{"POST", "/admin/accounts/{id}/refunds", "refundPayment", finances, aboutTaking((*exchange).refundPayment)},
		{"POST", "/admin/accounts/{id}/reversals", "reverseRequest", finances,
			aboutTaking((*exchange).reverseRequest)},
		{"POST", "/admin/accounts/{id}/breakage", "recognizeBreakage", finances,
			aboutTaking((*exchange).recognizeBreakage)},
		{"GET", "/admin/accounts/{id}/keys", "listKeys", reading, about((*exchange).listKeys)},
		{"POST", "/admin/accounts/{id}/keys", "issueKey", supporting, about((*exchange).issueKey)},
		{"POST", "/admin/accounts/{id}/login-link", "issueLoginLink", supporting, about((*exchange).issueLoginLink)},
		{"POST", "/admin/accounts/{id}/sign-out", "signOut", supporting, about((*exchange).signOut)},
		{"GET", "/admin/accounts/{id}/sign-in-emails", "listSignInEmails", supporting,
			plain(about((*exchange).listSignInEmails))},
		{"PUT", "/admin/accounts/{id}/sign-in-emails/{person}", "setSignInEmail", supporting,
			aboutTaking((*exchange).setSignInEmail)},
		{"GET", "/admin/accounts/{id}/notices", "getNotices", supporting, plain(about((*exchange).getNotices))},
		{"PUT", "/admin/accounts/{id}/notices", "setNotices", supporting, about((*exchange).setNotices)},
		{"PATCH", "/admin/accounts/{id}/notices", "changeNotices", supporting, about((*exchange).changeNotices)},
		{"POST", "/admin/accounts/{id}/notices/{notice}/retry", "retryNotice", supporting,
			plain(about((*exchange).retryNotice))},
		{"DELETE", "/admin/keys/{id}", "revokeKey", supporting, (*exchange).revokeKey},
		{"PUT", "/admin/keys/{id}/limit", "limitKey", supporting, taking((*exchange).limitKey)},
		{"GET", "/admin/accounts/{id}/ledger", "getLedger", reading, listed("entries", []string{"at", "revision", "type",
			"what", "detail", "domain", "request_id", "payment_id", "actor", "actor_name", "amount", "balance"},
			about((*exchange).getLedger))},
		{"GET", "/admin/accounts/{id}/statements/{month}", "getStatement", reading, about((*exchange).getStatement)},
		{"GET", "/admin/accounts/{id}/proofs/{month}", "getProof", reading, plain(about((*exchange).getProof))},
		{"GET", "/admin/payments", "listPayments", reading, listed("payments", []string{"payment_id", "account_id",
			"account_name", "paid_at", "kind", "state", "credits", "money", "tax", "currency", "refunded_credits",
			"refunded_money"}, (*exchange).listPayments)},
		{"POST", "/admin/payments", "recordPayment", finances, (*exchange).recordPayment},
		{"GET", "/admin/payments/{id}", "getPayment", reading, (*exchange).getPayment},
		{"POST", "/admin/payments/{id}/fees", "recordFee", finances, taking((*exchange).recordFee)},
		{"GET", "/admin/billing/inbox", "listInbox", reading, listed("reports", []string{"id", "at", "type", "state",
			"reason", "account_id", "account_name", "customer", "payment_id"}, (*exchange).listInbox)},
		{"GET", "/admin/billing/inbox/{id}", "showReport", reading, (*exchange).showReport},
		{"POST", "/admin/billing/inbox/{id}/replay", "replayReport", finances, plain((*exchange).replayReport)},
		{"POST", "/admin/billing/inbox/{id}/dismiss", "dismissReport", finances, (*exchange).dismissReport},
		{"POST", "/admin/billing/links", "linkBilling", finances, taking((*exchange).linkBilling)},
		{"POST", "/admin/billing/checkouts", "createCheckout", finances, taking((*exchange).createCheckout)},
		{"GET", "/admin/brands", "listBrands", reading, listed("brands", []string{"domain", "status", "has_logo", "claimed",
			"quality_score"}, (*exchange).listBrands)},
		{"GET", "/admin/brands/{domain}", "getBrand", reading, (*exchange).getBrand},
		{"GET", "/admin/brands/{domain}/history", "getBrandHistory", reading, plain((*exchange).getBrandHistory)},
		{"PUT", "/admin/brands/{domain}/overrides/{field}", "overrideField", supporting,
			taking((*exchange).overrideField)},
		{"DELETE", "/admin/brands/{domain}/overrides/{field}", "removeOverride", supporting,
			plain((*exchange).removeOverride)},
		{"POST", "/admin/brands/{domain}/claim", "claimBrand", supporting, plain((*exchange).claimBrand)},
		{"POST", "/admin/brands/{domain}/withdraw", "withdrawBrand", everything, plain((*exchange).withdrawBrand)},
		{"POST", "/admin/brands/{domain}/crawl", "crawlBrand", supporting, plain((*exchange).crawlBrand)},
		{"GET", "/admin/crawls/failures", "listFailures", reading, listed("failures", []string{"domain", "at", "outcome",
			"detail", "crawl_id"}, (*exchange).listFailures)},
		{"GET", "/admin/crawls/warming", "getWarming", reading, plain((*exchange).getWarming)},
		{"POST", "/admin/crawls/warming", warmBrands, supporting, taking((*exchange).warmBrands)},
		{"DELETE", "/admin/crawls/warming", "cancelWarming", supporting, plain((*exchange).cancelWarming)},
		{"GET", "/admin/projections", "listProjections", reading, (*exchange).listProjections},
		{"GET", "/admin/projections/{name}/rebuild", "getRebuild", everything, plain((*exchange).lastRebuild)},
		{"POST", "/admin/projections/{name}/rebuild", "rebuildProjection", everything,
			plain((*exchange).rebuildProjection)},
		{"GET", "/admin/ledger/checkpoints", "listCheckpoints", reading, (*exchange).listCheckpoints},
		{"POST", "/admin/ledger/checkpoints", "makeCheckpoint", finances, (*exchange).makeCheckpoint},
		{"GET", "/admin/ledger/undelivered", "listUndelivered", reading, (*exchange).listUndelivered},
		{"POST", "/admin/ledger/undelivered/reverse", "reverseUndelivered", finances,
			taking((*exchange).reverseUndelivered)},
		{"GET", "/admin/books/months", "listMonths", reading, plain((*exchange).listMonths)},
		{"POST", "/admin/books/{month}/close", "closeMonth", finances, plain((*exchange).closeMonth)},
		{"GET", "/admin/books/overview", "getOverview", reading, plain((*exchange).getOverview)},
		{"GET", "/admin/books/revenue", "getRevenue", reading, (*exchange).getRevenue},
		{"GET", "/admin/books/usage", "getUsage", reading, (*exchange).getUsage},
		{"GET", "/admin/books/deferred", "getDeferred", reading, (*exchange).getDeferred},
		{"GET", "/admin/books/breakage", "getBreakage", reading, (*exchange).getBreakage},
		{"GET", "/admin/books/outstanding", "getOutstanding", reading, plain((*exchange).getOutstanding)},
		{"GET", "/admin/books/trial-balance", "getTrialBalance", reading, (*exchange).getTrialBalance},
		{"GET", "/admin/tokens", "listTokens", everything, (*exchange).listTokens},
		{"POST", "/admin/tokens", "issueToken", everything, taking((*exchange).issueToken)},
		{"DELETE", "/admin/tokens/{id}", "revokeToken", everything, (*exchange).revokeToken},
		{"POST", "/admin/login-links", "issueOperatorLink", everything, taking((*exchange).issueOperatorLink)},
		{"GET", "/admin/me", "getOwnToken", reading, plain((*exchange).getOwnToken)},
		{"DELETE", "/admin/me", "revokeOwnToken", reading, (*exchange).revokeOwnToken},
		{"GET", "/admin/search", "search", reading, (*exchange).search},
		{"GET", "/admin/actions", "listActions", reading, listed("actions", []string{"at", "what", "type", "stream",
			"account_name", "revision", "actor", "actor_name", "request_id"}, (*exchange).listActions)},
		{"GET", "/admin/health", "getHealth", reading, plain((*exchange).getHealth)},
	}
}

// taking serves an operation that has a JSON object as its body.
func taking[T any](serve func(*exchange, T) error) func(*exchange) error {
	return func(x *exchange) error {
		var in T
		if err := x.decode(&in); err != nil {
			return err
		}
		return serve(x, in)
	}
}

// about serves an operation on the account in the path, which must exist.
func about(serve func(x *exchange, id string) error) func(*exchange) error {
	return func(x *exchange) error {
		id := x.request.PathValue("id")
		err := x.api.Operations.Reads.AccountExists(x.ctx, id)
		if err == nil {
			err = serve(x, id)
		}
		return x.explain(id, err)
	}
}

// aboutTaking serves an operation on the account in the path that has a JSON object as its body.
func aboutTaking[T any](serve func(x *exchange, id string, in T) error) func(*exchange) error {
	return taking(func(x *exchange, in T) error {
		return about(func(x *exchange, id string) error { return serve(x, id, in) })(x)
	})
}

// plain serves an operation that has no parameters, or, if its method is not GET, no body.
func plain(serve func(*exchange) error) func(*exchange) error {
	return func(x *exchange) error {
		err := x.noBody()
		if q := x.query(); x.operation.method == http.MethodGet && q.err != nil {
			err = q.err
		}
		if err != nil {
			return err
		}
		return serve(x)
	}
}

func (a *API) route() {
	var routes []web.Route
	for _, o := range table() {
		routes = append(routes, a.endpoint(o))
	}
	if a.Metrics != nil {
		routes = append(routes, a.endpoint(operation{"GET", "/metrics", "metrics", reading, func(x *exchange) error {
			a.Metrics.ServeHTTP(x, x.request)
			return nil
		}}))
	}
	other := func(w http.ResponseWriter, _ *http.Request) {
		w.(*exchange).fail(newProblem(http.StatusMethodNotAllowed, "invalid_request",
			"This path does not answer that method. The Allow header lists those it answers.", nil))
	}
	unknown := func(w http.ResponseWriter, _ *http.Request) { w.(*exchange).fail(errUnknownPath) }
	r := web.NewRouter(routes, other, unknown)
	r.HandleFunc("/admin/openapi.yaml", func(w http.ResponseWriter, r *http.Request) {
		x := w.(*exchange)
		x.Route, x.request = "openapi", r
		x.send(http.StatusOK, []string{"application/yaml; charset=utf-8"}, description)
	}).Methods(http.MethodGet, http.MethodHead)
	a.router = r
}

// endpoint passes a request through authentication to its operation.
func (a *API) endpoint(o operation) web.Route {
	return web.Route{Method: o.method, Path: o.path, Serve: func(w http.ResponseWriter, r *http.Request) {
		x := w.(*exchange)
		x.request, x.Route, x.operation = r, o.name, &o
		if err := x.serve(); err != nil {
			x.fail(err)
		}
	}}
}

func (x *exchange) serve() error {
	if err := x.authenticate(); err != nil {
		return err
	}
	if o := x.operation; !allows(x.token.Scope, o.requires) {
		message := "This operation needs a token with the scope " + scopesWith(o.requires) +
			"; this token has the scope " +
			string(x.token.Scope) + "."
		return newProblem(http.StatusForbidden, "forbidden", message, nil)
	}
	if x.local { // requests of others must not keep the owner of the folder out
		return x.run()
	}
	if !x.api.running.TryAcquire(1) {
		return newProblem(http.StatusServiceUnavailable, "unavailable",
			"Too many requests are running. Send this one again.", nil)
	}
	defer x.api.running.Release(1)
	return x.run()
}
