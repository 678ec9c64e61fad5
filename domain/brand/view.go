package brand

import (
	"encoding/json"
	"fmt"
	"time"

	"letterhead/eventschemas"
)

// URNPrefix comes before the id in a brand's urn.
const URNPrefix = "urn:letterhead:brand:"

// What is shown of a brand.
const (
	StatusReady   = "ready"   // the record is complete
	StatusPartial = "partial" // parts are missing, or no crawl has confirmed an import yet
	StatusPending = "pending" // nothing is readable yet
	StatusFailed  = "failed"  // the last crawl failed; older data, if any, is shown
)

// View is a brand as it is answered.
type View struct {
	ID     string
	Domain string
	URN    string
	// Status is empty for a withdrawn brand, which is answered as if nothing were known.
	Status  string
	Claimed bool
	// Record has the overrides applied. It shares memory with the brand and must not be changed.
	Record eventschemas.Record
	// Revision is that of the last event that changed anything shown here: the stream folded up to it gives
	// the same view.
	Revision uint64
	// UpdatedAt is when the record was last found, confirmed, imported or changed by hand.
	UpdatedAt time.Time
}

// View returns the brand as it is answered. Without a record (see Known) its Record is empty.
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
		v.Record = whole(eventschemas.Record{})
	}
	v.Status = b.status(v.Record.Complete)
	return v
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
		return StatusPartial // an import, also when a crawl behind it has failed
	case b.s.LastFailed:
		return StatusFailed
	case complete:
		return StatusReady
	default:
		return StatusPartial
	}
}

// MarshalJSON writes the state: the same state always gives the same bytes, and a Brand that is read back
// from them goes on folding as if it had folded from the first event.
func (b *Brand) MarshalJSON() ([]byte, error) { return json.Marshal(b.s) }

// UnmarshalJSON reads what MarshalJSON wrote. After an error the Brand is as it was.
func (b *Brand) UnmarshalJSON(data []byte) error {
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("state of a brand: %w", err)
	}
	if s.Domain == "" || s.ID == "" {
		return fmt.Errorf("state of a brand: no domain or id")
	}
	b.s = s
	return nil
}
