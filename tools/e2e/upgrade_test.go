package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/internal/testmust"
)

// knownBrand is a brand of the starter index with a logo.
const knownBrand = "github.com"

func formatOf(t *testing.T, data string) int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(data, "format.json"))
	testmust.Succeed(t, err)
	var f struct{ Format int }
	testmust.Succeed(t, json.Unmarshal(raw, &f))
	return f.Format
}

// A single process finishes an upgrade of its folder at its start, before it writes anything that earlier releases
// cannot read. Every release checks the folder's format first.
// Rule 8.
func TestUpgrade_OneFolder_FinishesAtStart(t *testing.T) {
	data := folder(t)
	n := start(t, data)
	customer, secret := account(t, data, "growth")
	n.want(http.StatusOK, "/v1/brands/"+knownBrand, secret)
	var version struct {
		Format int `json:"data_format"`
	}
	decode(t, ok(t, data, "version", "--json"), &version)
	if got := formatOf(t, data); got != version.Format || got < 2 {
		t.Errorf("the folder has format %d, want %d, the format of this release", got, version.Format)
	}
	if printed := ok(t, data, "upgrade", "finish"); !strings.Contains(printed, "no upgrade is under way") {
		t.Errorf("upgrade finish printed %q", printed)
	}
	lines := ledgerOf(t, data, customer.Account.ID)
	if last := lines[len(lines)-1]; last.Type != "CreditsCharged" || last.KeyID == "" {
		t.Errorf("the last ledger line is %+v, want a charge with a key", last)
	}
	n.stop()

	// A folder of an earlier release has an earlier format.
	if err := os.WriteFile(filepath.Join(data, "format.json"), []byte(`{"format":1,"written_by":"earlier"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	n = start(t, data)
	if got := formatOf(t, data); got != version.Format {
		t.Errorf("after the start of this release the folder has format %d, want %d", got, version.Format)
	}
	n.want(http.StatusOK, "/v1/brands/"+knownBrand, secret)
}
