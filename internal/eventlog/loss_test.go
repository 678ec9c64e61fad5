package eventlog_test

import (
	"strings"
	"testing"

	"letterhead/internal/eventlog"
)

// In an event store positions are byte offsets, and the installation has no files to copy.
func TestLossError_SharedStore_OmitsAdviceAboutFiles(t *testing.T) {
	lost := eventlog.LossError{Witness: "head marker", Remembered: 90, Head: 7, Detail: "test"}
	folder := lost.Error()
	lost.Shared = true
	shared := lost.Error()
	for _, part := range []string{"positions 8 to 90 (83) are missing", "damaged files", "--data NEW"} {
		if !strings.Contains(folder, part) || strings.Contains(shared, part) {
			t.Errorf("%q must be only in the message about files, but the messages are\n%s\n%s", part, folder, shared)
		}
	}
	for _, part := range []string{eventlog.ErrLoss.Error(), "position 90", "ends at position 7", "recover accept-loss"} {
		if !strings.Contains(shared, part) {
			t.Errorf("%q is missing in %s", part, shared)
		}
	}
}
