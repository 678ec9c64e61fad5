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

// makeCheckpoint answers POST /admin/ledger/checkpoints. It reads the streams of all accounts, so few run at a time.
func (x *exchange) makeCheckpoint() error {
	var in struct {
		Since string `json:"since"`
	}
	if err := x.decodeAny(&in); err != nil {
		return err
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
	end, err := x.startReport()
	if err != nil {
		return err
	}
	defer end()
	made, err := x.api.Operations.Checkpoints.Make(x.ctx, x.by(), since)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, made.Object())
}

func (x *exchange) listCheckpoints() error {
	q := x.query("limit", "cursor")
	limit, before := q.limit(), q.before()
	if err := x.read(q, checkpoints.Name); err != nil {
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
		shown[i] = map[string]any{"origin": n.Origin, "size": n.Size, "root": fmt.Sprintf("%x", n.Root),
			"time": c.At, "note": c.Note}
	}
	out["checkpoints"] = shown
	return x.answer(http.StatusOK, out)
}

func (x *exchange) getProof(id string) error {
	month, err := time.Parse(books.MonthLayout, x.request.PathValue("month"))
	if err != nil {
		return invalid("The path ends with a month like 2026-11.")
	}
	file, err := x.api.Operations.Checkpoints.Prove(x.ctx, id, month)
	switch {
	case errors.Is(err, proof.ErrNotInCheckpoint), errors.Is(err, checkpoints.ErrNone),
		errors.Is(err, statement.ErrNotBegun) && !x.api.Now().Before(month):
		return conflicting(sentence(err) + ". The service makes a checkpoint a day; POST /admin/ledger/checkpoints, or \"letterhead ledger checkpoint\", makes one now.")
	case err != nil:
		return err
	}
	file.Send(x, "text/plain; charset=utf-8", "proof-"+month.Format(books.MonthLayout)+".txt")
	return file.Close()
}
