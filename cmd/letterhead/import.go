package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/projections/brands"
	"letterhead/starter"
)

// importStarter loads the embedded starter index, unless this version of it was loaded to its end before,
// and waits until it is searchable.
func (s *service) importStarter(ctx context.Context) error {
	marker := starter.FileMarker{Path: filepath.Join(s.config.Data, "starter")}
	head, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	if head == 0 {
		// A marker without a log is from a log that somebody took away.
		if err := os.Remove(marker.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	began, said := time.Now(), time.Now()
	result, err := starter.Import(ctx, starter.Config{
		Logger: s.logger,
		Progress: func(done, total int) {
			if done == 1 || time.Since(said) >= progressEvery {
				said = time.Now()
				s.logger.Info("importing the starter index", "brands", done, "of", total)
			}
		},
	}, starter.Deps{
		Assets: s.assets, Marker: marker,
		Brands: starterBrands{s.brands, commands.Request{ID: uuid.NewString(), Actor: "system:starter"}},
	})
	if err != nil {
		return fmt.Errorf("import the starter index: %w; it goes on at the next start", err)
	}
	if result.Finished {
		return nil
	}
	if err := s.catchUp(ctx, brands.Name); err != nil {
		return err
	}
	s.logger.Info("starter index is searchable", "imported", result.Imported, "present", result.Present, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// starterBrands takes the starter's brands in through the command that every import uses.
type starterBrands struct {
	brands  *commands.Brands
	request commands.Request
}

func (b starterBrands) ImportBrand(ctx context.Context, source string, in starter.Brand) (bool, error) {
	return b.brands.ImportBrand(ctx, commands.ImportBrand{Request: b.request, Domain: in.Domain, Source: source, Record: in.Record, Evidence: in.Evidence})
}
