package commands

import (
	"testing"

	"letterhead/commands/streamwriter"
	"letterhead/eventschemas"
)

// Until an upgrade is finished, charges are written in the version of the previous release. The hash chain covers the
// stored data, so it is valid across events of both versions, both for the writer that wrote them and for a reader.
func TestChargesOfTwoVersions_ShareOneChain(t *testing.T) {
	w := newWorld(t)
	format := eventschemas.Format - 1
	events := eventschemas.NewEncoder(func() int { return format })
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{Encoder: events}})
	id := w.opened(d, 0)
	charge := func(d *AccountWriter) {
		t.Helper()
		in := w.lookup(id)
		in.KeyID = "key-1"
		if _, err := d.ChargeLookup(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	charge(d)
	format = eventschemas.Format
	charge(d)
	w.drain(d)
	charge(w.writer(AccountWriterConfig{Config: streamwriter.Config{Encoder: events}}))
	records, decoded := w.events(id)
	for i, want := range []struct {
		version int
		key     string
	}{{1, ""}, {2, "key-1"}, {2, "key-1"}} {
		record, body := records[2+i], decoded[2+i].(eventschemas.CreditsCharged)
		if record.SchemaVersion != want.version || body.KeyID != want.key {
			t.Errorf("charge %d has version %d and names the key %q, want %d and %q", i, record.SchemaVersion, body.KeyID, want.version, want.key)
		}
		if err := eventschemas.ValidateJSON(record.Type, record.SchemaVersion, record.Data); err != nil {
			t.Error(err)
		}
	}
	if n, err := streamwriter.VerifyChain(t.Context(), w.log, "account-"+id); n != len(records) || err != nil {
		t.Errorf("%d of %d events verified: %v", n, len(records), err)
	}
}
