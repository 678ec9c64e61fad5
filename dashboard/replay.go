package dashboard

import (
	"net/http"

	"letterhead/dashboard/audit"
)

// showReplay answers GET /dashboard/replay: the account after an event, recomputed from the first one.
func (x *exchange) showReplay() error {
	r, err := x.Audit.Replay(x.Ctx, x.session.AccountID, x.Request.URL.Query().Get("at"))
	if err != nil {
		return err
	}
	if r.Stopped != nil {
		r.Uncompared = problemOf(r.Stopped).Title + "."
	}
	status := http.StatusOK
	if r.AtProblem != "" {
		status = http.StatusUnprocessableEntity
	}
	pages := x.base + "/dashboard"
	return x.show(status,
		"replay", view{Title: "Replay", Section: "Replay", Notice: x.noticeOf(r.Behind), Refresh: r.Refresh,
			Page: audit.ReplayPage{Replay: r, URL: pages + "/replay", Requests: pages + "/ledger",
				Statements: pages + "/statements"}})
}
