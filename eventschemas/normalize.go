package eventschemas

import (
	"slices"
	"time"
)

// normalized returns the event as it is stored: required slices are not nil, and times are UTC in whole
// microseconds. It does not modify the caller's slices, because other goroutines may use the same record.
func normalized(ev Event) Event {
	switch ev := ev.(type) {
	case CreditsHeld:
		ev.Deadline = wholeMicroseconds(ev.Deadline)
		return ev
	case UsageTicked:
		ev.Entries = mapped(ev.Entries, normalizedUsage)
		return ev
	case CrawlSucceeded:
		ev.Record = ev.Record.Normalized()
		ev.Evidence = notNil(ev.Evidence)
		if c := ev.ByConvention; c != nil {
			ev.ByConvention = &IconsByConvention{Assets: notNil(c.Assets), Linked: notNil(c.Linked)}
		}
		return ev
	case BrandImported:
		ev.Record = ev.Record.Normalized()
		ev.Evidence = notNil(ev.Evidence)
		return ev
	case LossAccepted:
		ev.Witnesses = notNil(ev.Witnesses)
		return ev
	case PeriodClosed:
		ev.Totals = notNil(ev.Totals)
		return ev
	default:
		return ev
	}
}

func normalizedUsage(e UsageEntry) UsageEntry {
	if len(e.KeysUsed) == 0 { // an optional field is omitted, not []
		e.KeysUsed = nil
		return e
	}
	e.KeysUsed = mapped(e.KeysUsed, func(k KeyUsed) KeyUsed {
		k.At = wholeMicroseconds(k.At)
		return k
	})
	return e
}

// Normalized returns the record with [] for every nil slice; r is not modified.
func (r Record) Normalized() Record {
	r.Links = notNil(r.Links)
	r.Colors = notNil(r.Colors)
	r.Logos = mapped(r.Logos, func(l Logo) Logo {
		l.Formats, l.Tags = notNil(l.Formats), notNil(l.Tags)
		return l
	})
	r.Images = mapped(r.Images, func(i Image) Image {
		i.Formats, i.Tags = notNil(i.Formats), notNil(i.Tags)
		return i
	})
	r.Fonts = mapped(r.Fonts, func(f Font) Font {
		f.Weights = notNil(f.Weights)
		return f
	})
	if r.Company != nil {
		c := *r.Company
		c.Industries, c.Tickers = notNil(c.Industries), notNil(c.Tickers)
		r.Company = &c
	}
	return r
}

func notNil[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return in
}

// mapped returns a new slice, never nil, of the converted elements.
func mapped[T any](in []T, change func(T) T) []T {
	out := slices.Clone(notNil(in))
	for i := range out {
		out[i] = change(out[i])
	}
	return out
}

// wholeMicroseconds truncates a time to the precision of the log, because EventStoreDB and SQL
// databases store no more digits.
func wholeMicroseconds(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
