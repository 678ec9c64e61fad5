package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"letterhead/internal/sqlstore"
)

// scratch is a database file for the tables of one Verify, in a folder that is deleted afterwards.
type scratch struct {
	folder string
	lock   *flock.Flock // held while the folder is in use
	store  *sqlstore.Store
}

const (
	scratchPrefix = "letterhead-verify-"
	scratchLock   = "lock"
)

// openScratch creates a scratch file in its own folder below parent.
func openScratch(ctx context.Context, parent string) (_ *scratch, err error) {
	s := &scratch{}
	if s.folder, err = os.MkdirTemp(parent, scratchPrefix+"*"); err != nil {
		return nil, fmt.Errorf("create a folder for scratch tables: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.lock = flock.New(filepath.Join(s.folder, scratchLock))
	if err := s.lock.Lock(); err != nil {
		return nil, fmt.Errorf("lock the folder of scratch tables: %w", err)
	}
	s.store, err = sqlstore.Open(ctx, sqlstore.Config{Path: filepath.Join(s.folder, "tables.db"), Disposable: true})
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
	var errs []error
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	errs = append(errs, os.RemoveAll(s.folder))
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// RemoveScratch deletes what a killed Verify left in Config.ScratchFolder, but nothing that another process uses.
func RemoveScratch(parent string) error {
	left, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, record := range left {
		folder := filepath.Join(parent, record.Name())
		if !strings.HasPrefix(record.Name(), scratchPrefix) {
			continue
		}
		lock := flock.New(filepath.Join(folder, scratchLock))
		if ok, err := lock.TryLock(); err == nil && ok {
			errs = append(errs, os.RemoveAll(folder), lock.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete old scratch tables in %s: %w", parent, err)
	}
	return nil
}
