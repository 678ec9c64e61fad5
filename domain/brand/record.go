package brand

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"letterhead/eventschemas"
)

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

// fitting returns the evidence sorted, and as much of it as fits into the event that build makes of
// it. The least confident evidence is dropped first. The input is not modified.
func fitting(evidence []eventschemas.Evidence,
	build func([]eventschemas.Evidence) eventschemas.Event) ([]eventschemas.Evidence, error) {
	byConfidence := slices.SortedStableFunc(slices.Values(evidence), func(a, b eventschemas.Evidence) int {
		return cmp.Or(cmp.Compare(b.Confidence, a.Confidence), compareEvidence(a, b))
	})
	var size int
	var failed error
	tooLarge := func(n int) bool {
		encoded, err := eventschemas.Encode(build(sortedEvidence(byConfidence[:n])))
		size, failed = len(encoded.Data), cmp.Or(failed, err)
		return failed != nil || size > MaxRecordEventBytes
	}
	n := len(byConfidence)
	if tooLarge(n) { // every dropped entry saves some bytes
		n = sort.Search(n, tooLarge) - 1
	}
	switch {
	case failed != nil:
		return nil, failed
	case n < 0: // the search ended with an event without evidence
		return nil, fmt.Errorf("%w: %d bytes without evidence, at most %d", ErrRecordTooLarge, size,
			MaxRecordEventBytes)
	}
	return sortedEvidence(byConfidence[:n]), nil
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
