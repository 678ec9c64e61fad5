package readapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"letterhead/commands"
	"letterhead/domain/plan"
	"letterhead/internal/apikey"
	"letterhead/internal/ratelimit"
)

// The longest that a logo request waits, within checksWithin, for optional checks. The rest is for the windows.
const (
	keyWithin       = time.Second
	allowanceWithin = time.Second
)

// Scopes of the counters of logo requests.
const (
	scopeLogos         = "logos"          // by account
	scopeLogoAddresses = "logo-addresses" // by visitor's address
)

// keyStatus is the reason, in X-Api-Key-Status, why a key was not used.
type keyStatus string

const (
	keyInvalid       keyStatus = "invalid"
	keySecretInURL   keyStatus = "secret-key-in-url"
	keyRateLimited   keyStatus = "rate-limited"
	keyQuotaExceeded keyStatus = "quota-exceeded"
)

// addressUnknown counts visitors whose connection has no IP address.
const addressUnknown = "unknown"

const headerKeyStatus = "X-Api-Key-Status"

// logoCaller is the caller of a logo request.
type logoCaller struct {
	Keyed     bool      // the request is served with the rights of Caller
	Caller    Caller    // zero without a valid key
	KeyStatus keyStatus // "" when no key was sent, or the key was used
	unkeyed   bool      // the key of the host was not used
	Address   string    // the visitor's, as the limits of addresses count it
	Counted   time.Time // when the monthly allowance counted the request; zero if it did not
}

// admitLogo admits a logo request. It sets X-Api-Key-Status, even on a rejection, and x.caller if the
// request has an account's rights. It rejects with 429 beyond the limit of the address, and with 503
// if the limits cannot be checked, but never because of a key: a bad key is treated like none.
func (x *exchange) admitLogo() (logoCaller, *Problem) {
	out := logoCaller{Address: x.visitor()}
	problem := x.checked(func(ctx context.Context) *Problem {
		sent, status := logoKey(x.request, x.profile != nil)
		if sent == "" && status == "" && x.profile != nil && x.profile.key != "" { // whose account must not be used up from one address
			problem := x.limitAddress(ctx, out.Address)
			if problem == nil {
				problem = x.useLogoKey(ctx, x.profile.key, &out)
			}
			out.KeyStatus, out.unkeyed = "", !out.Keyed // the visitor sent no key
			return problem
		}
		out.KeyStatus = status
		if problem := x.useLogoKey(ctx, sent, &out); problem != nil || out.Keyed {
			return problem
		}
		return x.limitAddress(ctx, out.Address)
	})
	if out.KeyStatus != "" {
		x.Header()[headerKeyStatus] = []string{string(out.KeyStatus)}
	}
	if out.Keyed {
		x.caller = out.Caller
	}
	return out, problem
}

// limitAddress takes one logo of the minute of an address without a key.
func (x *exchange) limitAddress(ctx context.Context, address string) *Problem {
	limit := x.logoLimit()
	if limit == 0 {
		return nil
	}
	decision, problem := x.takeLogo(ctx, ratelimit.Key{Scope: scopeLogoAddresses, ID: address}, limit)
	if problem == nil && !decision.Allowed {
		problem = rateLimited("This address has requested too many logos in this minute. Send the request again after Retry-After, or with a key.",
			decision.RetryAfter(x.api.Now()))
	}
	return problem
}

// useLogoKey identifies the account of the key, if one was sent, and checks whether it may use it for
// one more logo. A request with a valid key counts in usage.logos, whatever its outcome.
func (x *exchange) useLogoKey(ctx context.Context, sent string, out *logoCaller) *Problem {
	if sent == "" {
		return nil
	}
	degraded := func(why keyStatus) {
		if out.KeyStatus == "" { // keep reporting a leaked secret
			out.KeyStatus = why
		}
	}
	caller, problem := x.callerOfLogo(ctx, sent)
	if problem != nil || caller.Suspended || !caller.Terms.ForLogo(pageOrigin(x.request.Header)) {
		degraded(keyInvalid)
		return nil
	}
	x.api.Recorder.Logo(caller.AccountID, x.api.Now())
	decision, problem := x.takeLogo(ctx, ratelimit.Key{Scope: scopeLogos, ID: caller.AccountID},
		plan.KeyedLogosPerMinute)
	switch {
	case problem != nil:
		return problem
	case !decision.Allowed: // before the allowance, so that a flood does not use up the month
		degraded(keyRateLimited)
	case !x.withinAllowance(ctx, caller, out):
		degraded(keyQuotaExceeded)
	default:
		out.Keyed, out.Caller = true, caller
	}
	return nil
}

