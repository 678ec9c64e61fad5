package readapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"letterhead/domain/proof"
	"letterhead/internal/sqlstore"
	"letterhead/operations"
	"letterhead/projections/checkpoints"
	"letterhead/readapi"
)

func TestCheckpoint_IsPublicAndSigned(t *testing.T) {
	s := start(t)
	s.shows("GET /v1/ledger/checkpoint", 200)
	s.shows("GET /v1/ledger/checkpoint", 404)
	ask := func() answer { return s.send(request{path: "/v1/ledger/checkpoint"}) }
	if a := ask(); a.status != http.StatusNotFound || !strings.Contains(string(a.body), "no checkpoint") {
		t.Errorf("without a checkpoint: status %d, body %q", a.status, a.body)
	}
	made, err := s.node.Operations.Checkpoints.Make(t.Context(), s.node.Operator(), time.Time{}, "")
	s.must(err)
	s.must(s.node.Operations.Reads.FoldedTo(t.Context(), checkpoints.Name))
	a := ask()
	if h := a.ok(t); string(a.body) != made.Note.Text || h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("header %v, body %q, want %q", h, a.body, made.Note.Text)
	}
	text, err := operations.PublicLedgerKeys(s.node.Config)
	s.must(err)
	keys, err := proof.ParseKeys(text)
	s.must(err)
	if n, err := proof.Open(string(a.body), keys); err != nil || n.Size != 1 {
		t.Errorf("the checkpoint is %+v, %v", n, err)
	}
}

// awayCheckpoints cannot be read.
type awayCheckpoints struct{ readapi.Checkpoints }

func (awayCheckpoints) Last(context.Context) (*checkpoints.Checkpoint, error) {
	return nil, sqlstore.ErrUnavailable
}

func TestCheckpoint_DatabaseUnavailable_Is503(t *testing.T) {
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { d.Checkpoints = awayCheckpoints{d.Checkpoints} }
	})
	s.shows("GET /v1/ledger/checkpoint", 503)
	a := s.send(request{path: "/v1/ledger/checkpoint"})
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || strings.Contains(string(a.body), "charge") {
		t.Errorf("status %d, header %v, body %q", a.status, a.header, a.body)
	}
}
