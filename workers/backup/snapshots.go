package backup

import (
	"context"
	"strings"

	"letterhead/commands"
	"letterhead/domain/account"
)

// leaveSnapshots saves a snapshot of each account with a long stream, so that its first request is answered
// quickly. It returns their number. Snapshots are disposable: a failure to save one is ignored, and the
// account is folded when it is used.
func leaveSnapshots(ctx context.Context, cfg Config, to Target, long []string) (saved uint64, err error) {
	if to.Snapshots == nil {
		return 0, nil
	}
	for i, stream := range long {
		err := commands.LeaveSnapshot(ctx, to.Log, to.Snapshots, strings.TrimPrefix(stream, account.StreamPrefix), nil)
		if ctx.Err() != nil {
			return saved, ctx.Err()
		}
		if err == nil {
			saved++
		}
		cfg.Progress(Progress{Stage: StageSnapshots, Done: uint64(i + 1), Total: uint64(len(long))})
	}
	return saved, nil
}
