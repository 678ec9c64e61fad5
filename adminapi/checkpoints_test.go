package adminapi_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/operator"
	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/operations"
)

func TestCheckpoints_AreMadeSignedAndListed(t *testing.T) {
	s := start(t)
	s.open("Acme")
	type made struct {
		Checkpoint struct {
			Origin, Root string
			Size         uint64
			Accounts     uint64
		}
		Note string
	}
	type listing struct {
		Checkpoints []struct {
			Origin, Root, Note string
			Size               uint64
		}
		NextCursor string `json:"next_cursor"`
	}
	const path = "/admin/ledger/checkpoints"
	list := func(query string) (l listing) {
		t.Helper()
		s.send(request{method: "GET", path: path + query, token: s.tok[operator.Read]}).want(http.StatusOK, &l)
		return l
	}
	if l := list(""); len(l.Checkpoints) != 0 {
		t.Fatalf("a new ledger has the checkpoints %+v", l)
	}

	var first, again, second, last made
	making := request{method: "POST", path: path, key: "first", token: s.tok[operator.Finance]}
	s.send(making).want(http.StatusOK, &first)
	if a := s.send(making).want(http.StatusOK, &again); a.header.Get("Idempotency-Replayed") != "true" || again != first {
		t.Errorf("the repeat is %+v, want %+v", again, first)
	}
	text, err := operations.PublicLedgerKeys(s.node.Config)
	s.must(err)
	keys, err := proof.ParseKeys(text)
	s.must(err)
	if n, err := proof.Open(first.Note, keys); err != nil || n.Size != 1 || n.Origin != first.Checkpoint.Origin || fmt.Sprintf("%x", n.Root) != first.Checkpoint.Root || first.Checkpoint.Accounts != 1 {
		t.Errorf("the first checkpoint is %+v, its note %+v, %v", first, n, err)
	}

	s.send(request{method: "POST", path: path, body: `{"since":"2020-01"}`}).want(http.StatusOK, &again)
	if again != first {
		t.Errorf("a checkpoint that was not needed: %+v, want %+v", again, first)
	}
	s.post(path, `{}`).want(http.StatusOK, &second)
	s.send(request{method: "POST", path: path, body: `{"since":"2999-01-01"}`}).want(http.StatusOK, &last)
	if second.Checkpoint.Size != 2 || last.Checkpoint.Size != 3 {
		t.Errorf("the next checkpoints are %+v and %+v", second, last)
	}

	newest := list("?limit=2")
	oldest := list("?limit=2&cursor=" + newest.NextCursor)
	var notes []string
	for _, c := range append(newest.Checkpoints, oldest.Checkpoints...) {
		notes = append(notes, c.Note)
	}
	if want := []string{last.Note, second.Note, first.Note}; strings.Join(notes, "") != strings.Join(want, "") || oldest.NextCursor != "" || newest.Checkpoints[1].Root != second.Checkpoint.Root {
		t.Errorf("the pages are %+v and %+v, want %q", newest, oldest, want)
	}

	// The log has the operator's token.
	var tokens struct{ Tokens []struct{ ID, Scope string } }
	s.get("/admin/tokens").want(http.StatusOK, &tokens)
	events, err := s.node.Stores.Log.ReadStream(t.Context(), eventschemas.CheckpointsStream, 0, eventlog.Forward, 2)
	s.must(err)
	for _, token := range tokens.Tokens {
		if token.Scope == "finance" && (len(events) != 2 || events[0].Metadata.Actor != "operator:"+token.ID || events[1].Metadata != events[0].Metadata) {
			t.Errorf("the events of the first checkpoint are %+v", events)
		}
	}

	s.send(request{method: "POST", path: path}).rejected(http.StatusBadRequest, "Idempotency-Key")
	s.post(path, `{"since":"november"}`).rejected(http.StatusBadRequest, "2026-11-30T15:04:05Z")
	s.post(path, `{"after":"2026-11"}`).rejected(http.StatusBadRequest, "after")
	s.get(path+"?cursor=x").rejected(http.StatusBadRequest, "next_cursor")
	s.get(path+"?limit=501").rejected(http.StatusBadRequest, "from 1 to 500")
	s.send(request{method: "POST", path: path, key: "support", token: s.tok[operator.Support]}).rejected(http.StatusForbidden, "finance")

	s.must(os.Remove(s.node.Config.LedgerKeyPath()))
	s.post(path, "").rejected(http.StatusConflict, "No checkpoint was made: the key that signs checkpoints is missing")
}

