package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"letterhead/internal/disk"
	"letterhead/internal/sqlstore"
)

// ErrNoRoom: there is not enough free space for copies of the tables, or would not be enough left for charges.
var ErrNoRoom = errors.New("not enough free space")

const (
	// spareTables is the part of the tables' size that their copies may take more: rows that come in the order of
	// the log leave pages less full than rows that came over months, or fuller.
	spareTables = 4
	// maxWriteAhead is what the write-ahead log of a bulk load takes at most: it is emptied every second.
	maxWriteAhead = 256 << 20
	// writeAmplification is how many bytes of pages a batch writes for one byte of its events, at most.
	writeAmplification = 4
)

// room is the space that copies of tables go to. The zero value is a server's, which is without an end as far as
// is known here.
type room struct {
	folder string
	space  func(folder string) (disk.Space, error)
}

// roomFor returns the room for copies of the models' live tables, in the folder, or, with "", in the database file
// itself. Errors: ErrNoRoom when they do not fit.
func (r *Runner) roomFor(ctx context.Context, models []*model, folder string) (room, error) {
	size, err := r.store.Size(ctx, tablesOf(models, (*model).liveGeneration))
	if err != nil || size.Folder == "" {
		return room{}, err
	}
	need := size.Tables + size.Tables/spareTables
	if folder == "" {
		begun, err := r.store.Size(ctx, tablesOf(models, (*model).buildingGeneration)) // by a rebuild that was interrupted
		if err != nil {
			return room{}, err
		}
		folder, need = size.Folder, max(0, need-size.Unused-begun.Tables)
	}
	need += min(size.Tables, maxWriteAhead)
	s := room{folder, r.space}
	return s, s.check(need)
}

// buildRoom is the room of a build that the release needs: it is begun however little there is, and waits before it
// touches the reserve. Without live tables nothing is served at all, so there the reserve is used up.
func (r *Runner) buildRoom(ctx context.Context, models []*model) (room, error) {
	if slices.ContainsFunc(models, func(m *model) bool { return m.liveGeneration() == nil }) {
		return room{}, nil
	}
	size, err := r.store.Size(ctx, nil)
	return room{size.Folder, r.space}, err
}

// tablesOf returns the names of the tables of one generation of each model.
func tablesOf(models []*model, generation func(*model) *generation) []string {
	var names []string
	for _, m := range models {
		if g := generation(m); g != nil {
			for _, t := range g.version.Tables {
				names = append(names, g.tables.Name(t.Name))
			}
		}
	}
	return names
}

// check returns ErrNoRoom when so many bytes cannot be written without touching the reserve.
func (s room) check(bytes int64) error {
	if s.folder == "" {
		return nil
	}
	space, err := s.space(s.folder)
	if err != nil {
		return err
	}
	if reserve := space.Reserve(); space.Free-bytes < reserve {
		return fmt.Errorf("%w in %s: it needs about %s; %s are free, and %s must stay free for charges; make room and try again",
			ErrNoRoom, s.folder, mebibytes(bytes), mebibytes(space.Free), mebibytes(reserve))
	}
	return nil
}

// mebibytes rounds up.
func mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20) }

// reclaim gives the space of dropped tables back.
func (r *Runner) reclaim(ctx context.Context) {
	bytes, err := r.store.Reclaim(ctx)
	switch {
	case err == nil:
		r.cfg.Logger.DebugContext(ctx, "space of dropped tables is given back", slog.Int64("bytes", bytes))
	case ctx.Err() == nil && !errors.Is(err, sqlstore.ErrClosed):
		r.cfg.Logger.WarnContext(ctx, "space of dropped tables could not be given back; new rows will take it", slog.Any("error", err))
	}
}
