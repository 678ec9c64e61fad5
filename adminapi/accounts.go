package adminapi

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/internal/accountnames"
	"letterhead/operations"
	"letterhead/projections/accounts"
)

func (x *exchange) listAccounts() error {
	q := x.query("q", "plan", "status", "from", "to", "sort", "as_of", "limit", "cursor")
	s := accounts.Selection{Plan: plan.ID(q.text("plan")), Status: account.Status(q.oneOf("status",
		string(account.Active), string(account.Suspended), string(account.Closed)))}
	s.Sort, s.Descending = q.order(accounts.Sorts)
	s.From, s.Until = q.period()
	limit, last, at, text := q.limit(), after[accounts.Account](q), q.moment(x.api.Now()), q.searched()
	if q.err != nil {
		return q.err
	}
	if err := x.checkPlan(s.Plan, true); err != nil {
		return err
	}
	rows, more, err := x.accounts(s, text, at, last, limit+1)
	if err != nil {
		return err
	}
	names, err := x.names(rows)
	if err != nil {
		return err
	}
	out, err := page("accounts", q, rows, limit, func(r *accounts.Account) any {
		object := at.Mark(map[string]any{
			"account": operations.Account{ID: r.ID, Name: names[r.Holder], Plan: string(r.Plan),
				Status: string(r.Status)},
			"credits": map[string]int64{"balance": r.Balance}, "opened_at": r.OpenedAt,
		})
		if !r.SpentMonth.IsZero() && at.IsZero() {
			object["spent"] = map[string]any{"month": r.SpentMonth.Format("2006-01"), "credits": r.Spent}
		}
		if !r.UsedAt.IsZero() && at.IsZero() {
			object["last_used_at"] = r.UsedAt
		}
		return object
	})
	if more {
		out["more"] = true
	}
	return x.reply(at.markList(out), err)
}

// names returns the names of accounts, by their holders.
func (x *exchange) names(rows []accounts.Account) (map[string]string, error) {
	return accountnames.NamesOf(x.ctx, x.api.Names, rows, func(a *accounts.Account) string { return a.Holder })
}

// accounts returns a page of the accounts, all or those that match a text, as they are or as they were at a moment, and
// whether more than these may match the text.
func (x *exchange) accounts(s accounts.Selection, text string, at Moment, last *accounts.Account,
	limit int) (page []accounts.Account, more bool, err error) {
	if !at.IsZero() && accounts.PresentOnly(s.Sort) {
		return nil, false, invalid("The parameter sort: %s is of the present. Leave out as_of.", s.Sort)
	}
	if !at.IsZero() || text != "" {
		return x.someAccounts(s, text, at.Time, last, limit)
	}
	if err := x.folded(accounts.Name); err != nil {
		return nil, false, err
	}
	page, err = x.api.Accounts.Select(x.ctx, s, last, limit)
	return page, false, err
}

func (x *exchange) getOutstanding() error {
	if err := x.folded(accounts.Name); err != nil {
		return err
	}
	rows, err := x.api.Accounts.Outstanding(x.ctx)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, r := range rows {
		total += r.Credits
	}
	return x.answer(http.StatusOK, map[string]any{"credits": total, "rows": append([]accounts.Outstanding{}, rows...)})
}

func (x *exchange) checkPlan(id plan.ID, optional bool) error {
	if id == "" && optional {
		return nil
	}
	if _, err := x.api.Plans.Get(id); err != nil {
		return invalid("%s.", sentence(err))
	}
	return nil
}

// folded waits until read models have folded what the log has now.
func (x *exchange) folded(names ...string) error {
	return x.api.Operations.Reads.Folded(x.ctx, names...)
}

func (x *exchange) explain(accountID string, err error) error {
	if errors.Is(err, account.ErrNotFound) || errors.Is(err, accounts.ErrNotFound) {
		return notFound("There is no account %s. GET /admin/accounts lists the accounts.", accountID)
	}
	return err
}

func (x *exchange) getAccount(id string) error {
	q := x.query("as_of")
	at := q.moment(x.api.Now())
	if q.err != nil {
		return q.err
	}
	if at.IsZero() {
		return x.reply(x.shownAccount(id))
	}
	return x.reply(x.pastAccount(id, at))
}

// shownAccount returns the present state of an account.
func (x *exchange) shownAccount(id string) (map[string]any, error) {
	standing, err := x.api.Writer.Standing(x.ctx, id)
	if err != nil {
		return nil, err
	}
	if err := x.folded(accounts.Name); err != nil {
		return nil, err
	}
	row, err := x.api.Accounts.Get(x.ctx, id)
	if err != nil {
		return nil, err
	}
	names, err := x.api.Names.Names(x.ctx, row.Holder)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"account": operations.Account{ID: id, Name: names[row.Holder], Plan: string(standing.Plan),
			Status: standing.Status},
		"credits": map[string]int64{"balance": standing.Balance, "remaining": standing.Remaining,
			"available": standing.Available},
		"lookups": map[string]any{"month": standing.Month, "count": standing.Lookups}, "open_holds": standing.OpenHolds,
		"opened_at": row.OpenedAt,
	}, nil
}

