package adminapi

import (
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"letterhead/domain/operator"
	"letterhead/internal/apikey"
	"letterhead/internal/ratelimit"
	"letterhead/internal/web"
	"letterhead/operations"
	"letterhead/projections/operators"
)

// maxFailures limits the requests without a valid token that an address may send in a minute and get a 401. Requests
// with a valid token are not limited: an attempt to guess one must not lock operators out.
const maxFailures = 20

// maxLookUps limits the tokens that are looked up at a time. The others wait in order of arrival, so that unknown
// tokens, which anyone can send, use few connections to the database and valid ones get their turn.
const maxLookUps = 8

// checkHost rejects requests for another host, which a browser sends if a page of that host leads its name to this
// address (DNS rebinding). The machine's own addresses are no names, so they are safe.
func (a *API) checkHost(r *http.Request) *problem {
	host := strings.ToLower(strings.TrimSuffix(web.HostOf(r.Host), "."))
	ip, err := netip.ParseAddr(host)
	if err == nil {
		ip = ip.Unmap().WithZone("")
		host = ip.String()
	}
	if a.hosts[host] || err == nil && (ip.IsLoopback() || ip == localAddress(r)) {
		return nil
	}
	return newProblem(http.StatusMisdirectedRequest, "misdirected",
		"The admin API does not answer for this host. Use its address or localhost, or add the host to LETTERHEAD_ADMIN_HOSTS.", nil)
}

// localAddress returns the address on which the request's connection was accepted.
func localAddress(r *http.Request) netip.Addr {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return netip.Addr{}
	}
	at, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// checkOrigin rejects requests of pages of other sites.
func checkOrigin(r *http.Request) *problem {
	rejected := newProblem(http.StatusForbidden, "forbidden",
		"The request comes from a page of another site. The admin API answers none.", nil)
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return rejected
	}
	for _, origin := range r.Header["Origin"] {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return rejected
		}
	}
	return nil
}

func (x *exchange) authenticate() error {
	if x.token != nil {
		return nil
	}
	text, missing := bearerOf(x.request.Header)
	if missing != nil {
		return x.unauthorized(missing)
	}
	parsed, err := apikey.Parse(text)
	switch {
	case err != nil:
		return x.unauthorized(
			unauthorized("The token is not well-formed: a character is missing, added or mistyped. Copy it again."))
	case parsed.Kind != apikey.Operator:
		return x.unauthorized(unauthorized("This is an API key of an account. The admin API needs a token of an operator (lh_op_…); \"letterhead admin token issue\" makes one."))
	}
	token, err := x.lookUp(parsed.Hash)
	switch {
	case errors.Is(err, operators.ErrNotFound):
		return x.unauthorized(unauthorized(
			"The token is unknown. Copy it again, or issue another one with \"letterhead admin token issue\"."))
	case err != nil:
		return err
	case !token.Valid(x.api.Now()):
		return x.unauthorized(unauthorized(
			"The token was revoked or has expired. Issue another one with \"letterhead admin token issue\"."))
	}
	x.token = token
	return nil
}

// lookUp finds a token by its hash. It looks up every well-formed token, however many unknown ones its address has
// sent: no operator is locked out by them.
func (x *exchange) lookUp(hash [sha256.Size]byte) (*operators.Token, error) {
	if err := x.api.lookUps.Acquire(x.ctx, 1); err != nil {
		return nil, err
	}
	defer x.api.lookUps.Release(1)
	return x.api.Operators.ByHash(x.ctx, hash)
}

func bearerOf(h http.Header) (string, *problem) {
	sent := h["Authorization"]
	if len(sent) == 1 {
		scheme, token, _ := strings.Cut(strings.TrimSpace(sent[0]), " ")
		if token = strings.TrimSpace(token); strings.EqualFold(scheme, "Bearer") && token != "" {
			return token, nil
		}
	}
	return "", unauthorized(
		"Send a token of an operator as Authorization: Bearer TOKEN. \"letterhead admin token issue\" makes one.")
}

func unauthorized(message string) *problem {
	return newProblem(http.StatusUnauthorized, "unauthorized", message, nil)
}

// unauthorized counts a failed attempt, and returns its answer.
func (x *exchange) unauthorized(p *problem) error {
	by := ratelimit.Key{Scope: "admin failures", ID: x.api.Visitor(x.request)}
	decision, err := x.api.failures.Take(x.ctx, by, 1, maxFailures)
	if err != nil {
		return err
	}
	if !decision.Allowed {
		web.RetryAfter(x.Header(), decision.RetryAfter(x.api.Now()))
		message := "This address has sent too many requests without a valid token. Send a valid one, or wait."
		return newProblem(http.StatusTooManyRequests, "rate_limited", message, nil)
	}
	x.Header().Set("WWW-Authenticate", "Bearer")
	return p
}

func (x *exchange) getOwnToken() error {
	names, err := x.api.Names.Names(x.ctx, x.token.ID)
	if err != nil {
		return err
	}
	own := operations.Token{ID: x.token.ID, Name: names[x.token.ID], Scope: x.token.Scope, Last4: x.token.Last4,
		State: operators.Active, IssuedAt: x.token.IssuedAt, ExpiresAt: x.token.ExpiresAt}
	return x.answer(http.StatusOK, map[string]any{"token": own, "permissions": granted[x.token.Scope]})
}

func (x *exchange) revokeOwnToken() error { return x.revoke(x.token.ID, false) }

// permission is what an operation requires. Each operation has one, in the table of routes.
type permission string

const (
	reading    permission = "read"    // GET, revoking the token of the request
	supporting permission = "support" // keys, login links, notices, suspension, crawls, overrides
	// grants, refunds, payments, reversals, plans, closing months, checkpoints, links, checkouts
	finances   permission = "finance"
	everything permission = "admin" // opening and closing accounts, withdrawals, rebuilds, tokens of others
)

var granted = map[operator.Scope][]permission{
	operator.Read:    {reading},
	operator.Support: {reading, supporting},
	operator.Finance: {reading, finances},
	operator.Admin:   {reading, supporting, finances, everything},
}

// allows reports whether a token with a scope may call an operation with a permission.
func allows(scope operator.Scope, p permission) bool { return slices.Contains(granted[scope], p) }

// scopesWith names the scopes that have a permission.
func scopesWith(p permission) string {
	var with []string
	for _, scope := range operator.Scopes {
		if allows(scope, p) {
			with = append(with, string(scope))
		}
	}
	return strings.Join(with, " or ")
}
