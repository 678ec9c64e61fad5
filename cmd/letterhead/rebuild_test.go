package main

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/internal/testmust"
)

func TestProjectionsRebuild_PrintsWhatDiffers(t *testing.T) {
	folder, id := openAccount(t)
	output(t, folder, "credits", "grant", "--account", id, "--amount", "1000", "--payment-id", "pi_1", "--money", "4900", "--currency", "EUR")
	if got := output(t, folder, "projections", "rebuild", "payments", "search"); !strings.Contains(got, "payments  the rebuilt model agrees with the live one at position") || !strings.Contains(got, "it is live\n  payments: 1 rows agree, 0 only in the live table") || !strings.Contains(got, "search    rebuilt, not compared\n") {
		t.Errorf("rebuild printed %s", got)
	}
	if got := output(t, folder, "projections", "list", "--json"); !strings.Contains(got, `"name":"payments","state":"live","version":3,"generation":2`) || strings.Contains(got, `"kept"`) {
		t.Errorf("after the rebuild: %s", got)
	}
	db := testmust.Get(sql.Open("sqlite", filepath.Join(folder, "letterhead.db")))(t)
	testmust.Succeed(t, testmust.Err(db.ExecContext(t.Context(), "UPDATE payments_v3_g2_payments SET money = 1")))
	testmust.Succeed(t, db.Close())
	var rebuilt struct {
		Name, Rebuilt  string
		Compared, Same bool
		Tables         []struct{ Same, Changed int64 }
	}
	testmust.Succeed(t, json.Unmarshal([]byte(output(t, folder, "projections", "rebuild", "payments", "--json")), &rebuilt))
	if rebuilt.Name != "payments" || rebuilt.Rebuilt != "live" || !rebuilt.Compared || rebuilt.Same || len(rebuilt.Tables) != 3 || rebuilt.Tables[0].Changed != 1 {
		t.Errorf("rebuild --json printed %+v", rebuilt)
	}
	if got := output(t, folder, "payment", "show", "pi_1", "--json"); !strings.Contains(got, "4900") {
		t.Errorf("after the rebuild the payment is %s", got)
	}
	for _, args := range [][]string{{"rebuild", "nope"}, {"rebuild"}, {"compare", "payments"}} {
		if code, stdout, stderr := commandLine(t.Context(), append(append([]string{"projections"}, args...), "--data", folder)...); code != exitUsage {
			t.Errorf("%v ended with %d: %s%s", args, code, stdout, stderr)
		}
	}
	if got := output(t, folder, "projections", "verify"); strings.Contains(got, "differs") {
		t.Errorf("verify printed %s", got)
	}
}
