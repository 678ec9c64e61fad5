package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections/brands"
	"letterhead/starter"
)

// loadStarter loads the embedded starter index, unless the marker records that this version was loaded
// completely, and waits until it is searchable.
func (n *Node) loadStarter(ctx context.Context, marker starter.Marker) error {
	if file, own := marker.(starter.FileMarker); own {
		head, err := n.Stores.Log.Head(ctx)
		if err != nil {
			return err
		}
		if head == 0 {
			// The marker is left over from a log that was removed.
			if err := os.Remove(file.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	began, said := time.Now(), time.Now()
	n.drawing.heavy.Lock()
	result, err := starter.Import(ctx, starter.Config{
		Logger: n.logger,
		Progress: func(done, total int) {
			if done == 1 || time.Since(said) >= progressEvery {
				said = time.Now()
				n.logger.Info("importing the starter index", "brands", done, "of", total)
			}
		},
	}, starter.Deps{
		Assets: n.Stores.Assets, Marker: marker,
		Brands: starterBrands{n.Writers.Brands, commands.Request{ID: uuid.NewString(), Actor: "system:starter"}},
	})
	n.drawing.heavy.Unlock()
	if err != nil {
		return fmt.Errorf("import the starter index: %w; the import resumes at the next start", err)
	}
	if result.Finished {
		return nil
	}
	if err := n.Operations.Reads.CatchUp(ctx, brands.Name); err != nil {
		return err
	}
	n.logger.Info("starter index is searchable", "imported", result.Imported, "present", result.Present,
		"took", time.Since(began).Round(time.Millisecond))
	return nil
}

// starterOnce is the part that loads the starter index of a distributed service, on one node at a time.
func (n *Node) starterOnce() part {
	return n.Stores.led("starter index", func(ctx context.Context) error {
		pause := firstImportPause
		for {
			err := n.loadStarter(ctx, sharedMarker{n.Stores.Positions, n.Stores.Log})
			if err == nil || ctx.Err() != nil {
				<-ctx.Done() // keep the leadership: no other node needs to try
				return nil
			}
			n.logger.Warn("starter index", "error", err, "again_in", pause)
			if delay.For(ctx, pause) != nil {
				return nil
			}
			pause = min(2*pause, lastImportPause)
		}
	})
}

const (
	// starterLookEvery is the time between two checks whether another node has loaded the starter index.
	starterLookEvery = 2 * time.Second
	// starterTimeout is how long a node in a cluster waits for the starter index, which no node loads if crawlers
	// have it turned off. After that, fallbacks are cached. Loading takes seconds, and a start of all nodes minutes.
	starterTimeout = 15 * time.Minute
)

// awaitStarter waits until some node has loaded the starter index and the read models hold it, or ctx ends.
func (n *Node) awaitStarter(ctx context.Context, marker starter.Marker) {
	defer n.health.starterSeen.Store(true)
	waiting, cancel := context.WithTimeout(ctx, starterTimeout)
	defer cancel()
	for {
		version, err := marker.Load(waiting)
		if err == nil && version == starter.Version {
			if err = n.Operations.Reads.FoldedTo(waiting, brands.Name); err == nil {
				return
			}
		}
		if delay.For(waiting, starterLookEvery) != nil {
			if ctx.Err() == nil {
				n.logger.Warn("no node has loaded the starter index; fallbacks for logos are cacheable from now on",
					"waited", starterTimeout, "error", err)
			}
			return
		}
	}
}

// progressEvery is how often the import of the starter index reports how far it is.
const progressEvery = time.Second

// Pauses between attempts at the starter index; they double in between.
const (
	firstImportPause = time.Second
	lastImportPause  = time.Minute
)

// sharedMarker remembers in the database that nodes share which version of the starter index was loaded into which log.
// It is kept with the readers' positions, and is as disposable: without it every brand is checked again.
type sharedMarker struct {
	positions *sqlstore.Positions
	log       eventlog.Log
}

// row returns the name of the row for a version in this log, which is identified by its first brand event. An empty
// log, such as one that replaced another, has no row.
func (m sharedMarker) row(ctx context.Context, version string) (string, bool, error) {
	page, err := m.log.ReadAll(ctx, 0, eventlog.Filter{StreamPrefixes: []string{brand.StreamPrefix}}, 1)
	if err != nil || len(page.Events) == 0 {
		return "", false, err
	}
	return "starter index " + version + " in " + page.Events[0].ID.String(), true, nil
}

func (m sharedMarker) Load(ctx context.Context) (string, error) {
	row, known, err := m.row(ctx, starter.Version)
	if err != nil || !known {
		return "", err
	}
	_, found, err := m.positions.Load(ctx, row)
	if err != nil || !found {
		return "", err
	}
	return starter.Version, nil
}

func (m sharedMarker) Save(ctx context.Context, version string) error {
	row, known, err := m.row(ctx, version)
	if err != nil || !known {
		return err
	}
	return m.positions.Save(ctx, row, 1)
}

// starterBrands imports the starter's brands with the command of all imports.
type starterBrands struct {
	brands  *commands.Brands
	request commands.Request
}

func (b starterBrands) ImportBrand(ctx context.Context, source string, in starter.Brand) (bool, error) {
	return b.brands.ImportBrand(ctx, commands.ImportBrand{Request: b.request, Domain: in.Domain, Source: source,
		Record: in.Record, Evidence: in.Evidence})
}
