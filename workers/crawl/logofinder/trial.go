package logofinder

import "letterhead/eventschemas"

// Trial is the result of one candidate.
type Trial struct {
	Candidate
	// Rejected is the reason why it is not a logo: missing, not an image, a
	// photograph, the same drawing as a better one. It is "" if it was chosen.
	Rejected      string
	Chosen        int    // its index among the record's logos, or -1
	Type          string // icon, symbol, logo, other; "" when no image was read
	Theme         string // of its ink; "" when its background decides, or unknown
	Format        string // of the file; "" when none was read
	Width, Height int    // pixels, 0 unknown
	AssetID       string // a stored form of it that browsers can show; "" if it was not chosen
}

// Stored is the result of a chosen image in a record.
type Stored struct {
	Place int // among the record's logos
	Logo  eventschemas.Logo
}

// Trials returns the result of each candidate, in the order of the candidates. read and rejected are parallel to the
// candidates: an image, or the reason why there is none. stored are the chosen ones that were kept.
func Trials(candidates []Candidate, read []*Image, rejected []error, s Selection, stored map[*Image]Stored) []Trial {
	out := make([]Trial, len(candidates))
	for i, c := range candidates {
		t, p := Trial{Candidate: c, Chosen: -1}, read[i]
		kept, isKept := stored[p]
		switch {
		case p == nil && rejected[i] != nil:
			t.Rejected = rejected[i].Error()
		case p == nil:
			t.Rejected = "not there"
		case isKept:
			t.Chosen = kept.Place
			if len(kept.Logo.Formats) > 0 {
				t.AssetID = kept.Logo.Formats[0].ID
			}
		case s.Dropped[p] != "":
			t.Rejected = s.Dropped[p]
		default:
			t.Rejected = "could not be stored"
		}
		if p != nil {
			t.Type, t.Theme, t.Format, t.Width, t.Height = p.Type(), p.Theme, string(p.Format), p.Width, p.Height
		}
		out[i] = t
	}
	return out
}
