package adminapi

import (
	"net/http"
	"strconv"
	"strings"

	"letterhead/domain/brand"
	"letterhead/projections/actions"
	"letterhead/projections/failures"
)

// listActions answers GET /admin/actions, the newest first.
func (x *exchange) listActions() error {
	q := x.query("actor", "stream", "limit", "cursor")
	f, limit, before := actions.Filter{Actor: q.text("actor"), Stream: q.text("stream")}, q.limit(), q.before()
	if err := x.read(q, actions.Name); err != nil {
		return err
	}
	rows, err := x.api.Actions.List(x.ctx, f, before, limit+1)
	if err != nil {
		return err
	}
	named := make([]Action, len(rows))
	var ids []string
	for i, a := range rows {
		named[i].Action = a
		if id, ok := strings.CutPrefix(a.Actor, "operator:"); ok && allows(x.token.Scope, everything) {
			ids = append(ids, id)
		}
	}
	names, err := x.api.Names.Names(x.ctx, ids...)
	if err != nil {
		x.api.Logger.WarnContext(x.ctx, "the names of operators cannot be read; the answer has their ids",
			"request_id", x.ID, "error", err)
	}
	for i := range named {
		named[i].ActorName = names[strings.TrimPrefix(named[i].Actor, "operator:")]
	}
	return x.answer(http.StatusOK,
		pageBefore("actions", named, limit, func(a *Action) uint64 { return a.Position }))
}

// listFailures answers GET /admin/crawls/failures, the newest first.
func (x *exchange) listFailures() error {
	q := x.query("outcome", "limit", "cursor")
	outcome, limit, before := q.oneOf("outcome", brand.Failures...), q.limit(), q.before()
	if err := x.read(q, failures.Name); err != nil {
		return err
	}
	rows, err := x.api.Failures.List(x.ctx, outcome, before, limit+1)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK,
		pageBefore("failures", rows, limit, func(f *failures.Failure) uint64 { return f.Position }))
}

// before returns the position of the log before which a page begins; 0 for the first page.
func (q *parameters) before() uint64 {
	text := q.text("cursor")
	if text == "" {
		return 0
	}
	before, err := strconv.ParseUint(text, 10, 62)
	if (err != nil || before == 0) && q.err == nil {
		q.err = invalid("The parameter cursor is not a next_cursor of an answer.")
	}
	return before
}

// pageBefore returns the answer for a page of rows in the descending order of their positions in the log. rows has one
// more row than the limit if there are more.
func pageBefore[T any](name string, rows []T, limit int, position func(*T) uint64) map[string]any {
	out := map[string]any{}
	if len(rows) > limit {
		rows = rows[:limit]
		out["next_cursor"] = strconv.FormatUint(position(&rows[limit-1]), 10)
	}
	out[name] = append([]T{}, rows...)
	return out
}
