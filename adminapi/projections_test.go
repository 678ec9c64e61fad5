package adminapi_test

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/domain/operator"
)

// The report of a rebuild has the rows that differed.
func TestRebuild_LiveTableWasChanged_ReportNamesTheRows(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	db, err := sql.Open("sqlite", filepath.Join(s.node.Config.Data, "letterhead.db"))
	s.must(err)
	defer db.Close()
	var table string
	s.must(db.QueryRow("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'accounts%' AND sql LIKE '%balance%' ORDER BY name DESC").Scan(&table))
	s.must(s.node.Operations.Reads.CatchUp(t.Context(), "accounts"))
	changed, err := db.Exec("UPDATE " + table + " SET balance = balance + 1")
	s.must(err)
	if rows, err := changed.RowsAffected(); err != nil || rows != 1 {
		t.Fatalf("%d rows are changed, %v; want 1", rows, err)
	}
	path := "/admin/projections/accounts/rebuild"
	s.send(request{method: "GET", path: path, token: s.tok[operator.Finance]}).rejected(http.StatusForbidden, "admin")
	s.post(path, "").want(http.StatusAccepted, nil)
	var last struct {
		Running bool
		Error   string
		Report  *struct {
			Rebuilt        string
			Compared, Same bool
			Tables         []struct {
				Changed int64
				First   []struct{ Key, Column, Live, Rebuilt string }
			}
		}
	}
	s.await(func() bool {
		s.get(path).want(http.StatusOK, &last)
		return !last.Running
	})
	if last.Error != "" || last.Report == nil || last.Report.Same || !last.Report.Compared || last.Report.Rebuilt != "live" {
		t.Fatalf("the rebuild ended with %+v", last)
	}
	first := last.Report.Tables[0].First
	if last.Report.Tables[0].Changed != 1 || len(first) != 1 || !strings.Contains(first[0].Key, id) || first[0].Column != "balance" || first[0].Live != "51" || first[0].Rebuilt != "50" {
		t.Errorf("the report has %+v", last.Report.Tables)
	}
}
