package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/domain/account"
	"letterhead/domain/operator"
	"letterhead/internal/apikey"
	"letterhead/node"
	"letterhead/operations"
)

func keyIssue(e *environment) *cobra.Command {
	c := command("issue", "Issue a key; it is shown once")
	c.Flags().String("account", "", "account id")
	c.Flags().String("kind", "secret", "secret or publishable")
	c.Flags().String("name", "", "a name for the key, to recognize it")
	expiresFlag(c)
	c.Flags().StringSlice("scope", nil,
		"of a publishable key: "+strings.Join(account.KeyScopes, " or ")+"; may be repeated (default: both)")
	named(c, "scope", "scopes")
	c.Flags().StringSlice("origin", nil,
		"of a publishable key: a site whose pages may use it, such as https://acme.com "+
			"or https://*.acme.com; may be repeated (default: all)")
	named(c, "origin", "origins")
	return show(e, c, "POST", "/admin/accounts/{account}/keys", func(_ *client, issued operations.Key) error {
		if issued.Key == "" {
			return e.printf("%s", lost("key", issued.ID, "key"))
		}
		return e.printf("%s key %s\n%s%s\nIt is shown only now; only its hash is stored.\n",
			issued.Kind,
			issued.ID, termLines(issued.KeyTerms), issued.Key)
	})
}

func termLines(t account.KeyTerms) string {
	var lines string
	if !t.ExpiresAt.IsZero() {
		lines += "expires  " + t.ExpiresAt.Format(time.RFC3339) + "\n"
	}
	if len(t.Scopes) > 0 {
		lines += "scopes   " + strings.Join(t.Scopes, ", ") + "\n"
	}
	if len(t.Origins) > 0 {
		lines += "origins  " + strings.Join(t.Origins, ", ") + "\n"
	}
	return lines
}

// expiryFlag is the value of --expires.
type expiryFlag struct{ at time.Time }

// expiresFlag adds the option of the end of a key or a token.
func expiresFlag(c *cobra.Command) {
	c.Flags().Var(&expiryFlag{}, "expires",
		"when it expires: after a time such as 90d or 720h, at the end of a day or "+
			"a month, or at a moment: "+timeForms+" (default: never)")
	named(c, "expires", "expires_at")
}

// Set parses the end of a duration, of a month or of a day, or a moment.
func (f *expiryFlag) Set(text string) (err error) {
	f.at, err = expiry(text, time.Now())
	return err
}

func (f *expiryFlag) String() string {
	if f.at.IsZero() {
		return ""
	}
	return f.at.Format(time.RFC3339Nano)
}

func (f *expiryFlag) Type() string { return "string" }

func expiry(text string, now time.Time) (time.Time, error) {
	if n, inDays := strings.CutSuffix(text, "d"); inDays {
		days, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return time.Time{}, fmt.Errorf("it takes a number of days such as 90d, not %q", text)
		}
		return now.AddDate(0, 0, int(days)), nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil // endOf returns the first moment after it
	}
	return endOf("--expires", text)
}

// listedKey is a key as the admin API lists it.
type listedKey struct {
	adminapi.Key
	// used is when the key was last used; it is unknown as of a time if it was used later.
	used string
}

func keyList(e *environment) *cobra.Command {
	c := command("list", "List the keys of an account")
	c.Flags().String("account", "", "account id")
	c.Flags().String("kind", "", "only keys of this kind: secret or publishable")
	c.Flags().String("state", "", "only keys in this state: active, expired or revoked")
	l := listing[listedKey]{
		path: "/admin/accounts/{account}/keys", field: "keys",
		titles: "ID\tKIND\tLAST FOUR\tNAME\tSTATE\tLAST USED\tEXPIRES\tSCOPES\tORIGINS\tLIMIT",
		cells:  (*listedKey).cells, object: func(r row[listedKey]) any { return r.value.object() },
		orders: []order[listedKey]{
			{"issued", func(_, _ *listedKey) int { return 0 }}, // as the API lists them
			{"used", func(a, b *listedKey) int { return a.LastUsedAt.Compare(b.LastUsedAt) }},
			by("kind", func(k *listedKey) string { return k.Kind }),
			by("state", func(k *listedKey) string { return k.State }),
		},
	}
	sort := l.sortFlag(c)
	asOfFlag(c)
	asJSON := jsonFlag(c)
	e.completeAccounts(c, l.path)
	c.RunE = e.onAPI(node.ToRead, func(x *client) error {
		return l.list(x, e, *asJSON, func(rows []row[listedKey], rest pageRest) error {
			for i := range rows {
				rows[i].value.setUsed(rest.AsOf)
			}
			if err := sort(rows, rest); err != nil {
				return err
			}
			if by := c.Flags().Lookup("sort").Value.String(); strings.TrimPrefix(by, "-") == "used" {
				unknownLast(rows)
			}
			return nil
		})
	})
	return c
}

const unknownUse = "unknown"

func (k *listedKey) setUsed(asOf time.Time) {
	switch {
	case k.LastUsedAt.IsZero():
		k.used = "never"
	case !asOf.IsZero() && k.LastUsedAt.After(asOf): // earlier uses are not known
		k.used = unknownUse
	default:
		k.used = k.LastUsedAt.UTC().Format(time.RFC3339)
	}
}

