package adminapi_test

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"letterhead/domain/books"
	"letterhead/domain/operator"
)

func TestCloseMonth_EndedMonth_IsClosedOnce(t *testing.T) {
	s := start(t)
	s.open("Acme")
	month := books.MonthOf(s.node.Now())
	name := func(months int) string { return month.AddDate(0, months, 0).Format(books.MonthLayout) }
	closing := func(months int) string { return "/admin/books/" + name(months) + "/close" }

	s.post(closing(0), "").rejected(http.StatusConflict, name(0)+" was not closed: "+name(0)+" has not ended")
	s.post(closing(-1), "").rejected(http.StatusConflict, "before the first event")
	s.post("/admin/books/november/close", "").rejected(http.StatusBadRequest, "2026-11")
	s.send(request{method: "POST", path: closing(0), token: s.tok[operator.Support]}).rejected(http.StatusForbidden, "finance")

	s.ahead.Store(int64(time.Until(month.AddDate(0, 2, 3)))) // the next month has ended
	s.post(closing(1), "").rejected(http.StatusConflict, name(0)+" must be closed first")
	type period struct {
		Month, State, Digest string
		Repeated             bool
	}
	var first, again period
	s.send(request{method: "POST", path: closing(0), token: s.tok[operator.Finance]}).want(http.StatusOK, &first)
	s.post(closing(0), "").want(http.StatusOK, &again)
	if first.Month != name(0) || first.State != "closed" || first.Digest == "" || first.Repeated || !again.Repeated || again.Digest != first.Digest {
		t.Errorf("closed %+v, then %+v", first, again)
	}
	var listed struct{ Months []period }
	s.get("/admin/books/months").want(http.StatusOK, &listed)
	if len(listed.Months) != 3 || listed.Months[0] != first || listed.Months[1].State != "open" {
		t.Errorf("the months are %+v", listed.Months)
	}

	// A ledger with a fault does not close.
	db, err := sql.Open("sqlite", filepath.Join(s.node.Config.Data, "letterhead.db"))
	s.must(err)
	defer db.Close()
	var table string
	s.must(db.QueryRow("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'accounts%' AND sql LIKE '%balance%' ORDER BY name DESC").Scan(&table))
	_, err = db.Exec("UPDATE " + table + " SET balance = balance + 1")
	s.must(err)
	s.post(closing(1), "").rejected(http.StatusConflict, name(1)+" was not closed: the ledger has 1 fault(s)")
}
