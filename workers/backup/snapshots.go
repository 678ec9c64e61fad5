package backup

import (
	"context"
	"strings"

	"letterhead/commands"
	"letterhead/domain/account"
)

// leaveSnapshots saves a snapshot for each account whose stream is long, so that its first request is answered
// at once. It returns how many. A snapshot is disposable: what keeps one from being saved ends nothing, and the
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
