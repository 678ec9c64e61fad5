package readapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// An append may have succeeded, or may still succeed, although the answer is an error: no such answer
// promises that nothing was charged, and each says that a charge is reversed.
func TestProblemOf_UnknownOutcome_PromisesReversal(t *testing.T) {
	for _, err := range []error{
		context.DeadlineExceeded, eventlog.ErrAmbiguous, eventlog.ErrUnavailable, commands.ErrUnknownOutcome, commands.ErrBusy, &streamwriter.LoadingError{RetryAfter: time.Second},
		sqlstore.ErrUnavailable, projections.ErrNotReady, http.ErrNotSupported,
	} {
		p := problemOf(fmt.Errorf("test: %w", err), time.Now(), "")
		if strings.Contains(p.Text, "nothing") || !strings.Contains(p.Text, messageReversed) {
			t.Errorf("%v: %s", err, p.Text)
		}
	}
}
