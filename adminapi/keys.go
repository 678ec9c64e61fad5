package adminapi

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/operator"
	"letterhead/domain/signin"
	"letterhead/internal/accountnames"
	"letterhead/internal/apikey"
	"letterhead/operations"
	"letterhead/projections/keys"
	"letterhead/projections/operators"
)

func (x *exchange) listKeys(id string) error {
	q := x.query("kind", "state", "as_of")
	kind, state := q.oneOf("kind", string(apikey.Secret), string(apikey.Publishable)), q.oneOf("state", keys.States...)
	at := q.moment(x.api.Now())
	if err := x.read(q, keys.Name); err != nil {
		return err
	}
	rows, err := x.api.Keys.List(x.ctx, id)
	if err != nil {
		return err
	}
	names, err := accountnames.NamesOf(x.ctx, x.api.Names, rows, func(r *keys.Listed) string { return r.ID })
	if err != nil {
		return err
	}
	stateAt := at.Time
	if at.IsZero() {
		stateAt = x.api.Now()
	}
	var standing commands.Standing
	if len(rows) > 0 && at.IsZero() {
		if standing, err = x.api.Writer.Standing(x.ctx, id); err != nil {
			return err
		}
	}
	shown := []Key{}
	for _, r := range rows {
		if !at.IsZero() && r.RevokedAt.After(at.Time) {
			r.RevokedAt = time.Time{}
		}
		now := r.State(stateAt)
		if kind != "" && r.Kind != kind || state != "" && now != state || !at.IsZero() && r.IssuedAt.After(at.Time) {
			continue
		}
		shown = append(shown, Key{
			ID: r.ID, Kind: r.Kind, Last4: r.Last4, Name: names[r.ID], State: now,
			IssuedAt: r.IssuedAt, LastUsedAt: r.LastUsedAt, RevokedAt: r.RevokedAt, KeyTerms: r.KeyTerms,
			Provisional: at.Provisional,
		})
		if l, limited := standing.KeyLimits.Of(r.ID, stateAt); limited {
			shown[len(shown)-1].Limit = &l
		}
	}
	return x.answer(http.StatusOK, at.markList(map[string]any{"keys": shown}))
}

func (x *exchange) issueKey(id string) error {
	in := struct {
		Kind apikey.Kind `json:"kind"`
		Name string      `json:"name"`
		account.KeyTerms
	}{Kind: apikey.Secret}
	if err := x.decode(&in); err != nil {
		return err
	}
	if in.Name != "" {
		if err := commands.CheckName("name", in.Name); err != nil {
			return err
		}
	}
	if err := x.needsKey(""); err != nil {
		return err
	}
	issued, err := x.api.Operations.Accounts.IssueKey(x.ctx, x.by(), id,
		operations.NewKey{Kind: in.Kind, Name: in.Name, Terms: in.KeyTerms})
	return replyOnce(x, http.StatusCreated, issued, err, func(k *operations.Key) { k.Key = "" })
}

func (x *exchange) issueLoginLink(id string) error {
	in := struct {
		Person string `json:"person"`
	}{signin.Owner}
	if err := x.decodeAny(&in); err != nil {
		return err
	}
	if in.Person == "" {
		return invalid("The field person is empty. Leave it out for the owner.")
	}
	issued, err := x.api.Operations.SignIns.IssueLink(x.ctx, x.by(), id, in.Person)
	return x.replyLink(issued, err)
}

func (x *exchange) signOut(id string) error {
	var in struct {
		Person string `json:"person"`
	}
	if err := x.decodeAny(&in); err != nil {
		return err
	}
	repeated, err := x.api.Operations.SignIns.SignOutEverywhere(x.ctx, x.by(), id, in.Person)
	if err := x.confirmed(err); err != nil {
		return err
	}
	return x.answer(http.StatusOK, map[string]any{"account": id, "repeated": repeated})
}

func (x *exchange) listSignInEmails(id string) error {
	all, err := x.api.Operations.SignIns.Emails(x.ctx, id)
	return x.reply(map[string]any{"sign_in_emails": append([]commands.Email{}, all...)}, err)
}

// setSignInEmail answers PUT /admin/accounts/{id}/sign-in-emails/{person}. The address is personal data, so it is not
// kept with the answer.
func (x *exchange) setSignInEmail(id string, in struct {
	Email string `json:"email"`
}) error {
	person := x.request.PathValue("person")
	_, err := x.api.Operations.SignIns.Commands.SetEmail(x.ctx, x.by(), signin.Person{AccountID: id, ID: person}, in.Email)
	return replyOnce[any](x, http.StatusOK, commands.Email{Person: person, Address: strings.ToLower(in.Email)}, err,
		func(kept *any) { *kept = map[string]string{"person": person} })
}