// callerOfLogo returns the owner of a key. A key that could not be checked in time is not used.
func (x *exchange) callerOfLogo(ctx context.Context, sent string) (Caller, *Problem) {
	ctx, cancel := context.WithTimeout(ctx, keyWithin)
	defer cancel()
	caller, problem := x.api.callerBy(ctx, sent)
	if problem != nil && problem.Status != http.StatusUnauthorized {
		x.api.Logger.WarnContext(ctx, "key of a logo request could not be checked", "request_id", x.ID,
			"error", problem)
	}
	return caller, problem
}

// withinAllowance takes one logo from the account's monthly allowance. If it is not known in time
// whether one is left, the request is served as if the allowance were exceeded: the image does not
// break, and no more than the allowance is ever served. On an unlimited plan such a failure has no
// effect; its logos are counted in case the account moves to a limited plan.
func (x *exchange) withinAllowance(ctx context.Context, caller Caller, out *logoCaller) bool {
	ctx, cancel := context.WithTimeout(ctx, allowanceWithin)
	defer cancel()
	at := x.api.Now()
	err := x.api.Quotas.CountLogo(ctx, caller.AccountID, at, caller.Plan.LogosPerMonth)
	if err == nil {
		out.Counted = at
		return true
	}
	if !errors.Is(err, commands.ErrQuotaExceeded) {
		x.api.Logger.WarnContext(ctx, "logo allowance could not be checked", "request_id", x.ID,
			"account", caller.AccountID, "error", err)
	}
	return caller.Plan.LogosPerMonth == plan.Unlimited
}

// returnLogo returns the allowance that a request took if the request ended in an internal fault.
// The units of the minute windows stay taken: they limit the requests sent to us, and this one was
// sent, most of all under overload, and they expire within the minute.
func (x *exchange) returnLogo(who logoCaller, fault error) {
	if who.Counted.IsZero() || x.clientGone() || errors.Is(fault, errClientGone) {
		return
	}
	if problemOf(fault, x.api.Now(), x.api.BillingURL).Status >= http.StatusInternalServerError {
		x.api.Quotas.ReturnLogo(who.Caller.AccountID, who.Counted)
	}
}

// takeLogo takes one unit of a minute window.
func (x *exchange) takeLogo(ctx context.Context, key ratelimit.Key, limit int64) (ratelimit.Decision, *Problem) {
	decision, err := x.api.Counters.Take(ctx, key, 1, limit)
	if err != nil {
		return decision, unavailable(
			"The limits of logo requests could not be checked. Send the request again after Retry-After.",
			retryUnavailable, err)
	}
	return decision, nil
}

const secretPrefix = "lh_sk_"

// logoKey returns the key to serve a logo request under, or "", and the status of the keys so far: a
// header has precedence over ?key, and a secret key in ?key is never looked up. That is reported even
// with a good header, which is used all the same, because the secret has leaked. At profiles, tokens of other services
// count as none.
func logoKey(r *http.Request, profiled bool) (key string, status keyStatus) {
	inQuery, status := keyInQuery(r.URL.RawQuery, profiled)
	h := r.Header
	if profiled {
		foreign := func(value string) bool { _, token := parseCredentials(value); return !isOurs(token) }
		h = http.Header{}
		for _, name := range []string{"X-Api-Key", "Authorization"} {
			h[name] = slices.DeleteFunc(slices.Clone(r.Header[name]), foreign)
		}
	}
	sent, problem := sentKey(h)
	switch {
	case problem == noKeySent, problem == foreignToken && inQuery != "":
		return inQuery, status
	case problem != nil && status != keySecretInURL:
		return "", keyInvalid
	case status != keySecretInURL:
		status = ""
	}
	return sent, status
}

// keyInQuery returns the publishable key in ?key. An empty one counts as none, because pages fill it in from a setting.
func keyInQuery(rawQuery string, profiled bool) (key string, status keyStatus) {
	for rawQuery != "" {
		var pair string
		pair, rawQuery, _ = strings.Cut(rawQuery, "&")
		rawName, rawValue, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(rawName); err != nil || name != "key" {
			continue
		}
		value, err := url.QueryUnescape(rawValue)
		value = strings.TrimSpace(value)
		switch {
		case strings.HasPrefix(value, secretPrefix), strings.HasPrefix(rawValue, secretPrefix):
			return "", keySecretInURL
		case profiled && !isOurs(value): // a token of another service
		case err != nil, value != "" && key != "" && value != key:
			status = keyInvalid
		case value != "":
			key = value
		}
	}
	if status != "" {
		return "", status
	}
	if parsed, err := apikey.Parse(key); key != "" && (err != nil || parsed.Kind != apikey.Publishable) {
		return "", keyInvalid
	}
	return key, ""
}
