package engine

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"letterhead/internal/eventlog"
	"letterhead/projections"
)

// maxPrefixes limits the prefixes of streams that read models fold, which are bits of projections.Event.Set.
const maxPrefixes = bits.UintSize

// number gives the prefixes of the streams of a read model their bits.
func (r *Runner) number(p projections.Projection) error {
	for _, v := range p.Versions() {
		for _, prefix := range v.Streams {
			for _, other := range r.prefixes {
				if prefix != other && (strings.HasPrefix(prefix, other) || strings.HasPrefix(other, prefix)) {
					return fmt.Errorf("projection %q: streams %q overlap with %q", p.Name(), prefix, other)
				}
			}
			if !slices.Contains(r.prefixes, prefix) {
				r.prefixes = append(r.prefixes, prefix)
			}
		}
	}
	if len(r.prefixes) > maxPrefixes {
		return fmt.Errorf("projection %q: more than %d kinds of streams", p.Name(), maxPrefixes)
	}
	return nil
}

// set returns the set of streams that a version folds.
func (r *Runner) set(v *projections.Version) (set uint64) {
	for _, prefix := range v.Streams {
		set |= 1 << slices.Index(r.prefixes, prefix)
	}
	return set
}

func (r *Runner) decode(rec *eventlog.Recorded, into *projections.Event) {
	into.Recorded = rec
	for i, prefix := range r.prefixes {
		if subject, ok := strings.CutPrefix(rec.Stream, prefix); ok {
			into.Prefix, into.Subject, into.Set = prefix, subject, 1<<i
			break
		}
	}
	if into.Set == 0 {
		return // no read model folds it
	}
	into.Body, into.Err = eventlog.Decode(rec, r.cfg.Decode)
	if into.Err == nil && into.Body == nil {
		into.Err = fmt.Errorf("decode %s: no event", rec.Type)
	}
}