// keyOf returns the id of the key in the path, and its account.
func (x *exchange) keyOf() (id, accountID string, err error) {
	if err := x.folded(keys.Name); err != nil {
		return "", "", err
	}
	id = x.request.PathValue("id")
	key, found, err := x.api.Keys.Get(x.ctx, id)
	if err == nil && !found {
		err = notFound("There is no key %s. GET /admin/accounts/ID/keys lists the keys of an account.", id)
	}
	return id, key.AccountID, err
}

func (x *exchange) revokeKey() error {
	id, of, err := x.keyOf()
	if err := cmp.Or(x.noBody(), err); err != nil {
		return err
	}
	done, err := x.api.Writer.RevokeKey(x.ctx, commands.RevokeKey{Request: x.by(), AccountID: of, KeyID: id})
	return x.enforced(of, done, err)
}

// limitKey answers PUT /admin/keys/{id}/limit.
func (x *exchange) limitKey(in struct {
	Limit  *int64 `json:"limit"`
	Period string `json:"period"`
}) error {
	id, of, err := x.keyOf()
	if err == nil && in.Limit == nil {
		err = invalid("The field limit is missing. Send the credits that the key may spend, or 0 to remove its limit.")
	}
	if err != nil {
		return err
	}
	done, err := x.api.Writer.LimitKey(x.ctx, commands.LimitKey{Request: x.by(), AccountID: of, KeyID: id,
		Limit: *in.Limit, Period: cmp.Or(in.Period, account.KeyPeriods[0])})
	return x.reply(changeOf(of, done), err)
}

// listTokens answers GET /admin/tokens, the newest first.
func (x *exchange) listTokens() error {
	q := x.query("state", "scope", "limit", "cursor")
	s := operators.Selection{State: operators.State(q.oneOf("state", string(operators.Active),
		string(operators.Expired), string(operators.Revoked), string(operators.Ended))), Before: q.text("cursor")}
	s.Scope = operator.Scope(q.oneOf("scope", string(operator.Read), string(operator.Support), string(operator.Finance),
		string(operator.Admin)))
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	tokens, err := x.api.Operations.Tokens.List(x.ctx, s, limit+1)
	if errors.Is(err, operators.ErrNotFound) {
		return invalid(notCursor)
	}
	return x.reply(pageBefore("tokens", tokens, limit, func(t *operations.Token) any { return t.ID }), err)
}

func (x *exchange) issueToken(in struct {
	Name      string         `json:"name"`
	Scope     operator.Scope `json:"scope"`
	ExpiresAt time.Time      `json:"expires_at"`
}) error {
	if err := cmp.Or(commands.CheckName("name", in.Name), x.needsKey("")); err != nil {
		return err
	}
	issued, err := x.api.Operations.Tokens.Issue(x.ctx, x.by(), in.Name, in.Scope, in.ExpiresAt)
	return replyOnce(x, http.StatusCreated, issued, err, func(t *operations.Token) { t.Token, t.Name = "", "" })
}

func (x *exchange) issueOperatorLink(in struct {
	Operator string         `json:"operator"`
	Scope    operator.Scope `json:"scope"`
}) error {
	if err := commands.CheckName("operator", in.Operator); err != nil {
		return err
	}
	issued, err := x.api.Operations.Tokens.IssueLink(x.ctx, x.by(), in.Operator, in.Scope)
	return x.replyLink(issued, err)
}

func (x *exchange) replyLink(issued operations.LoginLink, err error) error {
	return replyOnce(x, http.StatusCreated, issued, err, func(l *operations.LoginLink) { l.URL = "" })
}

func (x *exchange) revokeToken() error {
	id := x.request.PathValue("id")
	q := x.query("erase_name")
	erase := q.flag("erase_name")
	if q.err != nil {
		return q.err
	}
	return x.revoke(id, erase)
}

func (x *exchange) revoke(id string, eraseName bool) error {
	if err := x.noBody(); err != nil {
		return err
	}
	repeated, err := x.api.Operations.Tokens.Revoke(x.ctx, x.by(), id)
	if err := x.confirmed(err); err != nil {
		return err
	}
	if eraseName {
		if err := x.api.Names.Erase(x.ctx, id); err != nil {
			return err
		}
	}
	return x.answer(http.StatusOK, map[string]any{"id": id, "repeated": repeated})
}
