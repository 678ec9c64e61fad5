package readapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/origin"
	"letterhead/internal/apikey"
	"letterhead/internal/ratelimit"
	"letterhead/internal/web"
	"letterhead/readapi/lookup"
)

// Caller is an account that sends a request with one of its keys.
type Caller struct {
	lookup.Caller
	Kind      apikey.Kind
	Suspended bool
	Terms     account.KeyTerms
}

const messageSuspended = "The account is suspended. Its owner can ask for it to be reinstated."

// scopeRequests names the counters of the minute window, one for each account.
const scopeRequests = "requests"

// noKeySent is sentKey's result for headers without any key; a key elsewhere may be used instead.
var noKeySent = unauthorized("No API key was sent. Send it as Authorization: Bearer <API_KEY>.")

const messageMalformedKey = "The API key is not well-formed: a character is missing, added or mistyped. Copy it again."

// foreignToken rejects a request whose only credential is a Bearer token that is not one of our keys. Endpoints that
// also accept a key in the URL use that key instead.
var foreignToken = unauthorized(messageMalformedKey)

// sentKey returns the only key in the headers. URLs are never examined. An Authorization header whose token is not one
// of our keys belongs to a gateway, a proxy or an OAuth tool, and is ignored beside X-Api-Key.
func sentKey(h http.Header) (key string, problem *Problem) {
	apiKeys := h["X-Api-Key"]
	if len(apiKeys) > 1 {
		return "", unauthorized("The header X-Api-Key is given more than once. Send it once.")
	}
	if len(apiKeys) == 1 {
		key = strings.TrimSpace(apiKeys[0])
	}
	if key == "" {
		return authorizationKey(h["Authorization"])
	}
	for _, credentials := range h["Authorization"] {
		if _, token := parseCredentials(credentials); token != key && isOurs(token) {
			return "", unauthorized("Authorization and X-Api-Key carry different keys. Send one of them.")
		}
	}
	return key, nil
}

func isOurs(token string) bool { return strings.HasPrefix(token, apikey.Prefix) }

// authorizationKey returns the key of a request that has only Authorization headers.
func authorizationKey(all []string) (key string, problem *Problem) {
	var scheme, token string
	for _, credentials := range all {
		if scheme, token = parseCredentials(credentials); len(all) > 1 && isOurs(token) {
			return "", unauthorized("The header Authorization is given more than once. " +
				"Send it once, or the key in X-Api-Key.")
		}
	}
	isBearer := strings.EqualFold(scheme, "Bearer")
	switch {
	case len(all) != 1, token == "", !isBearer && !isOurs(token):
		return "", noKeySent
	case scheme == "":
		return "", unauthorized("The word Bearer is missing before the key. Send Authorization: Bearer <API_KEY>.")
	case !isBearer:
		return "", unauthorized("The key does not follow the word Bearer and a space. " +
			"Send Authorization: Bearer <API_KEY>.")
	case !isOurs(token):
		return "", foreignToken
	}
	return token, nil
}

// parseCredentials splits the value of an Authorization header. A key without a scheme is a token. A tab after the
// scheme, which HTTP does not allow there, becomes part of the scheme.
func parseCredentials(value string) (scheme, token string) {
	value = strings.TrimSpace(value)
	i := strings.IndexAny(value, " \t")
	switch {
	case i >= 0:
		return strings.TrimRight(value[:i+1], " "), strings.TrimSpace(value[i:])
	case strings.HasPrefix(value, apikey.Prefix):
		return "", value
	}
	return value, ""
}

// queryKey returns the publishable key in ?c, and whether there is a c at all. Keys in URLs end up in
// logs and histories on their way, so a secret one is rejected. So is any other value that is not a
// publishable key, because a client that sends a key wants it to be used.
func queryKey(rawQuery string) (key string, present bool, problem *Problem) {
	sent, present, problem := web.QueryValue(rawQuery, "c")
	switch {
	case problem != nil:
		return "", true, unauthorized(problem.Text)
	case !present:
		return "", false, nil
	}
	if parsed, err := apikey.Parse(sent); err != nil || parsed.Kind != apikey.Publishable {
		message := "The parameter c is not a well-formed publishable key (lh_pk_…). Copy it again."
		if strings.HasPrefix(sent, "lh_sk_") {
			message = "A secret key was sent in the URL. It was not used, but others may have read it: revoke it, and send a publishable key (lh_pk_…) in c."
		}
		return "", true, unauthorized(message)
	}
	return sent, true, nil
}

// Limits of the checks before a request runs. The stores behind them may be remote, and may hang.
const (
	// checksWithin limits the key check and the take from the minute window together.
	checksWithin = 3 * time.Second
	// maxChecks limits the requests in these checks at a time; more mean that the checks are stuck.
	maxChecks = 2048
)

// callerOf identifies the caller by the headers, and on endpoints that accept it by the publishable key in ?c. If both
// are present the headers decide about the account, as for logos; an invalid c is rejected all the same.
func (a *API) callerOf(ctx context.Context, r *http.Request, inQuery bool) (Caller, *Problem) {
	if caller, ok := signedIn(ctx); ok {
		return caller, nil
	}
	if !inQuery {
		return a.authenticate(ctx, r.Header)
	}
	key, present, problem := queryKey(r.URL.RawQuery)
	if problem != nil {
		return Caller{}, problem
	}
	if !present {
		caller, problem := a.authenticate(ctx, r.Header)
		if problem == noKeySent {
			problem = unauthorized(
				"No API key was sent. Send it as Authorization: Bearer <API_KEY>, or a publishable key in c.")
		}
		return caller, problem
	}
	byQuery, problem := a.callerBy(ctx, key)
	if problem != nil {
		return Caller{}, problem
	}
	byHeader, problem := a.authenticate(ctx, r.Header)
	if problem == noKeySent || problem == foreignToken {
		return byQuery, nil
	}
	return byHeader, problem
}

