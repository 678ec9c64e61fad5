package dashboard

import "testing"

// SetReplayLimits sets, for dashboards that a test starts, how many events a request folds, how many replays run in the
// background, and the memory of one.
func SetReplayLimits(t testing.TB, atOnce uint64, running, memory int) {
	before, most, bytes := foldedAtOnce, maxReplaying, replayMemory
	t.Cleanup(func() { foldedAtOnce, maxReplaying, replayMemory = before, most, bytes })
	foldedAtOnce, maxReplaying, replayMemory = atOnce, running, memory
}