func TestProof_AccountInTheLastCheckpoint_IsAnswered(t *testing.T) {
	s := start(t)
	a := s.open("Acme").Account.ID
	now := s.node.Now().UTC()
	path := func(id string, months int) string {
		return "/admin/accounts/" + id + "/proofs/" + now.AddDate(0, months, 1-now.Day()).Format("2006-01")
	}
	s.get(path(a, 0)).rejected(http.StatusConflict, "The ledger has no checkpoint. The service makes")
	s.post("/admin/ledger/checkpoints", "").want(http.StatusOK, nil)
	later := s.open("Bolt").Account.ID
	text, err := operations.PublicLedgerKeys(s.node.Config)
	s.must(err)
	keys, err := proof.ParseKeys(text)
	s.must(err)
	check := func(id string) {
		t.Helper()
		a := s.send(request{method: "GET", path: path(id, 0), token: s.tok[operator.Read]}).want(http.StatusOK, nil)
		if report, err := proof.Check(strings.NewReader(a.text), keys, nil); err != nil || report.AccountID != id || !report.Provisional {
			t.Errorf("the proof of %s shows %+v, %v", id, report, err)
		}
	}
	check(a)
	check(a)
	s.get(path(later, 0)).rejected(http.StatusConflict, "is not in the last checkpoint. The service makes")
	s.post("/admin/ledger/checkpoints", "").want(http.StatusOK, nil)
	check(later)
	check(a)
	s.get(path(a, 1)).rejected(http.StatusNotFound, "the month has not begun")
	s.past.Store(int64(32 * 24 * time.Hour))
	s.get(path(a, 1)).rejected(http.StatusConflict, "POST /admin/ledger/checkpoints")
	s.past.Store(0)
	s.get(path(a, -1)).rejected(http.StatusNotFound, "The account has no events")
	s.get("/admin/accounts/"+a+"/proofs/november").rejected(http.StatusBadRequest, "2026-11")
	s.get(path("nobody", 0)).rejected(http.StatusNotFound, "There is no account")
}

// A checkpoint that began is not signed while the last one is not that of the log, until an operator with the scope admin
// accepts it. The state of health says so meanwhile.
func TestCheckpoints_LogIsNotTheOneThatWasSigned_NothingIsSigned(t *testing.T) {
	s := start(t)
	s.open("Acme")
	const path = "/admin/ledger/checkpoints"
	s.post(path, "").want(http.StatusOK, nil)
	signer := testmust.Get(s.node.Operations.Checkpoints.Keys.Key(""))(t)
	note := testmust.Get(proof.Sign(signer, 2, proof.Hash{}))(t)
	begun := s.node.Now().Add(-time.Hour)
	for i, event := range []eventschemas.Event{eventschemas.CheckpointBegun{}, eventschemas.LedgerCheckpointed{Root: strings.Repeat("0", 64), Note: note}, eventschemas.CheckpointBegun{}} {
		p := testmust.Get(commands.Proposal(eventschemas.Encoder{}, eventschemas.CheckpointsStream, fmt.Sprint("forged", i), event, begun, eventlog.Metadata{Actor: "operator:test"}))(t)
		testmust.Succeed(t, testmust.Err(s.node.Stores.Log.Append(t.Context(), eventschemas.CheckpointsStream, eventlog.After(uint64(2+i)), []eventlog.Proposed{p})))
	}
	var health struct {
		Ready    bool
		Problems []string
	}
	if s.get("/admin/health").want(http.StatusOK, &health); health.Ready || !strings.Contains(strings.Join(health.Problems, "\n"), "began at "+begun.UTC().Format(time.RFC3339)+" is not signed") {
		t.Errorf("health: %+v, want that a checkpoint is not signed", health)
	}
	s.post(path, "").rejected(http.StatusConflict, "it lacks checkpoint 2 of")
	s.post(path, `{"accept_changes":"repaired","since":"2026"}`).rejected(http.StatusBadRequest, "Give one of the fields")
	s.send(request{method: "POST", path: path, body: `{"accept_changes":"repaired"}`, key: "accept", token: s.tok[operator.Finance]}).rejected(http.StatusForbidden, "scope admin")
	for _, reason := range []string{" ", `a\u0007b`, `a\u202eb`, strings.Repeat("a", 300)} {
		s.post(path, `{"accept_changes":"`+reason+`"}`).rejected(http.StatusBadRequest, "accept_changes")
	}
	s.post(path, `{"accept_changes":"asked by jo@example.com"}`).rejected(http.StatusBadRequest, "e-mail address")
	s.post(path, `{"accept_changes":"repaired"}`).want(http.StatusOK, nil)
	if s.get("/admin/health").want(http.StatusOK, &health); strings.Contains(strings.Join(health.Problems, "\n"), "began at") {
		t.Errorf("health: %+v, want no problem", health)
	}
	s.post(path, "").want(http.StatusOK, nil)
}
