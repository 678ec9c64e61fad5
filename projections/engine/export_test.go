package engine

import (
	"context"
	"time"

	"letterhead/internal/disk"
)

// Share makes a Runner that was not started treat its database as shared, with lead as its leadership.
func (r *Runner) Share(lead func(ctx context.Context, name string, do func(context.Context) error) error) {
	r.shared, r.lead = true, lead
}

// OnDisk replaces the function that reports free space.
func (r *Runner) OnDisk(space func(folder string) (disk.Space, error)) { r.space = space }

// GatherAfter exports gatherAfter.
var GatherAfter = gatherAfter

// Quiet exports quiet.
func (r *Runner) Quiet(ctx context.Context) (bool, error) { return r.quiet(ctx) }

// RepairTries exports repairTries.
const RepairTries = repairTries

// ScrubPause exports scrubPause.
func (r *Runner) ScrubPause(worked time.Duration, percent int) time.Duration {
	return r.scrubPause(worked, percent)
}
