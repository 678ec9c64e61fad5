package adminapi

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/faults"
	"letterhead/projections/accounts"
	"letterhead/projections/actions"
	"letterhead/projections/failures"
)

// listActions answers GET /admin/actions, the newest first.
func (x *exchange) listActions() error {
	q := x.query("actor", "stream", "from", "to", "limit", "cursor")
	f, limit, before := actions.Filter{Actor: q.text("actor"), Stream: q.text("stream")}, q.limit(), q.before()
	f.From, f.Until = q.period()
	if err := x.read(q, actions.Name); err != nil {
		return err
	}
	rows, err := x.api.Actions.List(x.ctx, f, before, limit+1)
	if err != nil {
		return err
	}
	subject := func(a *actions.Action) string { return strings.TrimPrefix(a.Stream, account.StreamPrefix) }
	accountNames, err := accountNames(x, rows, subject)
	if err != nil {
		return err
	}
	named := make([]Action, len(rows))
	names := actorNames(x, rows, func(a *actions.Action) string { return a.Actor })
	for i, a := range rows {
		named[i] = Action{a, Words(a.Type), names[a.Actor], accountNames[subject(&a)]}
	}
	return x.reply(pageBefore("actions", named, limit, func(a *Action) any { return a.Position }), nil)
}

// Words returns the type of an event in words: that of CreditsGranted is Credits granted.
func Words(eventType string) string {
	return eventType[:1] + strings.ToLower(capitals.ReplaceAllString(eventType[1:], " $0"))
}

var capitals = regexp.MustCompile("[A-Z]")

// actorNames returns the names of the operators who caused some rows by their actors, if the token may list tokens.
// Without the names, the answer has their ids.
func actorNames[T any](x *exchange, rows []T, actor func(*T) string) map[string]string {
	actors, ids := map[string]string{}, []string(nil)
	for i := range rows {
		if id, ok := strings.CutPrefix(actor(&rows[i]), "operator:"); ok && allows(x.token.Scope, everything) {
			ids = append(ids, id)
		}
	}
	names, err := x.api.Names.Names(x.ctx, ids...)
	if err != nil {
		x.api.Logger.WarnContext(x.ctx, "the names of operators cannot be read; the answer has their ids",
			"request_id", x.ID, "error", err)
	}
	for id, name := range names {
		actors["operator:"+id] = name
	}
	return actors
}

// accountNames returns the names of the accounts of some rows, by their ids; none while the accounts are not ready.
func accountNames[T any](x *exchange, rows []T, account func(*T) string) (map[string]string, error) {
	keys := make([]any, len(rows))
	for i := range rows {
		keys[i] = account(&rows[i])
	}
	err := x.folded(accounts.Name)
	var known map[string]*accounts.Account
	if err == nil {
		known, err = x.api.Accounts.Find(x.ctx, keys)
	}
	if err != nil && !faults.NotReady(err) {
		return nil, err
	}
	var found []accounts.Account
	for id, a := range known {
		if id == a.ID {
			found = append(found, *a)
		}
	}
	held, err := x.names(found)
	names := map[string]string{}
	for _, a := range found {
		names[a.ID] = held[a.Holder]
	}
	return names, err
}

// listFailures answers GET /admin/crawls/failures, the newest first.
func (x *exchange) listFailures() error {
	q := x.query("outcome", "domain", "from", "to", "limit", "cursor")
	f := failures.Filter{Outcome: q.oneOf("outcome", brand.Failures...)}
	f.Domain, f.DomainPart = q.domain()
	f.From, f.Until = q.period()
	limit, before := q.limit(), q.before()
	if err := x.read(q, failures.Name); err != nil {
		return err
	}
	rows, err := x.api.Failures.List(x.ctx, f, before, limit+1)
	return x.reply(pageBefore("failures", rows, limit, func(f *failures.Failure) any { return f.Position }), err)
}

// before returns the position of the log before which a page begins; 0 for the first page.
func (q *parameters) before() uint64 {
	text := q.text("cursor")
	if text == "" {
		return 0
	}
	before, err := strconv.ParseUint(text, 10, 62)
	q.reject(err != nil || before == 0, notCursor)
	return before
}

// pageBefore returns the answer for a page of rows, the newest first, whose cursor is the place of its last row. rows
// has one more row than the limit if there are more.
func pageBefore[T any](name string, rows []T, limit int, place func(*T) any) map[string]any {
	out := map[string]any{}
	if len(rows) > limit {
		rows = rows[:limit]
		out["next_cursor"] = fmt.Sprint(place(&rows[limit-1]))
	}
	out[name] = append([]T{}, rows...)
	return out
}
