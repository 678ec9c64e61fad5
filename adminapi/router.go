package adminapi

import (
	_ "embed"
	"net/http"
	"slices"
	"strings"
)

//go:embed openapi.yaml
var description []byte

// operation is a method of a path.
type operation struct {
	method, path string // of net/http
	name         string // operationId of the description; for logs and metrics
	requires     permission
	serve        func(*exchange) error
}

// operations returns the table of the API. Each operation is described in openapi.yaml.
func operations() []operation {
	return []operation{
		{"GET", "/admin/accounts", "listAccounts", reading, (*exchange).listAccounts},
		{"POST", "/admin/accounts", "openAccount", everything, (*exchange).openAccount},
		{"GET", "/admin/accounts/{id}", "getAccount", reading, (*exchange).getAccount},
		{"PUT", "/admin/accounts/{id}/plan", "changePlan", finances, (*exchange).changePlan},
		{"POST", "/admin/accounts/{id}/notes", "noteAccount", supporting, (*exchange).noteAccount},
		{"POST", "/admin/accounts/{id}/suspend", "suspendAccount", supporting, (*exchange).suspendAccount},
		{"POST", "/admin/accounts/{id}/reinstate", "reinstateAccount", supporting, (*exchange).reinstateAccount},
		{"POST", "/admin/accounts/{id}/close", "closeAccount", everything, (*exchange).closeAccount},
		{"POST", "/admin/accounts/{id}/grants", "grantCredits", finances, (*exchange).grantCredits},
		{"POST", "/admin/accounts/{id}/refunds", "refundPayment", finances, (*exchange).refundPayment},
		{"POST", "/admin/accounts/{id}/reversals", "reverseRequest", finances, (*exchange).reverseRequest},
		{"POST", "/admin/accounts/{id}/breakage", "recognizeBreakage", finances, (*exchange).recognizeBreakage},
		{"GET", "/admin/accounts/{id}/keys", "listKeys", reading, (*exchange).listKeys},
		{"POST", "/admin/accounts/{id}/keys", "issueKey", supporting, (*exchange).issueKey},
		{"POST", "/admin/accounts/{id}/login-link", "issueLoginLink", supporting, (*exchange).issueLoginLink},
		{"POST", "/admin/accounts/{id}/sign-out", "signOut", supporting, (*exchange).signOut},
		{"GET", "/admin/accounts/{id}/sign-in-emails", "listSignInEmails", supporting, (*exchange).listSignInEmails},
		{"PUT", "/admin/accounts/{id}/sign-in-emails/{person}", "setSignInEmail", supporting, (*exchange).setSignInEmail},
		{"GET", "/admin/accounts/{id}/notices", "getNotices", supporting, (*exchange).getNotices},
		{"PUT", "/admin/accounts/{id}/notices", "setNotices", supporting, (*exchange).setNotices},
		{"POST", "/admin/accounts/{id}/notices/{notice}/retry", "retryNotice", supporting, (*exchange).retryNotice},
		{"DELETE", "/admin/keys/{id}", "revokeKey", supporting, (*exchange).revokeKey},
		{"GET", "/admin/accounts/{id}/ledger", "getLedger", reading, (*exchange).getLedger},
		{"GET", "/admin/accounts/{id}/statements/{month}", "getStatement", reading, (*exchange).getStatement},
		{"GET", "/admin/accounts/{id}/proofs/{month}", "getProof", reading, (*exchange).getProof},
		{"GET", "/admin/payments", "listPayments", reading, (*exchange).listPayments},
		{"POST", "/admin/payments", "recordPayment", finances, (*exchange).recordPayment},
		{"GET", "/admin/payments/{id}", "getPayment", reading, (*exchange).getPayment},
		{"POST", "/admin/payments/{id}/fees", "recordFee", finances, (*exchange).recordFee},
		{"GET", "/admin/billing/inbox", "listInbox", reading, (*exchange).listInbox},
		{"GET", "/admin/billing/inbox/{id}", "showReport", reading, (*exchange).showReport},
		{"POST", "/admin/billing/inbox/{id}/replay", "replayReport", finances, (*exchange).replayReport},
		{"POST", "/admin/billing/inbox/{id}/dismiss", "dismissReport", finances, (*exchange).dismissReport},
		{"POST", "/admin/billing/links", "linkBilling", finances, (*exchange).linkBilling},
		{"POST", "/admin/billing/checkouts", "createCheckout", finances, (*exchange).createCheckout},
		{"GET", "/admin/brands", "listBrands", reading, (*exchange).listBrands},
		{"GET", "/admin/brands/{domain}", "getBrand", reading, (*exchange).getBrand},
		{"GET", "/admin/brands/{domain}/history", "getBrandHistory", reading, (*exchange).getBrandHistory},
		{"PUT", "/admin/brands/{domain}/overrides/{field}", "overrideField", supporting, (*exchange).overrideField},
		{"DELETE", "/admin/brands/{domain}/overrides/{field}", "removeOverride", supporting, (*exchange).removeOverride},
		{"POST", "/admin/brands/{domain}/claim", "claimBrand", supporting, (*exchange).claimBrand},
		{"POST", "/admin/brands/{domain}/withdraw", "withdrawBrand", everything, (*exchange).withdrawBrand},
		{"POST", "/admin/brands/{domain}/crawl", "crawlBrand", supporting, (*exchange).crawlBrand},
		{"GET", "/admin/crawls/failures", "listFailures", reading, (*exchange).listFailures},
		{"GET", "/admin/projections", "listProjections", reading, (*exchange).listProjections},
		{"GET", "/admin/projections/{name}/rebuild", "getRebuild", everything, (*exchange).lastRebuild},
		{"POST", "/admin/projections/{name}/rebuild", "rebuildProjection", everything, (*exchange).rebuildProjection},
		{"GET", "/admin/ledger/checkpoints", "listCheckpoints", reading, (*exchange).listCheckpoints},
		{"POST", "/admin/ledger/checkpoints", "makeCheckpoint", finances, (*exchange).makeCheckpoint},
		{"GET", "/admin/ledger/undelivered", "listUndelivered", reading, (*exchange).listUndelivered},
		{"POST", "/admin/ledger/undelivered/reverse", "reverseUndelivered", finances, (*exchange).reverseUndelivered},
		{"GET", "/admin/books/months", "listMonths", reading, (*exchange).listMonths},
		{"POST", "/admin/books/{month}/close", "closeMonth", finances, (*exchange).closeMonth},
		{"GET", "/admin/books/revenue", "getRevenue", reading, (*exchange).getRevenue},
		{"GET", "/admin/books/usage", "getUsage", reading, (*exchange).getUsage},
		{"GET", "/admin/books/deferred", "getDeferred", reading, (*exchange).getDeferred},
		{"GET", "/admin/books/outstanding", "getOutstanding", reading, (*exchange).getOutstanding},
		{"GET", "/admin/books/trial-balance", "getTrialBalance", reading, (*exchange).getTrialBalance},
		{"GET", "/admin/tokens", "listTokens", everything, (*exchange).listTokens},
		{"POST", "/admin/tokens", "issueToken", everything, (*exchange).issueToken},
		{"DELETE", "/admin/tokens/{id}", "revokeToken", everything, (*exchange).revokeToken},
		{"GET", "/admin/me", "getOwnToken", reading, (*exchange).getOwnToken},
		{"DELETE", "/admin/me", "revokeOwnToken", reading, (*exchange).revokeOwnToken},
		{"GET", "/admin/actions", "listActions", reading, (*exchange).listActions},
		{"GET", "/admin/health", "getHealth", reading, (*exchange).getHealth},
	}
}

