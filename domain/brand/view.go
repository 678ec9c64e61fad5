package brand

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"letterhead/eventschemas"
)

// URNPrefix precedes the id in a brand's URN.
const URNPrefix = "urn:letterhead:brand:"

// Statuses of a View.
const (
	StatusReady   = "ready"   // the record is complete
	StatusPartial = "partial" // parts are missing, or no crawl has confirmed an import yet
	StatusPending = "pending" // no record yet
	StatusFailed  = "failed"  // the last crawl failed; older data, if any, is shown
)

// View is a brand as answered by the API.
type View struct {
	ID     string
	Domain string
	URN    string
	// Status is empty for a withdrawn brand, which is answered as if it were unknown.
	Status  string
	Claimed bool
	// Record has the overrides applied. It shares memory with the brand and must not be modified.
	Record eventschemas.Record
	// Revision belongs to the last event that changed anything in the view: the stream folded up to it
	// gives the same view.
	Revision uint64
	// UpdatedAt is when the record was last found, confirmed, imported or changed by an override.
	UpdatedAt time.Time
}

// View returns the brand as answered by the API. Without a record (see Known) its Record is empty.
func (b *Brand) View() View {
	v := View{
		ID:        b.s.ID,
		Domain:    b.s.Domain,
		URN:       URNPrefix + b.s.ID,
		Claimed:   b.s.Claimed,
		Revision:  b.s.Revision,
		UpdatedAt: b.s.UpdatedAt,
	}
	if b.s.Record != nil {
		v.Record = overridden(*b.s.Record, b.s.Overrides)
	} else {
		v.Record = filled(eventschemas.Record{})
	}
	v.Status = b.status(v.Record.Complete)
	v.Record = clean(v.Record)
	return v
}

// ChangedAt reports whether the event with this revision changed the view of a brand that has or had a record.
func (b *Brand) ChangedAt(revision uint64) bool {
	return b.s.Revision == revision && !b.s.UpdatedAt.IsZero()
}

func (b *Brand) status(complete bool) string {
	switch {
	case b.s.Withdrawn:
		return ""
	case !b.Known() && b.s.LastFailed && b.s.Running == nil:
		return StatusFailed
	case !b.Known():
		return StatusPending
	case !b.s.Crawled:
		return StatusPartial // an import, even if a later crawl has failed
	case b.s.LastFailed:
		return StatusFailed
	case complete:
		return StatusReady
	default:
		return StatusPartial
	}
}

// MarshalJSON encodes the state: the same state always gives the same bytes, and a Brand decoded from
// them continues to fold as if it had folded from the first event.
func (b *Brand) MarshalJSON() ([]byte, error) { return json.Marshal(b.s) }

// UnmarshalJSON decodes the output of MarshalJSON. After an error the Brand is unchanged.
func (b *Brand) UnmarshalJSON(data []byte) error {
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("state of a brand: %w", err)
	}
	if s.Domain == "" || s.ID == "" {
		return fmt.Errorf("state of a brand: no domain or id")
	}
	*b = Brand{s: s}
	return nil
}

// filled returns the record without nil slices, and with a company unless it is restricted.
func filled(r eventschemas.Record) eventschemas.Record {
	if r.Company == nil && r.Restriction == nil {
		r.Company = eventschemas.EmptyCompany()
	}
	return r.Normalized()
}

// whole returns the record as events carry it.
func whole(r eventschemas.Record) eventschemas.Record { return clean(filled(r)) }

// LosesLogo reports whether the record that is held has a logo, other than icons that were found by convention, and a
// new record has none.
func LosesLogo(held *eventschemas.Record, found eventschemas.Record, icons *eventschemas.IconsByConvention) bool {
	return held != nil && !found.HasLogo() && slices.ContainsFunc(held.Logos, func(l eventschemas.Logo) bool {
		return len(l.Formats) > 0 && (icons == nil || !slices.Contains(icons.Assets, l.Formats[0].ID))
	})
}

// SameRecord reports whether b contains nothing new compared with a. The query and fragment of the
// share image are ignored, because sites sign that URL again on every visit.
func SameRecord(a, b eventschemas.Record) bool {
	x, errX := json.Marshal(unsigned(whole(a)))
	y, errY := json.Marshal(unsigned(whole(b)))
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func unsigned(r eventschemas.Record) eventschemas.Record {
	if r.OGImage != nil {
		bare, _, _ := strings.Cut(*r.OGImage, "#")
		bare, _, _ = strings.Cut(bare, "?")
		r.OGImage = &bare
	}
	return r
}

// fit sets the evidence of an event: sorted, and as much of it as fits. The least confident evidence is dropped first.
// The input is not modified.
func fit(evidence []eventschemas.Evidence, of *[]eventschemas.Evidence, event func() eventschemas.Event) error {
	byConfidence := slices.SortedStableFunc(slices.Values(evidence), func(a, b eventschemas.Evidence) int {
		return cmp.Or(cmp.Compare(b.Confidence, a.Confidence), compareEvidence(a, b))
	})
	var size int
	var failed error
	tooLarge := func(n int) bool {
		*of = sortedEvidence(byConfidence[:n])
		encoded, err := eventschemas.Encode(event())
		size, failed = len(encoded.Data), cmp.Or(failed, err)
		return failed != nil || size > MaxRecordEventBytes
	}
	n := len(byConfidence)
	if tooLarge(n) { // every dropped entry saves some bytes
		n = sort.Search(n, tooLarge) - 1
	}
	switch {
	case failed != nil:
		return failed
	case n < 0: // the search ended with an event without evidence
		return fmt.Errorf("%w: %d bytes without evidence, at most %d", ErrRecordTooLarge, size,
			MaxRecordEventBytes)
	}
	*of = sortedEvidence(byConfidence[:n])
	return nil
}

func sortedEvidence(in []eventschemas.Evidence) []eventschemas.Evidence {
	out := append([]eventschemas.Evidence{}, in...)
	slices.SortStableFunc(out, compareEvidence)
	return out
}

func compareEvidence(a, b eventschemas.Evidence) int {
	return cmp.Or(
		cmp.Compare(a.Field, b.Field),
		cmp.Compare(a.Source, b.Source),
		cmp.Compare(a.Method, b.Method),
		cmp.Compare(b.Confidence, a.Confidence),
	)
}
