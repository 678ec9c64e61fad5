package operations_test

import (
	"context"
	"errors"
	"testing"

	"letterhead/internal/eventlog"
	"letterhead/node"
	"letterhead/operations"
	"letterhead/projections/accounts"
)

// aheadLog is a log whose last events no process folds.
type aheadLog struct{ eventlog.Log }

func (aheadLog) Head(context.Context) (eventlog.Position, error) { return 1 << 40, nil }

func TestFolded_NoProcessFolds_AnswersAsTheyAre(t *testing.T) {
	n := openNodeOf(t, node.Parts{})
	reads := &operations.Reads{Log: aheadLog{n.Stores.Log}, Runner: n.Runner, Alive: t.Context(), Apart: true}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := reads.Folded(ended, accounts.Name); !errors.Is(err, context.Canceled) {
		t.Errorf("Folded = %v, want to wait for the process that folds", err)
	}
	var behind []string
	reads.AsTheyAre = func(_ context.Context, names []string) { behind = append(behind, names...) }
	if err := reads.Folded(t.Context(), accounts.Name); err != nil || len(behind) != 1 || behind[0] != accounts.Name {
		t.Errorf("Folded of models as they are = %v, behind are %v", err, behind)
	}
	if err := reads.FoldedTo(ended, accounts.Name); !errors.Is(err, context.Canceled) {
		t.Errorf("FoldedTo = %v, want to wait as before", err)
	}
	reads.Log = n.Stores.Log
	if err := reads.Folded(t.Context(), accounts.Name); err != nil || len(behind) != 1 {
		t.Errorf("Folded of a model that is folded = %v, behind are %v", err, behind)
	}
}
