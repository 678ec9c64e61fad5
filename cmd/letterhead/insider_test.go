package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

// signedFolder makes a data folder with accounts, whose first month is closed, and two checkpoints.
func signedFolder(t *testing.T) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "data")
	output(t, folder, "dev", "generate", "--accounts", "5", "--events", "300", "--until", "2026-06", "--months", "4")
	output(t, folder, "books", "close", "2026-03")
	output(t, folder, "ledger", "checkpoint")
	output(t, folder, "ledger", "checkpoint")
	return folder
}

// A folder of the release before has checkpoints in its log, and none outside it.
func TestLedgerVerify_FolderOfTheReleaseBefore_Holds(t *testing.T) {
	folder := signedFolder(t)
	testmust.Succeed(t, os.RemoveAll(filepath.Join(folder, "checkpoints")))
	if text := output(t, folder, "ledger", "verify"); !strings.Contains(text, "only the root of checkpoint 2 was compared") {
		t.Errorf("ledger verify: %s", text)
	}
	if text := output(t, folder, "doctor"); !strings.Contains(text, "the accounts of the last checkpoint are not kept") {
		t.Errorf("doctor: %s", text)
	}
	output(t, folder, "books", "close", "2026-04")
	output(t, folder, "ledger", "key", "--rotate")
	output(t, folder, "ledger", "checkpoint")
	for _, args := range []string{"ledger verify", "doctor"} {
		if text := output(t, folder, strings.Fields(args)...); !strings.Contains(text, "5 account(s) are as they were signed in checkpoint 3") {
			t.Errorf("%s: %s", args, text)
		}
	}
	if text := output(t, folder, "ledger", "verify", "--json"); !strings.Contains(text, `"signed":"5 account(s)`) {
		t.Errorf("ledger verify --json: %s", text)
	}
}

// rewrite changes an account's first grant in the event store, computes the hashes of its chain again, and deletes
// everything in which the log is remembered; without checkpoints also those in the log.
func rewrite(t *testing.T, folder string, checkpoints bool) (accountID string) {
	t.Helper()
	stream := ""
	replay(t, folder, func(rec *eventlog.Recorded, p *eventlog.Proposed) bool {
		grant, ok := testmust.Get(eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data))(t).(eventschemas.CreditsGranted)
		if ok && stream == "" {
			grant.Credits += 1000
			p.Data, stream = testmust.Get(eventschemas.Encode(grant))(t).Data, rec.Stream
		}
		return checkpoints || rec.Stream != eventschemas.CheckpointsStream
	})
	if stream == "" {
		t.Fatal("no account has a grant")
	}
	return strings.TrimPrefix(stream, account.StreamPrefix)
}

// replay rewrites the event store, with the events that change keeps and may change, computes the hashes of all chains
// again, and deletes everything else in which the log is remembered.
func replay(t *testing.T, folder string, change func(*eventlog.Recorded, *eventlog.Proposed) bool) {
	t.Helper()
	path := filepath.Join(folder, "events.db")
	from := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: path}))(t)
	all := testmust.Get(from.ReadAll(t.Context(), 0, eventlog.Filter{}, 1000))(t)
	forged := filepath.Join(t.TempDir(), "events.db")
	to := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: forged}))(t)
	heads := map[string]eventschemas.Hash{}
	for i := range all.Events {
		rec := &all.Events[i]
		p := eventlog.Proposals(all.Events[i : i+1])[0]
		if !change(rec, &p) {
			continue
		}
		if strings.HasPrefix(rec.Stream, account.StreamPrefix) {
			heads[rec.Stream] = commands.Chain.Link(heads[rec.Stream], rec.Stream, rec.Revision, &p)
		}
		testmust.Succeed(t, testmust.Err(to.Append(t.Context(), rec.Stream, eventlog.After(rec.Revision), []eventlog.Proposed{p})))
	}
	testmust.Succeed(t, errors.Join(from.Close(), to.Close(), os.Rename(forged, path), os.Remove(filepath.Join(folder, "events.head")),
		os.Remove(filepath.Join(folder, "letterhead.db")), os.RemoveAll(filepath.Join(folder, "search"))))
}

// No checkpoint is kept, as after an upgrade, a restore or a migration.
func TestInsider_DeletesAnAccount_IsRefusedWithoutKeptCheckpoints(t *testing.T) {
	folder := signedFolder(t)
	testmust.Succeed(t, os.RemoveAll(filepath.Join(folder, "checkpoints")))
	deleted := ""
	replay(t, folder, func(rec *eventlog.Recorded, _ *eventlog.Proposed) bool {
		if deleted == "" && strings.HasPrefix(rec.Stream, account.StreamPrefix) {
			deleted = rec.Stream
		}
		return rec.Stream != deleted
	})
	for _, args := range []string{"ledger verify", "books close 2026-04", "ledger checkpoint"} {
		said := ends(t, append(strings.Fields(args), "--data", folder), exitLoss, "changed after it was signed", "may have been carried out")
		if !strings.Contains(said, "4 of 5 accounts of checkpoint 2") {
			t.Errorf("%s: %s", args, said)
		}
	}
}

