package brand

import (
	"encoding/json"
	"fmt"
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