// unknownLast moves keys whose last use is unknown to the end.
func unknownLast(rows []row[listedKey]) {
	rank := func(r row[listedKey]) int {
		if r.value.used == unknownUse {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(rows, func(a, b row[listedKey]) int { return cmp.Compare(rank(a), rank(b)) })
}

// object returns a key as list --json prints it.
func (k *listedKey) object() any {
	key := k.Key
	key.LastUsedAt = time.Time{} // it may be later than the time of the list
	return struct {
		adminapi.Key
		LastUsed string `json:"last_used"`
	}{key, k.used}
}

// cells returns a key as list prints it.
func (k *listedKey) cells() []any {
	scopes, origins, limit := "all", "all", "none"
	if k.Kind != string(apikey.Publishable) {
		scopes, origins = "-", "-"
	}
	if len(k.Scopes) > 0 {
		scopes = strings.Join(k.Scopes, ",")
	}
	if len(k.Origins) > 0 {
		origins = strings.Join(k.Origins, ",")
	}
	if k.Limit != nil {
		limit = fmt.Sprintf("%d of %d (%s)", k.Limit.Used(), k.Limit.Credits, k.Limit.Period)
	}
	return []any{k.ID, k.Kind, "…" + k.Last4, k.Name, k.State, k.used, timeOr(k.ExpiresAt, "never"), scopes, origins, limit}
}

func keyLimit(e *environment) *cobra.Command {
	c := command("limit KEY_ID", "Limit the credits that a key may spend")
	limit := c.Flags().Int64("limit", 0, "credits that the key may spend; 0 removes its limit")
	c.Flags().String("period", "total", "in which it may spend them: total, or a day or month (UTC)")
	return act(e, c, "PUT", "/admin/keys/{KEY_ID}/limit", func(x *client, done adminapi.Change) error {
		if *limit == 0 {
			return e.printDecision(done, "limit of key "+x.args[0]+" removed")
		}
		return e.printDecision(done, fmt.Sprintf("limit of key %s set to %d", x.args[0], *limit))
	})
}

func keyRevoke(e *environment) *cobra.Command {
	c := command("revoke KEY_ID", "Revoke a key; the next request with it is rejected")
	return act(e, c, "DELETE", "/admin/keys/{KEY_ID}", func(x *client, done adminapi.Change) error {
		return e.printDecision(done, "key "+x.args[0]+" revoked")
	})
}

func scopeFlag(c *cobra.Command) {
	c.Flags().String("scope", "", "read, support, finance or admin")
}

func adminLoginLink(e *environment) *cobra.Command {
	c := command("login-link", "Print a link to sign in to the operators' console")
	c.Annotations = map[string]string{ifUnanswered: anotherLink}
	c.Flags().String("operator", "", "name of the operator who signs in; it is shown with the operator's actions")
	scopeFlag(c)
	return show(e, c, "POST", "/admin/login-links", func(_ *client, link operations.LoginLink) error {
		return printLink(e, link, operator.LinkLifetime)
	})
}

func tokenIssue(e *environment) *cobra.Command {
	c := command("issue", "Issue a token; it is shown once")
	c.Flags().String("name", "", "a name for the token, to recognize it")
	scopeFlag(c)
	expiresFlag(c)
	return show(e, c, "POST", "/admin/tokens", func(x *client, issued operations.Token) error {
		if issued.Token == "" {
			return e.printf("%s", lost("token", issued.ID, "admin token"))
		}
		where := ""
		if url := x.header.Get("X-Admin-Url"); url != "" {
			where = fmt.Sprintf("Try it: curl -H 'Authorization: Bearer TOKEN' %s/admin/accounts\n", url)
		}
		return e.printf("token %s, scope %s\n%s\nIt is shown only now; only its hash is stored.\n%s",
			issued.ID, issued.Scope, issued.Token, where)
	})
}

func tokenList(e *environment) *cobra.Command {
	c := command("list", "List tokens, the newest first")
	c.Flags().String("state", "",
		"only tokens that are active, expired, revoked, or ended, which is expired or revoked")
	c.Flags().String("scope", "", "only tokens with this scope: read, support, finance or admin")
	return listing[operations.Token]{
		path: "/admin/tokens", field: "tokens", page: wholePage,
		titles: "ID\tNAME\tSCOPE\tLAST FOUR\tSTATE\tISSUED\tEXPIRES",
		cells: func(t *operations.Token) []any {
			return []any{t.ID, t.Name, t.Scope, "…" + t.Last4, t.State, t.IssuedAt.Format(time.RFC3339),
				timeOr(t.ExpiresAt, "never")}
		},
		orders: []order[operations.Token]{
			by("name", func(t *operations.Token) string { return t.Name }),
			by("scope", func(t *operations.Token) string { return string(t.Scope) }),
			by("state", func(t *operations.Token) string { return string(t.State) }),
			by("issued", func(t *operations.Token) int64 { return t.IssuedAt.UnixMicro() }),
			by("expires", func(t *operations.Token) int64 {
				if t.ExpiresAt.IsZero() {
					return math.MaxInt64
				}
				return t.ExpiresAt.UnixMicro()
			}),
		},
	}.command(e, c)
}

func tokenRevoke(e *environment) *cobra.Command {
	c := command("revoke ID", "Revoke a token; the next request with it is rejected")
	c.Flags().Bool("erase-name", false, "also erase the name of the token")
	return act(e, c, "DELETE", "/admin/tokens/{ID}", func(_ *client, done struct {
		ID       string
		Repeated bool
	}) error {
		return e.printf("token %s revoked%s\n", done.ID, noteIf(done.Repeated, " (it was before)"))
	})
}