// Given a signed ledger, when an insider rewrites a grant with its chain, then every command that would sign or close the
// history, or vouch for it, refuses, until an operator decides.
func TestInsider_RewritesAGrant_IsRefusedAtEachStep(t *testing.T) {
	for name, checkpoints := range map[string]bool{"checkpoints are left": true, "checkpoints are dropped": false} {
		t.Run(name, func(t *testing.T) {
			folder := signedFolder(t)
			id := rewrite(t, folder, checkpoints)
			steps := []string{"ledger verify", "books close 2026-04", "ledger checkpoint",
				"ledger prove --account " + id + " --month 2026-04 -o " + filepath.Join(t.TempDir(), "proof.txt")}
			for range 2 {
				for _, args := range steps {
					said := ends(t, append(strings.Fields(args), "--data", folder), exitLoss, "account "+id, "may have been carried out")
					if !strings.Contains(said, "revision") || !strings.Contains(said, "changed after it was signed") {
						t.Errorf("%s: %s", args, said)
					}
				}
				if code, stdout, _ := commandLine(t.Context(), "doctor", "--data", folder); code == exitOK || !strings.Contains(stdout, "account "+id) {
					t.Errorf("doctor ended with %d: %s", code, stdout)
				}
			}
			if text := output(t, folder, "books", "status"); strings.Count(text, "closed") != 1 {
				t.Errorf("months: %s; want one closed month", text)
			}
			output(t, folder, "ledger", "checkpoint", "--accept-changes", "an import was repaired")
			if text := output(t, folder, "events", "tail", "--from", "0", "--type", "LossAccepted", "--no-follow"); !strings.Contains(text, "an import was repaired") {
				t.Errorf("the events: %s; want the operator's reason", text)
			}
			output(t, folder, "ledger", "checkpoint")
			output(t, folder, "ledger", "verify")
		})
	}
}

// An insider replaces the log, its checkpoints and what is kept beside it, and has the key: the witness differs.
func TestInsider_RewritesEverything_TheWitnessDiffers(t *testing.T) {
	witness := filepath.Join(t.TempDir(), "witness.txt")
	t.Setenv("LETTERHEAD_WITNESSES", witness)
	folder := signedFolder(t)
	if text := testmust.Get(os.ReadFile(witness))(t); strings.Count(string(text), "/ledger\n") != 2 {
		t.Fatalf("the witness has %q, want two checkpoints", text)
	}
	if text := output(t, folder, "doctor"); !strings.Contains(text, witness+" has every checkpoint") {
		t.Errorf("doctor: %s", text)
	}
	if text := output(t, folder, "ledger", "verify", "--against", witness); !strings.Contains(text, "the log has the 2 checkpoint(s)") {
		t.Errorf("ledger verify --against: %s", text)
	}
	id := rewrite(t, folder, false)
	ends(t, []string{"ledger", "verify", "--account", id, "--data", folder}, exitLoss, "account "+id, "")
	testmust.Succeed(t, os.RemoveAll(filepath.Join(folder, "checkpoints")))
	ends(t, []string{"ledger", "verify", "--against", witness, "--data", folder}, exitLoss, "checkpoint 1, which the witness keeps", "")
	if code, stdout, _ := commandLine(t.Context(), "doctor", "--data", folder); code == exitOK || !strings.Contains(stdout, "which needs another witness") {
		t.Errorf("doctor ended with %d: %s", code, stdout)
	}
	before := testmust.Get(os.ReadFile(witness))(t)
	output(t, folder, "ledger", "checkpoint")
	if after := testmust.Get(os.ReadFile(witness))(t); string(after) != string(before) {
		t.Errorf("the witness has %q, want it unchanged", after)
	}
	t.Setenv("LETTERHEAD_WITNESSES", "none") // the insider's own settings
	output(t, folder, "ledger", "checkpoint")
	ends(t, []string{"ledger", "verify", "--against", witness, "--data", folder}, exitLoss, "checkpoint 1, which the witness keeps", "")
	ends(t, []string{"ledger", "verify", "--against", filepath.Join(folder, "events.db"), "--data", folder}, exitFailure, "name another file", "")
	ends(t, []string{"ledger", "verify", "--against", witness, "--account", id, "--data", folder}, exitUsage, "leave out --account", "")
}

func TestLedgerVerify_Account_IsComparedWithWhatWasSigned(t *testing.T) {
	folder := signedFolder(t)
	id := rewrite(t, folder, true)
	ends(t, []string{"ledger", "verify", "--account", id, "--data", folder}, exitLoss, "account "+id, "")
	output(t, folder, "ledger", "checkpoint", "--accept-changes", "an import was repaired")
	if text := output(t, folder, "ledger", "verify", "--account", id); !strings.Contains(text, "the account is as it was signed, up to revision") {
		t.Errorf("ledger verify --account: %s", text)
	}
}
