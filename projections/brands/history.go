package brands

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// MaxHistory limits the changes of a history, which may have a record each.
const MaxHistory = 50

// Change is an event of a brand.
type Change struct {
	Revision uint64    `json:"revision"`
	At       time.Time `json:"at"`
	Type     string    `json:"type"`
	Actor    string    `json:"actor,omitempty"`
	CrawlID  string    `json:"crawl_id,omitempty"`
	Cause    string    `json:"cause,omitempty"`   // of a requested crawl
	Outcome  string    `json:"outcome,omitempty"` // of a crawl that failed
	Detail   string    `json:"detail,omitempty"`  // the same, in a sentence
	Reason   string    `json:"reason,omitempty"`  // why an operator set a field
	Source   string    `json:"source,omitempty"`  // of a record: URL of the site, or data set
	// Fields are those in which the record differs from the one before it.
	Fields []FieldChange `json:"fields,omitempty"`
	// Evidence says where each field of a record comes from.
	Evidence []eventschemas.Evidence `json:"evidence,omitempty"`
}

// FieldChange is a field of a record before and after a change. A field that an operator sets has no value before it.
type FieldChange struct {
	Field  string          `json:"field"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Past is the history of a brand.
type Past struct {
	Domain  string   `json:"domain"`
	Changes []Change `json:"changes"` // the last MaxHistory, the newest first
	// Origin is the event that the present record comes from, with its evidence; nil if there is no record.
	Origin *Change `json:"origin,omitempty"`
	// Overridden are the fields that an operator has set, in place of the record's.
	Overridden []string `json:"overridden"`
}

// History returns the history of the brand of a registrable domain. It reads the brand's stream, which is short.
// Errors:
// ErrNotFound if there never was such a brand, or if it was withdrawn; ErrRestricted if it is restricted; the errors of
// the log.
func History(ctx context.Context, log eventlog.Log, domain string) (*Past, error) {
	now := brand.New(domain)
	var all []Change
	var origin *Change
	var before map[string]json.RawMessage
	err := eachPast(ctx, log, domain, now, func(ev *eventlog.Recorded, body eventschemas.Event) error {
		c, record := changeOf(body)
		if record != nil {
			after, err := fieldsOf(record)
			if err != nil {
				return err
			}
			c.Fields, before = differences(before, after), after
		}
		c.Revision, c.At, c.Type, c.Actor = ev.Revision, ev.OccurredAt, ev.Type, ev.Metadata.Actor
		if record != nil {
			origin = &c
		}
		if all = append(all, c); len(all) > MaxHistory {
			all = all[1:]
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("get the history of %s: %w", domain, err)
	case len(all) == 0 || now.Withdrawn():
		return nil, fmt.Errorf("%s: %w", domain, ErrNotFound)
	case now.View().Record.Restriction != nil:
		return nil, fmt.Errorf("%s: %w", domain, ErrRestricted)
	}
	slices.Reverse(all)
	return &Past{Domain: domain, Changes: all, Origin: origin, Overridden: now.Overridden()}, nil
}

// changeOf returns what an event says, and its record if it has one.
func changeOf(body eventschemas.Event) (Change, *eventschemas.Record) {
	switch ev := body.(type) {
	case eventschemas.CrawlRequested:
		return Change{CrawlID: ev.CrawlID, Cause: ev.Cause}, nil
	case eventschemas.CrawlSucceeded:
		return Change{CrawlID: ev.CrawlID, Source: ev.FinalURL, Evidence: ev.Evidence}, &ev.Record
	case eventschemas.CrawlConfirmed:
		return Change{CrawlID: ev.CrawlID}, nil
	case eventschemas.CrawlFailed:
		return Change{CrawlID: ev.CrawlID, Outcome: brand.OutcomeOf(ev), Detail: ev.Detail}, nil
	case eventschemas.BrandImported:
		return Change{Source: ev.Source, Evidence: ev.Evidence}, &ev.Record
	case eventschemas.FieldOverridden:
		return Change{Fields: []FieldChange{{Field: ev.Field, After: json.RawMessage(ev.Value)}}, Reason: ev.Reason},
			nil
	case eventschemas.OverrideRemoved:
		return Change{Fields: []FieldChange{{Field: ev.Field}}}, nil
	}
	return Change{}, nil
}

func fieldsOf(record *eventschemas.Record) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	return fields, json.Unmarshal(text, &fields)
}

// differences returns the fields that differ, by name.
func differences(before, after map[string]json.RawMessage) []FieldChange {
	var changed []FieldChange
	for name, value := range after {
		if old := before[name]; !bytes.Equal(old, value) && !(before == nil && isEmpty(value)) {
			changed = append(changed, FieldChange{name, old, value})
		}
	}
	slices.SortFunc(changed, func(a, b FieldChange) int { return strings.Compare(a.Field, b.Field) })
	return changed
}

// isEmpty reports whether a field of a first record has nothing in it.
func isEmpty(value json.RawMessage) bool {
	return slices.Contains([]string{"null", "[]", "false", "0", `""`}, string(value))
}
