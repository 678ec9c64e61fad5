package operations

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"letterhead/domain/proof"
	"letterhead/internal/assets"
	"letterhead/internal/config"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
	"letterhead/projections/accounts"
	"letterhead/workers/checkpoint"
)

// keeper returns the checkpoints of an empty log, and the keys of a data folder.
func keeper(t *testing.T, settings ...string) *Checkpoints {
	t.Helper()
	values := map[string]string{"LETTERHEAD_DATA": t.TempDir(), "LETTERHEAD_BASE_URL": "https://brands.example.com"}
	for i := 0; i < len(settings); i += 2 {
		values[settings[i]] = settings[i+1]
	}
	cfg := testmust.Get(config.Load(func(string) (string, bool) { return "", false }, values))(t)
	log := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")}))(t)
	t.Cleanup(func() { log.Close() })
	return &Checkpoints{Log: log, Keys: &LedgerKeys{Config: cfg}}
}

func publicKeys(t *testing.T, n *Checkpoints) []string {
	t.Helper()
	text := testmust.Get(PublicLedgerKeys(n.Keys.Config))(t)
	return strings.Fields(text)
}

func TestLedgerKey_DataFolder_IsMadeOnceAndRotates(t *testing.T) {
	n := keeper(t)
	if keys := publicKeys(t, n); len(keys) != 0 {
		t.Fatalf("a new folder has the keys %q", keys)
	}
	first, err := n.Keys.Key("")
	if err != nil || first.Name() != "brands.example.com/ledger" {
		t.Fatalf("the first key: %v, %v", first, err)
	}
	if again, err := n.Keys.Key("brands.example.com/ledger"); err != nil || again.KeyHash() != first.KeyHash() {
		t.Errorf("the key changed: %v, %v", again, err)
	}
	if info, err := os.Stat(n.Keys.Config.LedgerKeyPath()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the key: %v, %v, want mode 0600", info, err)
	}
	if _, err := n.Keys.Key("other.example.com/ledger"); err == nil || !strings.Contains(err.Error(), "other.example.com/ledger") {
		t.Errorf("a key for another log: %v, want an error that names it", err)
	}
	old := publicKeys(t, n)
	public := testmust.Get(n.RotateKey(t.Context()))(t)
	if keys := publicKeys(t, n); len(keys) != 2 || keys[0] != public || keys[1] != old[0] {
		t.Errorf("after the rotation the keys are %q, want %q and %q", keys, public, old)
	}
	if second, err := n.Keys.Key("brands.example.com/ledger"); err != nil || second.KeyHash() == first.KeyHash() {
		t.Errorf("the key was not replaced: %v", err)
	}
}

func TestLedgerKey_PrivateKeyIsMissing_IsNotReplaced(t *testing.T) {
	n := keeper(t)
	if _, err := n.Keys.Key("brands.example.com/ledger"); !errors.Is(err, errLostLedgerKey) {
		t.Errorf("a ledger with checkpoints in a folder without a key: %v, want errLostLedgerKey", err)
	}
	testmust.Succeed(t, testmust.Err(n.Keys.Key("")))
	testmust.Succeed(t, os.Remove(n.Keys.Config.LedgerKeyPath()))
	old := publicKeys(t, n)
	if _, err := n.Keys.Key(""); !errors.Is(err, errLostLedgerKey) {
		t.Errorf("a folder with the public key alone: %v, want errLostLedgerKey", err)
	}
	public := testmust.Get(n.RotateKey(t.Context()))(t)
	if keys := publicKeys(t, n); len(keys) != 2 || keys[0] != public || keys[1] != old[0] {
		t.Errorf("after the rotation the keys are %q, want %q and %q", keys, public, old)
	}
	if _, err := n.Keys.Key("brands.example.com/ledger"); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
}

// TestRotateLedgerKey_AddressChanged_KeepsTheNameOfTheLog rotates with and without the old key.
func TestRotateLedgerKey_AddressChanged_KeepsTheNameOfTheLog(t *testing.T) {
	for _, lost := range []bool{false, true} {
		n := keeper(t)
		none := noAccounts{}
		maker := &checkpoint.Maker{Ledger: checkpoint.Ledger{Log: n.Log, Accounts: none, CaughtUp: none.CaughtUp, Keeper: testmust.Get(assets.Open(t.Context(), "file://"+t.TempDir()))(t),
			Keys: func() (note.Verifiers, error) { return LedgerVerifiers(n.Keys.Config) }}, Now: time.Now, Key: n.Keys.Key}
		testmust.Succeed(t, testmust.Err(maker.Make(t.Context())))
		if lost {
			testmust.Succeed(t, errors.Join(os.Remove(n.Keys.Config.LedgerKeyPath()), os.Remove(n.Keys.Config.LedgerKeysPath())))
		}
		n.Keys.Config.BaseURL = "https://new.example.com"
		public, err := n.RotateKey(t.Context())
		if err != nil || !strings.HasPrefix(public, "brands.example.com/ledger+") {
			t.Errorf("the new key: %q, %v, want one with the name of the log", public, err)
		}
		if keys := publicKeys(t, n); lost != (len(keys) == 1) {
			t.Errorf("old key lost: %t: the folder has the keys %q", lost, keys)
		}
		if _, err := maker.Make(t.Context()); err != nil {
			t.Errorf("the next checkpoint: %v", err)
		}
	}
}

// noAccounts is the list of a ledger without accounts.
type noAccounts struct{}

func (noAccounts) List(context.Context, string, int) ([]accounts.Account, error) { return nil, nil }

func (noAccounts) CaughtUp(context.Context) error { return nil }

func TestLedgerKey_Setting_IsUsedAndRemembered(t *testing.T) {
	private := testmust.Get(proof.NewKey("brands.example.com/ledger"))(t)
	public := testmust.Get(proof.PublicKey(private))(t)
	n := keeper(t, "LETTERHEAD_LEDGER_KEY", private)
	if keys := publicKeys(t, n); len(keys) != 1 || keys[0] != public {
		t.Errorf("keys %q, want %q", keys, public)
	}
	testmust.Succeed(t, testmust.Err(n.Keys.Key("")))
	if _, err := n.RotateKey(t.Context()); !errors.As(err, new(UsageError)) {
		t.Errorf("rotation of a setting: %v, want a UsageError", err)
	}
	n.Keys.Config.LedgerKey = "" // the next setting
	if keys := publicKeys(t, n); len(keys) != 1 || keys[0] != public {
		t.Errorf("the folder remembers %q, want %q", keys, public)
	}
	if _, err := os.Stat(n.Keys.Config.LedgerKeyPath()); err == nil {
		t.Error("the private key of the settings was written to the folder")
	}
}

func TestLedgerKey_SharedEventStore_NeedsTheSetting(t *testing.T) {
	n := keeper(t, "LETTERHEAD_EVENTSTORE", "esdb://events:2113?tls=false", "LETTERHEAD_DATABASE", "postgres://database/letterhead", "LETTERHEAD_ASSETS", "file:///assets")
	if _, err := n.Keys.Key(""); !errors.Is(err, ErrNoLedgerKey) {
		t.Errorf("a key without the setting: %v, want ErrNoLedgerKey", err)
	}
	if _, err := n.Keys.Key("brands.example.com/ledger"); !errors.Is(err, ErrNoLedgerKey) || !strings.Contains(err.Error(), "brands.example.com/ledger") {
		t.Errorf("a key for a migrated ledger without the setting: %v, want the name of the log", err)
	}
}