// authenticate identifies the caller by the headers. Its rejections are 401, which clients treat as final, so a key
// that could not be checked is 503; a suspended account is detected later, because its requests count.
func (a *API) authenticate(ctx context.Context, h http.Header) (Caller, *Problem) {
	sent, problem := sentKey(h)
	if problem != nil {
		return Caller{}, problem
	}
	return a.callerBy(ctx, sent)
}

// callerBy returns the owner of a key.
func (a *API) callerBy(ctx context.Context, sent string) (Caller, *Problem) {
	parsed, err := apikey.Parse(sent)
	if err == nil && parsed.Kind == apikey.Operator {
		return Caller{}, unauthorized("This is a token of the admin API (lh_op_…), which has an address of its own. Send an API key of an account.")
	}
	if err != nil {
		return Caller{}, unauthorized(messageMalformedKey)
	}
	found, ok, err := a.Keys.Lookup(ctx, parsed.Hash)
	if err != nil {
		return Caller{}, unavailable("The key could not be checked, so nothing ran and nothing was charged. Send the request again after Retry-After.",
			retryStarting, err)
	}
	if !ok || found.Revoked || found.AccountStatus == string(account.Closed) {
		return Caller{}, unauthorized("The API key is unknown or was revoked. Issue a new one.")
	}
	if found.Expired(a.Now()) {
		return Caller{}, unauthorized(fmt.Sprintf("The API key expired at %s. Issue a new one.",
			found.ExpiresAt.Format(time.RFC3339)))
	}
	row, err := a.Plans.Get(found.Plan)
	if err != nil {
		return Caller{}, internalError(err)
	}
	connOf(ctx).keyChecked()
	a.Recorder.KeyUsed(found.AccountID, found.ID, a.Now())
	return Caller{
		Caller: lookup.Caller{AccountID: found.AccountID, KeyID: found.ID, Plan: row},
		Kind:   parsed.Kind, Suspended: found.AccountStatus == string(account.Suspended), Terms: found.KeyTerms,
	}, nil
}

// admit admits an authenticated request: right account, right kind of key, within the minute window.
// Every request takes a unit of the window, but a forbidden one is a 403 even beyond the limit.
func (x *exchange) admit(ctx context.Context, secretOnly bool) *Problem {
	late := x.takeMinute(ctx)
	if problem := x.forbid(secretOnly); problem != nil {
		return problem
	}
	return late
}

// takeMinute takes a unit of the account's minute window, and sets the headers about it.
func (x *exchange) takeMinute(ctx context.Context) *Problem {
	decision, err := x.api.Counters.Take(ctx, ratelimit.Key{Scope: scopeRequests, ID: x.caller.AccountID}, 1,
		int64(x.caller.Plan.PerMinute))
	if err != nil {
		return problemOf(err, x.api.Now(), x.api.BillingURL)
	}
	x.setHeader(headerRateLimitLimit, strconv.FormatInt(decision.Limit, 10))
	x.setHeader(headerRateLimitRemaining, strconv.FormatInt(decision.Remaining, 10))
	x.setHeader(headerRateLimitReset, strconv.FormatInt(decision.Reset.Unix(), 10))
	if !decision.Allowed {
		return rateLimited("The account has sent more requests in this minute than its plan allows. Send the request again after Retry-After.",
			decision.RetryAfter(x.api.Now()))
	}
	return nil
}

// forbid rejects suspended accounts, then the wrong kind of key, then keys whose terms exclude the request.
func (x *exchange) forbid(secretOnly bool) *Problem {
	switch {
	case x.caller.Suspended:
		return forbidden(messageSuspended)
	case secretOnly && x.caller.Kind != apikey.Secret:
		return forbidden("This endpoint needs a secret key (lh_sk_…), from a server. A publishable key may call search and the logo endpoints.")
	}
	return x.checkTerms()
}

// checkTerms rejects a search with a publishable key that has other scopes, or that pages of this origin may not use.
// Secret keys have no such terms.
func (x *exchange) checkTerms() *Problem {
	terms := x.caller.Terms
	if !terms.InScope(account.ScopeSearch) {
		return forbidden(fmt.Sprintf("This publishable key is for %s only. To search, send a key with the scope %s.",
			strings.Join(terms.Scopes, " and "), account.ScopeSearch))
	}
	page := pageOrigin(x.request.Header)
	switch {
	case terms.FromOrigin(page):
		return nil
	case page == "":
		return forbidden("This publishable key is for the pages of certain origins, and the request has neither Origin nor Referer. Search from one of these pages, or send a key without origins.")
	}
	return forbidden(
		fmt.Sprintf("This publishable key is not for pages of the origin %.100q. Issue a key that allows it.", page))
}

// pageOrigin returns the origin of the page that sent a request as Origin or else Referer has it, or "".
func pageOrigin(h http.Header) string {
	if sent := strings.Join(h["Origin"], ", "); sent != "" { // several are no origin, and match none
		return sent
	}
	return origin.OfURL(h.Get("Referer"))
}

type signedInKey struct{}

// SignedIn returns a context for requests that this process sends to the API for a person who has signed in to the
// account of caller. The API serves them like those with the caller's key, without one. The answer does not go to the
// connection of the request that ctx is from.
func SignedIn(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(context.WithValue(ctx, signedInKey{}, caller), connKey{}, (*answerConn)(nil))
}

// signedIn returns the caller of a request that SignedIn marks.
func signedIn(ctx context.Context) (Caller, bool) {
	caller, ok := ctx.Value(signedInKey{}).(Caller)
	return caller, ok
}
