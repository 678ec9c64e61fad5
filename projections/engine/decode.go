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
	prefix string
	family projections.Family
}{{account.StreamPrefix, projections.Accounts}, {usage.StreamPrefix, projections.Usage}, {brand.StreamPrefix, projections.Brands}}

func decode(rec *eventlog.Recorded, into *projections.Event) {
	into.Recorded = rec
	for _, p := range prefixes {
		if subject, ok := strings.CutPrefix(rec.Stream, p.prefix); ok {
			into.Family, into.Subject = p.family, subject
			break
		}
	}
	if into.Family == 0 {
		return // nobody asks for it
	}
	into.Body, into.Err = eventlog.Decode(rec, eventschemas.Decode)
	if into.Err == nil && into.Body == nil {
		into.Err = fmt.Errorf("decode %s: no event", rec.Type)
	}
}
