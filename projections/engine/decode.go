package engine

import (
	"fmt"
	"strings"

	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/projections"
)

var prefixes = [...]struct {
	prefix   string
	category projections.Category
}{{account.StreamPrefix, projections.Accounts}, {usage.StreamPrefix, projections.Usage}, {brand.StreamPrefix, projections.Brands}, {eventschemas.BooksStream, projections.Books}, {eventschemas.CheckpointsStream, projections.Checkpoints}, {eventschemas.OperatorsStream, projections.Operators}, {eventschemas.NoticesPrefix, projections.Notices}, {eventschemas.SignInsPrefix, projections.SignIns}, {eventschemas.BillingPrefix, projections.Billing}}

// filterOf returns the filter of the streams of categories.
func filterOf(categories projections.Category) (f eventlog.Filter) {
	for _, p := range prefixes {
		if categories&p.category != 0 {
			f.StreamPrefixes = append(f.StreamPrefixes, p.prefix)
		}
	}
	return f
}

func decode(rec *eventlog.Recorded, into *projections.Event) {
	into.Recorded = rec
	for _, p := range prefixes {
		if subject, ok := strings.CutPrefix(rec.Stream, p.prefix); ok {
			into.Category, into.Subject = p.category, subject
			break
		}
	}
	if into.Category == 0 {
		return // no read model folds it
	}
	into.Body, into.Err = eventlog.Decode(rec, eventschemas.Decode)
	if into.Err == nil && into.Body == nil {
		into.Err = fmt.Errorf("decode %s: no event", rec.Type)
	}
}
