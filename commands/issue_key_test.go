package commands

import (
	"errors"
	"testing"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/eventschemas"
)

// Until an upgrade is finished, a key without terms is written so that nodes of the previous release can read it. They
// would ignore the terms of a key, so none is issued.
func TestIssueKey_DuringUpgrade_AcceptsNoTerms(t *testing.T) {
	w := newWorld(t)
	format := eventschemas.Format - 1
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{Encoder: eventschemas.NewEncoder(func() int { return format })}})
	id := w.opened(d, 0)
	issue := func(keyID string, terms account.KeyTerms) error {
		t.Helper()
		_, err := d.IssueKey(t.Context(), IssueKey{Request: w.request(), AccountID: id, KeyID: keyID, Key: testKey(t), Terms: terms})
		return err
	}
	terms := account.KeyTerms{ExpiresAt: time.Now().Add(24 * time.Hour)}
	if err := issue("k1", terms); !errors.Is(err, eventschemas.ErrNotYet) {
		t.Errorf("a key with terms: %v, want %v", err, eventschemas.ErrNotYet)
	}
	if err := issue("k2", account.KeyTerms{}); err != nil {
		t.Fatal(err)
	}
	format = eventschemas.Format
	if err := issue("k1", terms); err != nil {
		t.Fatal(err)
	}
	records, events := w.events(id)
	for i, want := range []struct {
		key     string
		version int
	}{{"k2", 1}, {"k1", 2}} {
		at := len(events) - 2 + i
		if got := events[at].(eventschemas.KeyIssued); got.KeyID != want.key || records[at].SchemaVersion != want.version {
			t.Errorf("event %d issues %s in version %d, want %s in version %d", at, got.KeyID, records[at].SchemaVersion, want.key, want.version)
		}
	}
}
