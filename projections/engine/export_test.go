package engine

import (
	"context"

	"letterhead/internal/disk"
)

// Share makes a Runner that was not started take its database for a shared one, led as lead says.
func (r *Runner) Share(lead func(ctx context.Context, name string, do func(context.Context) error) error) {
	r.shared, r.lead = true, lead
}

// OnDisk makes a Runner believe what it is told about free space.
func (r *Runner) OnDisk(space func(folder string) (disk.Space, error)) { r.space = space }

// GatherAfter is the pause of the main lane after a batch of some events.
var GatherAfter = gatherAfter
