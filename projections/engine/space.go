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

// ErrNoSpace: there is not enough free space for copies of the tables, or too little would be left for charges.
var ErrNoSpace = errors.New("not enough free space")

const (
	// spareTables: a copy may be larger than its original by 1/spareTables, because rows inserted in the order of the
	// log fill pages differently from rows inserted over months.
	spareTables = 4
	// maxWriteAhead limits the write-ahead log of a bulk load, which is emptied every second.
	maxWriteAhead = 256 << 20
	// writeAmplification limits the bytes of pages that a batch writes per byte of its events.
	writeAmplification = 4
)

// freeSpace checks the space for copies of tables. The zero value is for a server, which is not checked.
type freeSpace struct {
	folder string
	space  func(folder string) (disk.Space, error)
}

// spaceFor returns the space for copies of the models' live tables in a folder, or in the database file if folder is
// empty; there, begun returns the copies that an interrupted command has begun. Errors: ErrNoSpace if they do not fit.
func (r *Runner) spaceFor(ctx context.Context, models []*model, folder string,
	begun func(*model) *generation) (freeSpace, error) {
	size, err := r.store.Size(ctx, tablesOf(models, (*model).liveGeneration))
	if err != nil || size.Folder == "" {
		return freeSpace{}, err
	}
	need := size.Tables + size.Tables/spareTables
	if folder == "" {
		begun, err := r.store.Size(ctx, tablesOf(models, begun))
		if err != nil {
			return freeSpace{}, err
		}
		folder, need = size.Folder, max(0, need-size.Unused-begun.Tables)
	}
	need += min(size.Tables, maxWriteAhead)
	s := freeSpace{folder, r.space}
	return s, s.check(need)
}

// buildSpace returns the space of a build that the release needs. Such a build begins in any case, and pauses before it
// uses the reserve. Without live tables nothing can be served, so it may use up the reserve.
func (r *Runner) buildSpace(ctx context.Context, models []*model) (freeSpace, error) {
	if slices.ContainsFunc(models, func(m *model) bool { return m.liveGeneration() == nil }) {
		return freeSpace{}, nil
	}
	return r.reserveSpace(ctx)
}

// reserveSpace returns the space of a command that stops before it uses the reserve.
func (r *Runner) reserveSpace(ctx context.Context) (freeSpace, error) {
	size, err := r.store.Size(ctx, nil)
	return freeSpace{size.Folder, r.space}, err
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

// check returns ErrNoSpace if that many bytes cannot be written without using the reserve.
func (s freeSpace) check(bytes int64) error {
	if s.folder == "" {
		return nil
	}
	space, err := s.space(s.folder)
	if err != nil {
		return err
	}
	if reserve := space.Reserve(); space.Free-bytes < reserve {
		return fmt.Errorf("%w in %s: it needs about %s; %s are free, and %s must stay free for charges; free some space and try again",
			ErrNoSpace, s.folder, mebibytes(bytes), mebibytes(space.Free), mebibytes(reserve))
	}
	return nil
}

// mebibytes rounds up.
func mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20) }

// reclaim returns the space of dropped tables to the file system.
func (r *Runner) reclaim(ctx context.Context) {
	bytes, err := r.store.Reclaim(ctx)
	switch {
	case err == nil:
		r.cfg.Logger.DebugContext(ctx, "returned the space of dropped tables", slog.Int64("bytes", bytes))
	case ctx.Err() == nil && !errors.Is(err, sqlstore.ErrClosed):
		r.cfg.Logger.WarnContext(ctx, "the space of dropped tables could not be returned; new rows will use it",
			slog.Any("error", err))
	}
}
