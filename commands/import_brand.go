package commands

import (
	"context"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
)

// ImportBrand is the command to import a record from a data set.
type ImportBrand struct {
	Request  Request
	Domain   string
	Source   string // name and version of the data set
	Record   eventschemas.Record
	Evidence []eventschemas.Evidence
}

// ImportBrand appends BrandImported. It is a no-op and returns false if the stream already has this
// source's import, if a crawl has found a newer record, or if the brand was withdrawn.
//
// Errors: brand.ErrRecordTooLarge, and the errors of update.
func (b *Brands) ImportBrand(ctx context.Context, in ImportBrand) (imported bool, err error) {
	done, err := b.update(ctx, in.Domain, in.Request,
		in.Source, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.Import(brand.Import{Source: in.Source, Record: in.Record, Evidence: in.Evidence})
		})
	return err == nil && !done.Repeated, err
}