// route builds the table of paths.
func (a *API) route() {
	a.mux, a.paths = http.NewServeMux(), map[string][]string{}
	for _, o := range operations() {
		a.paths[o.path] = append(a.paths[o.path], o.method)
		a.mux.Handle(o.method+" "+o.path, a.endpoint(o))
	}
	if a.Metrics != nil {
		o := operation{"GET", "/metrics", "metrics", reading, func(x *exchange) error {
			x.status = http.StatusOK
			a.Metrics.ServeHTTP(x.writer, x.request)
			return nil
		}}
		a.paths[o.path] = []string{o.method}
		a.mux.Handle("GET "+o.path, a.endpoint(o))
	}
	for path, methods := range a.paths {
		if slices.Contains(methods, http.MethodGet) {
			methods = append(methods, http.MethodHead) // net/http answers it like GET, without the body
		}
		slices.Sort(methods)
		a.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { // any other method
			x := exchangeOf(r)
			w.Header().Set("Allow", strings.Join(methods, ", "))
			x.fail(&problem{http.StatusMethodNotAllowed, "invalid_request", "This path does not answer that method. The Allow header lists those it answers.", nil})
		})
	}
	a.mux.HandleFunc("GET /admin/openapi.yaml", func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r)
		x.route = "openapi"
		x.send(http.StatusOK, "application/yaml; charset=utf-8", description)
	})
	a.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		exchangeOf(r).fail(errUnknownPath)
	})
}

// endpoint passes a request through authentication to its operation.
func (a *API) endpoint(o operation) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r)
		x.route, x.operation = o.name, &o
		if err := x.authenticate(); err != nil {
			x.fail(err)
			return
		}
		if !allows(x.token.Scope, o.requires) {
			x.fail(&problem{http.StatusForbidden, "forbidden", "This operation needs a token with the scope " + scopesWith(o.requires) + "; that of this token is " + string(x.token.Scope) + ".", nil})
			return
		}
		if !a.running.TryAcquire(1) {
			x.fail(&problem{http.StatusServiceUnavailable, "unavailable", "Too many requests are running. Send this one again.", nil})
			return
		}
		defer a.running.Release(1)
		if err := x.run(); err != nil {
			x.fail(err)
		}
	})
}
