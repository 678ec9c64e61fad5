package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// liveTable returns the name of a live table of a read model.
func liveTable(t *testing.T, db *sql.DB, model, table string) string {
	t.Helper()
	var version, generation int
	err := db.QueryRow(`SELECT fold_version, generation FROM projections_registry WHERE name = ? AND state = 'live'`,
		model).Scan(&version, &generation)
	testmust.Succeed(t, err)
	return fmt.Sprintf("%s_v%d_g%d_%s", model, version, generation, table)
}

// TestServe_RowsChangedUnderneath_AreRepaired changes a record and revokes a key in the database of a running server.
func TestServe_RowsChangedUnderneath_AreRepaired(t *testing.T) {
	data := folder(t)
	n := start(t, data, "LETTERHEAD_SCRUB_PERCENT=50")
	_, key := account(t, data, "custom")
	name := func() string {
		t.Helper()
		a, err := n.get("/v1/brands/gitlab.com", key)
		if err != nil || a.status != http.StatusOK {
			return fmt.Sprint(a.status, err)
		}
		_, rest, _ := strings.Cut(string(a.body), `"name":"`)
		name, _, _ := strings.Cut(rest, `"`)
		return name
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(data, "letterhead.db")+"?_pragma=busy_timeout(20000)")
	testmust.Succeed(t, err)
	defer db.Close()
	brands, keys := liveTable(t, db, "brands", "brands"), liveTable(t, db, "keys", "keys")
	if _, err := db.Exec(`UPDATE ` + brands + ` SET body = CAST(replace(CAST(body AS TEXT), 'GitLab', 'FitLab') AS BLOB)
		WHERE domain = 'gitlab.com'`); err != nil {
		t.Fatal(err)
	}
	name() // the wrong record is in the cache
	if _, err := db.Exec(`UPDATE ` + keys + ` SET revoked_at = 1`); err != nil {
		t.Fatal(err)
	}
	repaired := func() bool {
		var revoked, wrong int
		err := db.QueryRow(`SELECT (SELECT count(*) FROM `+keys+` WHERE revoked_at IS NOT NULL),
			(SELECT count(*) FROM `+brands+
			` WHERE CAST(body AS TEXT) LIKE '%FitLab%')`).Scan(&revoked, &wrong)
		return err == nil && revoked+wrong == 0
	}
	if _, ok := testwait.Until(readyTimeout, repaired); !ok {
		t.Fatalf("the rows were not repaired; the server printed:\n%s", n.out)
	}
	if _, ok := testwait.Until(readyTimeout, func() bool { return name() == "GitLab" }); !ok {
		t.Errorf("the record is served as %q after the scrub, want GitLab", name())
	}
	doctor := ok(t, data, "doctor")
	if !strings.Contains(doctor, "rows differed and were repaired") {
		t.Errorf("doctor does not report the repair:\n%s", doctor)
	}
	if !strings.Contains(n.out.String(), "rows of a read model differ from the event log") {
		t.Error("the log does not report the difference")
	}
}