func (x *exchange) openAccount() error {
	in := struct {
		Name string  `json:"name"`
		Plan plan.ID `json:"plan"`
	}{Plan: plan.Free}
	if err := x.decode(&in); err != nil {
		return err
	}
	if err := cmp.Or(commands.CheckName("name", in.Name), x.checkPlan(in.Plan, false), x.needsKey("")); err != nil {
		return err
	}
	created, err := x.api.Operations.Accounts.Create(x.ctx, x.by(), in.Name, in.Plan)
	// With commands.ErrNotSeen the keys exist as well. Their texts are stored nowhere: only this answer has them.
	return replyOnce(x, http.StatusCreated, created, err, func(kept *operations.NewAccount) {
		kept.Account.Name, kept.Keys = "", slices.Clone(kept.Keys)
		for i := range kept.Keys {
			kept.Keys[i].Key = ""
		}
	})
}

// confirmed returns an error, unless it means that something was done and that not every node has confirmed it yet. Then
// it marks the answer.
func (x *exchange) confirmed(err error) error {
	if !errors.Is(err, commands.ErrNotSeen) {
		return err
	}
	x.Header().Set("X-Unconfirmed", "true")
	x.api.Logger.Warn("an action of an operator is recorded but not confirmed", "request_id", x.ID, "error", err)
	return nil
}

// enforced waits until API requests follow a decision about an account, and answers.
func (x *exchange) enforced(id string, done commands.Done, err error) error {
	if err != nil && !errors.Is(err, commands.ErrNotSeen) {
		return err
	}
	if unseen := x.api.Operations.Reads.AwaitKeys(x.ctx, done.Position); unseen != nil {
		err = errors.Join(err, commands.ErrNotSeen, unseen)
	}
	return x.reply(changeOf(id, done), x.confirmed(err))
}

func (x *exchange) changePlan(id string, in struct {
	Plan plan.ID `json:"plan"`
}) error {
	if err := x.checkPlan(in.Plan, false); err != nil {
		return err
	}
	done, err := x.api.Writer.ChangePlan(x.ctx, commands.ChangePlan{Request: x.by(), AccountID: id, Plan: in.Plan})
	return x.enforced(id, done, err)
}

func (x *exchange) suspendAccount(id string) error {
	reason, err := x.reason("")
	if err := cmp.Or(err, commands.CheckGiven(reason)); err != nil {
		return err
	}
	done, err := x.api.Writer.Suspend(x.ctx, commands.SuspendAccount{Request: x.by(), AccountID: id, Reason: reason})
	return x.enforced(id, done, err)
}

// reason returns the reason in the body, which may be missing.
func (x *exchange) reason(byDefault string) (string, error) {
	in := struct {
		Reason string `json:"reason"`
	}{byDefault}
	err := x.decodeAny(&in)
	return in.Reason, err
}

func (x *exchange) noteAccount(id string, in struct {
	Text string `json:"text"`
}) error {
	if err := x.needsKey(""); err != nil {
		return err
	}
	done, err := x.api.Writer.Note(x.ctx, commands.NoteAccount{Request: x.by(), AccountID: id, Text: in.Text})
	return x.reply(changeOf(id, done), err)
}

func (x *exchange) reinstateAccount(id string) error {
	done, err := x.api.Writer.Reinstate(x.ctx, commands.ReinstateAccount{Request: x.by(), AccountID: id})
	return x.enforced(id, done, err)
}

func (x *exchange) closeAccount(id string) error {
	if err := x.folded(accounts.Name); err != nil {
		return err
	}
	done, err := x.api.Operations.Accounts.Close(x.ctx, x.by(), id)
	return x.enforced(id, done, err)
}

func (x *exchange) getNotices(id string) error {
	return x.reply(x.api.Operations.Notices.Of(x.ctx, id))
}

// answerNotices answers a change with the notices of an account. Destinations are personal data, so they are not kept
// with the answer.
func (x *exchange) answerNotices(id string) error {
	out, err := x.api.Operations.Notices.Of(x.ctx, id)
	return replyOnce(x, http.StatusOK, out, err,
		func(n *operations.NoticeSettings) { n.Webhook, n.Email = "", "" })
}

// setNotices answers PUT /admin/accounts/{id}/notices. It removes the settings that the body does not have.
func (x *exchange) setNotices(id string) error {
	return x.replaceNotices(id, commands.SetNotices{LowBalance: new(int64), Webhook: new(string), Email: new(string)})
}

// changeNotices answers PATCH /admin/accounts/{id}/notices. It keeps the settings that the body does not have.
func (x *exchange) changeNotices(id string) error { return x.replaceNotices(id, commands.SetNotices{}) }

// replaceNotices replaces the settings that are in the body, or in set.
func (x *exchange) replaceNotices(id string, set commands.SetNotices) error {
	in := struct {
		LowBalance *int64  `json:"low_balance"`
		Webhook    *string `json:"webhook"`
		Email      *string `json:"email"`
	}{set.LowBalance, set.Webhook, set.Email}
	if err := x.decode(&in); err != nil {
		return err
	}
	set = commands.SetNotices{Request: x.by(), AccountID: id, LowBalance: cmp.Or(in.LowBalance, set.LowBalance),
		Webhook: cmp.Or(in.Webhook, set.Webhook), Email: cmp.Or(in.Email, set.Email)}
	if _, err := x.api.Operations.Notices.Set(x.ctx, set); err != nil {
		return err
	}
	return x.answerNotices(id)
}

func (x *exchange) retryNotice(id string) error {
	notice := x.request.PathValue("notice")
	if _, err := x.api.Operations.Notices.Retry(x.ctx, x.by(), id, notice); err != nil {
		return err
	}
	return x.answerNotices(id)
}
