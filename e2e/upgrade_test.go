package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"letterhead/internal/testwait"
)

// knownBrand is a brand of the starter index with a logo.
const knownBrand = "github.com"

func formatOf(t *testing.T, data string) int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(data, "format.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f struct{ Format int }
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	return f.Format
}

// A single process finishes an upgrade of its folder at its start, before it writes anything that earlier releases
// cannot read. Every release checks the folder's format first.
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

	// A folder of the previous release has the previous format.
	if err := os.WriteFile(filepath.Join(data, "format.json"), []byte(`{"format":1,"written_by":"v0.1.0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	n = start(t, data)
	if got := formatOf(t, data); got != version.Format {
		t.Errorf("after the start of this release the folder has format %d, want %d", got, version.Format)
	}
	n.want(http.StatusOK, "/v1/brands/"+knownBrand, secret)
}

// LETTERHEAD_TEST_PREVIOUS names the published binary of the previous release.
func TestUpgrade_FolderOfPublishedRelease_Works(t *testing.T) {
	previous := os.Getenv("LETTERHEAD_TEST_PREVIOUS")
	if previous == "" {
		t.Skip("LETTERHEAD_TEST_PREVIOUS does not name a binary of the previous release")
	}
	data := t.TempDir()
	n := launchRelease(t, previous, data)
	n.ready()
	customer, secret := account(t, data, "growth")
	n.want(http.StatusOK, "/v1/brands/"+knownBrand, secret)
	n.stop()

	// Reading and backing up the folder with this release does not change its format.
	copied, backup := filepath.Join(t.TempDir(), "data"), t.TempDir()
	for _, args := range [][]string{{"doctor"}, {"ledger", "verify"}, {"projections", "verify"}, {"ledger", "show", "--account", customer.Account.ID}, {"backup", backup}} {
		ok(t, data, args...)
	}
	if out, err := exec.Command(previous, "restore", backup, "--data", copied).CombinedOutput(); err != nil {
		t.Errorf("the previous release failed to restore the backup: %v\n%s", err, out)
	}
	for _, folder := range []string{data, copied} {
		before := launchRelease(t, previous, folder)
		before.ready()
		before.want(http.StatusOK, "/v1/brands/"+knownBrand, secret)
		before.stop()
	}

	n = start(t, data)
	n.want(http.StatusOK, "/v1/brands/"+knownBrand, secret)
	ok(t, data, "ledger", "verify")
	ok(t, data, "projections", "verify")
	// The new version is built next to the previous one, which is read meanwhile.
	_, built := testwait.Until(readyTimeout, func() bool {
		return strings.Contains(ok(t, data, "projections", "list", "--json"),
			`"name":"brands","state":"live","version":3003`)
	})
	if !built {
		t.Error("the version of the brands of this release was not built")
	}
	var keys []string
	for _, l := range ledgerOf(t, data, customer.Account.ID) {
		if l.Type == "CreditsCharged" {
			keys = append(keys, l.KeyID)
		}
	}
	if len(keys) != 3 || slices.Contains(keys, "") {
		t.Errorf("the charges name the keys %q, want three", keys)
	}
	n.stop()

	back := launchRelease(t, previous, data)
	<-back.done
	printed := back.out.String()
	if back.cmd.ProcessState.ExitCode() == 0 || !strings.Contains(printed, "use a newer release") {
		t.Errorf("the previous release ended with %d and printed: %s", back.cmd.ProcessState.ExitCode(), printed)
	}
	t.Logf("the previous release printed: %s", strings.TrimSpace(printed))
	again := start(t, data)
	again.want(http.StatusOK, "/v1/brands/"+knownBrand, secret)
}
