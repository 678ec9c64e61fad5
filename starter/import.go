package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"letterhead/internal/disk"
)

// parallel is how many brands are imported concurrently. The log commits all queued events as one
// group, so a larger number is faster as long as flushing the disk dominates.
const parallel = 64

// Assets stores files by their content.
type Assets interface {
	// Put stores a file and returns its id, the lower-case hex SHA-256 of its bytes.
	Put(ctx context.Context, data []byte, ext string) (id string, err error)
}

// Brands imports brands.
type Brands interface {
	// ImportBrand appends BrandImported. It returns false, and appends nothing, for a brand that was
	// already imported from this source or crawled.
	ImportBrand(ctx context.Context, source string, b Brand) (imported bool, err error)
}

// Marker stores which version of the data was imported completely, so that a start does not have to read
// thousands of streams.
type Marker interface {
	// Load returns the version of the last Save, "" before that.
	Load(ctx context.Context) (version string, err error)
	// Save is durable when it returns.
	Save(ctx context.Context, version string) error
}

// Config configures an import.
type Config struct {
	// Progress, if set, is called after each brand, never concurrently.
	Progress func(done, total int)
	// Logger may be nil.
	Logger *slog.Logger
}

// Deps are the stores of an import.
type Deps struct {
	Assets Assets
	Brands Brands
	Marker Marker
}

// Result is the result of an import.
type Result struct {
	Finished bool // this version was imported before, so nothing was read
	Imported int  // brands appended by this import
	Present  int  // existing brands
}

// Import loads the embedded data: the files of each brand, then its event. It returns the first error, or ctx.Err()
// when ctx ends. The next call continues where this one stopped, because existing files and brands are left unchanged.
func Import(ctx context.Context, cfg Config, deps Deps) (Result, error) {
	before, err := deps.Marker.Load(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("read the marker of the starter import: %w", err)
	}
	if before == Version {
		return Result{Finished: true}, nil
	}
	run := &importRun{cfg: cfg, deps: deps}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	readErr := Each(func(b Brand) error {
		if err := groupCtx.Err(); err != nil {
			return err
		}
		group.Go(func() error { return run.one(groupCtx, b) })
		return nil
	})
	// The group's error comes first because it is the reason why reading stopped.
	if err := errors.Join(group.Wait(), ctx.Err()); err != nil {
		return run.result, err
	}
	if readErr != nil {
		return run.result, readErr
	}
	if err := deps.Marker.Save(ctx, Version); err != nil {
		return run.result, fmt.Errorf("write the marker of the starter import: %w", err)
	}
	cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)).Info("starter index imported", "version", Version,
		"imported", run.result.Imported, "present", run.result.Present)
	return run.result, nil
}

type importRun struct {
	cfg  Config
	deps Deps

	mu     sync.Mutex
	result Result
}

// one stores a brand's files before its event, so that no event refers to a missing file.
func (r *importRun) one(ctx context.Context, b Brand) error {
	for i, svg := range b.SVG {
		want := b.Record.Logos[i].Formats[0].ID
		id, err := r.deps.Assets.Put(ctx, svg, "svg")
		if err != nil {
			return fmt.Errorf("store a logo of %s: %w", b.Domain, err)
		}
		if id != want {
			return fmt.Errorf("store a logo of %s: stored as %s, but the record says %s", b.Domain, id, want)
		}
	}
	imported, err := r.deps.Brands.ImportBrand(ctx, Version, b)
	if err != nil {
		return fmt.Errorf("import %s: %w", b.Domain, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if imported {
		r.result.Imported++
	} else {
		r.result.Present++
	}
	if r.cfg.Progress != nil {
		r.cfg.Progress(r.result.Imported+r.result.Present, Count)
	}
	return nil
}

// FileMarker is a Marker in a file of the data folder.
type FileMarker struct{ Path string }

// Load returns the version in the file, "" if there is no file.
func (m FileMarker) Load(context.Context) (string, error) {
	data, err := os.ReadFile(m.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(data)), err
}

// Save writes the file atomically: a crash leaves the old file or the new one.
func (m FileMarker) Save(_ context.Context, version string) error {
	return disk.WriteText(m.Path, version+"\n")
}
