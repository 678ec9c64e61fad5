package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"letterhead/internal/disk"
	"letterhead/internal/sqlstore"
)

// scratch is a database file for the tables of one Verify, in a folder that is deleted afterwards.
type scratch struct {
	folder *disk.TempFolder
	store  *sqlstore.Store
}

const scratchPrefix = "letterhead-verify-"

// openScratch creates a scratch file in its own folder below parent.
func openScratch(ctx context.Context, parent string) (_ *scratch, err error) {
	s := &scratch{}
	if s.folder, err = disk.NewTempFolder(parent, scratchPrefix); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.store, err = sqlstore.Open(ctx, sqlstore.Config{Path: filepath.Join(s.folder.Path, "tables.db"), Disposable: true})
	if err != nil {
		return nil, fmt.Errorf("create a file for scratch tables: %w", err)
	}
	err = s.store.Write(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, s.store.DDL(createGenerations))
		return err
	})
	return s, err
}

func (s *scratch) close() error {
	var err error
	if s.store != nil {
		err = s.store.Close()
	}
	return errors.Join(err, s.folder.Remove())
}

// RemoveScratch deletes what a killed Verify left in Config.ScratchFolder, but nothing that another process uses.
func RemoveScratch(parent string) error { return disk.RemoveLeft(parent, scratchPrefix) }
