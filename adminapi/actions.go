package adminapi

import (
	"net/http"
	"strconv"

	"letterhead/projections/actions"
)

// listActions answers GET /admin/actions, the newest first.
func (x *exchange) listActions() error {
	q := x.query("actor", "stream", "limit", "cursor")
	f, limit := actions.Filter{Actor: q.text("actor"), Stream: q.text("stream")}, q.limit()
	var before uint64
	if text := q.text("cursor"); text != "" {
		var err error
		if before, err = strconv.ParseUint(text, 10, 62); err != nil || before == 0 {
			return invalid("The parameter cursor is not a next_cursor of an answer.")
		}
	}
	if q.err != nil {
		return q.err
	}
	if err := x.api.Operations.Folded(x.ctx, actions.Name); err != nil {
		return err
	}
	rows, err := x.api.Actions.List(x.ctx, f, before, limit+1)
	if err != nil {
		return err
	}
	out := map[string]any{}
	if len(rows) > limit {
		rows = rows[:limit]
		out["next_cursor"] = strconv.FormatUint(rows[limit-1].Position, 10)
	}
	out["actions"] = append([]actions.Action{}, rows...)
	return x.answer(http.StatusOK, out)
}
