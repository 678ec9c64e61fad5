package readapi

import (
	"context"
	"errors"
	"net/http"

	"letterhead/projections/checkpoints"
)

// serveCheckpoint answers GET and HEAD /v1/ledger/checkpoint with the signed checkpoint of the ledger. It needs no key,
// so it has the limits of the checks that precede other requests.
func (x *exchange) serveCheckpoint() error {
	var last *checkpoints.Checkpoint
	var err error
	problem := x.checked(func(ctx context.Context) *Problem {
		last, err = x.api.Checkpoints.Last(ctx)
		return nil
	})
	switch {
	case problem != nil:
		return problem
	case errors.Is(err, checkpoints.ErrNone):
		x.sendPlain(http.StatusNotFound, "The ledger has no checkpoint yet.\n")
		return nil
	case err != nil:
		return err
	}
	x.sendPlain(http.StatusOK, last.Note)
	return nil
}
