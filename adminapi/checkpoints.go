package adminapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"letterhead/domain/books"
	"letterhead/domain/proof"
	"letterhead/domain/statement"
	"letterhead/projections/checkpoints"
)

// ErrNoCheckpoint means that no checkpoint of the ledger can be made, for the reason that follows.
var ErrNoCheckpoint = errors.New("no checkpoint was made")

// Checkpoint is a checkpoint of the ledger.
type Checkpoint struct {
	proof.Checkpoint
	Note *proof.Note // signed
}

// CheckpointObject returns a checkpoint for JSON.
func CheckpointObject(n *proof.Note, c proof.Checkpoint) map[string]any {
	return map[string]any{"origin": n.Origin, "size": n.Size, "root": fmt.Sprintf("%x", n.Root), "time": c.Time, "position": c.Position, "accounts": c.Accounts, "accounts_root": fmt.Sprintf("%x", c.Root)}
}

// Object returns a checkpoint and its signed text for JSON.
func (c *Checkpoint) Object() map[string]any {
	return map[string]any{"checkpoint": CheckpointObject(c.Note, c.Checkpoint), "note": c.Note.Text}
}

// makeCheckpoint answers POST /admin/ledger/checkpoints. It reads the streams of all accounts, so few run at a time.
func (x *exchange) makeCheckpoint() error {
	var in struct {
		Since string `json:"since"`
	}
	if len(x.body) > 0 {
		if err := x.decode(&in); err != nil {
			return err
		}
	}
	var since time.Time
	if in.Since == "" {
		if err := x.needsKey(", or the field since in the body"); err != nil {
			return err
		}
	} else {
		var err error
		if since, _, err = books.ParseSpan(in.Since); err != nil {
			return invalid("The field since: %s.", err)
		}
	}
	if !x.api.reports.TryAcquire(1) {
		return errReportRuns
	}
	defer x.api.reports.Release(1)
	made, err := x.api.Operations.MakeCheckpoint(x.ctx, x.by(), since, nil)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, made.Object())
}

// listCheckpoints answers GET /admin/ledger/checkpoints.
func (x *exchange) listCheckpoints() error {
	q := x.query("limit", "cursor")
	limit, before := q.limit(), uint64(0)
	if text := q.text("cursor"); text != "" {
		var err error
		if before, err = strconv.ParseUint(text, 10, 62); err != nil || before == 0 {
			return invalid("The parameter cursor is not a next_cursor of an answer.")
		}
	}
	if q.err != nil {
		return q.err
	}
	if err := x.api.Operations.Folded(x.ctx, checkpoints.Name); err != nil {
		return err
	}
	rows, err := x.api.Checkpoints.List(x.ctx, before, limit+1)
	if err != nil {
		return err
	}
	out := map[string]any{}
	if len(rows) > limit {
		rows = rows[:limit]
		out["next_cursor"] = strconv.FormatUint(rows[limit-1].Size, 10)
	}
	shown := make([]any, len(rows))
	for i, c := range rows {
		n, err := proof.ParseNote(c.Note)
		if err != nil {
			return fmt.Errorf("checkpoint %d: %w", c.Size, err)
		}
		shown[i] = map[string]any{"origin": n.Origin, "size": n.Size, "root": fmt.Sprintf("%x", n.Root), "time": c.At, "note": c.Note}
	}
	out["checkpoints"] = shown
	return x.answer(http.StatusOK, out)
}

// getProof answers GET /admin/accounts/{id}/proofs/{month}.
func (x *exchange) getProof() error {
	if q := x.query(); q.err != nil {
		return q.err
	}
	month, err := time.Parse(books.MonthLayout, x.request.PathValue("month"))
	if err != nil {
		return invalid("The path ends with a month like 2026-11.")
	}
	id, err := x.account()
	if err != nil {
		return err
	}
	file, err := x.api.Operations.Prove(x.ctx, id, month)
	switch {
	case errors.Is(err, proof.ErrNotInCheckpoint), errors.Is(err, checkpoints.ErrNone), errors.Is(err, statement.ErrNotBegun) && !x.api.Now().Before(month):
		return &problem{http.StatusConflict, "conflict", sentence(err) + ". The service makes a checkpoint a day; POST /admin/ledger/checkpoints, or \"letterhead ledger checkpoint\", makes one now.", nil}
	case err != nil:
		return err
	}
	x.status = http.StatusOK
	file.Send(x.writer, "text/plain; charset=utf-8", "proof-"+month.Format(books.MonthLayout)+".txt")
	return file.Close()
}
