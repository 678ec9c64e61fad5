package main

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"letterhead/domain/proof"
	"letterhead/eventschemas"
)

const account = "9f0c4a52-6f0e-4c35-9a55-1d1c2d3e4f51"

// written returns a proof of November that Letterhead wrote at a time, and its public key.
func written(t *testing.T, at time.Time) (file, key string) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	november := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var events []proof.Event
	var head proof.Hash
	for i, body := range []eventschemas.Event{
		eventschemas.AccountOpened{AccountID: account, Holder: "h", Plan: "free"},
		eventschemas.CreditsGranted{GrantID: "g", Kind: "topup", Credits: 50, PaymentID: "pi_1"},
		eventschemas.CreditsCharged{ChargeID: "c1", Credits: 2, RequestID: "r", BrandID: "b", Domain: "acme.com", RecordRevision: 1},
		eventschemas.CreditsCharged{ChargeID: "c2", Credits: 2, RequestID: "r", BrandID: "b", Domain: "acme.com", RecordRevision: 1},
		eventschemas.ChargeReversed{ChargeID: "c2", Credits: 2, RequestID: "r", Reason: "client_gone"},
		eventschemas.PaymentRefunded{RefundID: "re", PaymentID: "pi_1", Credits: 10},
	} {
		enc, err := eventschemas.Encode(body)
		ok(err)
		e := proof.Event{ChainLink: eventschemas.ChainLink{Stream: "account-" + account, Revision: uint64(i), EventID: uuid.NewSHA1(uuid.NameSpaceOID, []byte{byte(i)}),
			Type: enc.Type, SchemaVersion: enc.SchemaVersion, OccurredAt: november.AddDate(0, 0, 10*i-15), Actor: `operator:"é" <x>`, RequestID: fmt.Sprint(i), Data: enc.Data}}
		head = e.Next(head)
		e.Hash = head
		events = append(events, e)
	}
	leafHash := func(leaf []byte, err error) proof.Hash {
		t.Helper()
		ok(err)
		return proof.LeafHash(leaf)
	}
	p := &proof.Proof{Month: november, Index: 2, Account: proof.Account{ID: account, Revision: uint64(len(events) - 1), Head: head}}
	tree := []proof.Hash{{1}, {2}, leafHash(p.Account.Leaf()), {4}, {5}}
	var err error
	p.Accounts, err = proof.Path(tree, p.Index)
	ok(err)
	root, err := proof.Root(tree)
	ok(err)
	p.Checkpoint = proof.Checkpoint{Time: at, Position: 9, Accounts: uint64(len(tree)), Root: root}
	log := []proof.Hash{{6}, {7}, leafHash(p.Checkpoint.Leaf())}
	p.Log, err = proof.Path(log, 2)
	ok(err)
	private, err := proof.NewKey("brands.example.com/ledger")
	ok(err)
	signer, err := note.NewSigner(private)
	ok(err)
	sign := func(size int) *proof.Note {
		t.Helper()
		root, err := proof.Root(log[:size])
		ok(err)
		text, err := proof.Sign(signer, uint64(size), root)
		ok(err)
		n, err := proof.ParseNote(text)
		ok(err)
		return n
	}
	p.Note, p.Since = sign(3), sign(2)
	p.Consistency, err = proof.Consistency(log, 2)
	ok(err)
	key, err = proof.PublicKey(private)
	ok(err)
	var out bytes.Buffer
	ok(proof.Write(&out, p, all(events)))
	return out.String(), key
}

func all(events []proof.Event) iter.Seq2[proof.Event, error] {
	return func(yield func(proof.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestCheck_ProofOfLetterhead_IsRight(t *testing.T) {
	for _, at := range []time.Time{time.Date(2026, 11, 30, 23, 59, 59, 999999000, time.UTC), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)} {
		file, key := written(t, at)
		if err := check(file, key); err != nil {
			t.Errorf("the proof of %s: %v", at, err)
		}
	}
}

// TestCheck_Changed_IsFound changes each byte of what the program verifies.
func TestCheck_Changed_IsFound(t *testing.T) {
	file, key := written(t, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	since, log, statement := strings.Index(file, "since\n"), strings.Index(file, "log\n"), strings.Index(file, "\nstatement\n")
	for i := range file[:statement] {
		if i >= since && i < log {
			continue
		}
		for _, changed := range []string{file[:i] + string([]byte{file[i] ^ 1}) + file[i+1:], file[:i] + file[i+1:]} {
			if err := check(changed, key); err == nil {
				t.Errorf("byte %d (%q) was changed: no error", i, file[max(0, i-30):i+1])
			}
		}
	}
	for _, c := range [][2]string{{`balance": 48`, `balance": 49`}, {`"month": "2026-11"`, `"month": "2026-10"`}, {"month 2026-11", "month 2026-12"}, {"month 2026-11", "month 2026-11 provisional"}} {
		if changed := strings.Replace(file, c[0], c[1], 1); changed == file || check(changed, key) == nil {
			t.Errorf("%s was changed: no error", c[0])
		}
	}
	for _, c := range [][2]string{{`"id":"`, `"id":"-`}, {`"occurred_at":"2026-10-17T00:00:00.000000Z"`, `"occurred_at":"2026-10-17T00:00:00,000000Z"`}, {`"schema_version":`, `"schema_version":0`},
		{`"actor":"o`, `"actor":"\u006f`}, {`"request_id":"0"`, `"request_id":"\u0030"`}} {
		if changed := strings.Replace(file, c[0], c[1], 1); changed == file || check(changed, key) == nil {
			t.Errorf("%s was written as %s: no error", c[0], c[1])
		}
	}
	for _, changed := range []string{file + "x", file + "\n", file + file, strings.TrimSuffix(file, "\n")} {
		if check(changed, key) == nil {
			t.Errorf("the file ends with %q: no error", changed[len(changed)-10:])
		}
	}
	for _, bad := range []string{"", "+", "brands.example.com/ledger", "brands.example.com/ledger+", "brands.example.com/ledger+0", key[:len(key)-1]} {
		if err := check(file, bad); err == nil || !strings.Contains(err.Error(), "another key") {
			t.Errorf("the key %q: %v, want an error", bad, err)
		}
	}
	if _, other := written(t, time.Now()); check(file, other) == nil {
		t.Error("another key: no error")
	}
	lines := strings.SplitAfter(file, "\n")
	for i := range lines {
		if strings.HasPrefix(lines[i], `{"revision"`) && check(strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), ""), key) == nil {
			t.Errorf("line %d was left out: no error", i+1)
		}
	}
}
