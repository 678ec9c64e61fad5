package eventlog

import "context"

// Prober reads the events that identify a log, to recognize a log that was read before. It returns an event
// written by another program with ErrCorrupt, as far as it can be read.
type Prober interface {
	// First returns the first event of the log, or false if the log is empty. Errors: as Log.ReadAll.
	First(ctx context.Context) (Recorded, bool, error)
	// Last returns the last event of the log, or false if the log is empty. Errors: as Log.ReadAll.
	Last(ctx context.Context) (Recorded, bool, error)
	// At returns the event of a stream at a revision, or false if the stream is shorter. Errors: as Log.ReadStream.
	At(ctx context.Context, stream string, revision uint64) (Recorded, bool, error)
	// End returns a position at or after the last event and before any event appended later. A store that
	// writes its own records may return the position of one of those. Errors: as Log.Head.
	End(ctx context.Context) (Position, error)
}

// Probe returns a Prober for a log. A log whose Head may be before positions that its subscriptions
// deliver, or that cannot read from any position, must be a Prober itself, and Probe returns it unchanged.
func Probe(log Log) Prober {
	if p, ok := log.(Prober); ok {
		return p
	}
	return prober{log}
}

type prober struct{ log Log }

func (p prober) First(ctx context.Context) (Recorded, bool, error) {
	for after := Position(0); ; {
		page, err := p.log.ReadAll(ctx, after, Filter{}, 1)
		switch {
		case err != nil:
			return Recorded{}, false, err
		case len(page.Events) > 0:
			return page.Events[0], true, nil
		case page.End:
			return Recorded{}, false, nil
		}
		after = page.Next
	}
}

func (p prober) Last(ctx context.Context) (Recorded, bool, error) {
	head, err := p.log.Head(ctx)
	if err != nil || head == 0 {
		return Recorded{}, false, err
	}
	page, err := p.log.ReadAll(ctx, head-1, Filter{}, 1)
	if err != nil || len(page.Events) == 0 {
		return Recorded{}, false, err
	}
	return page.Events[0], true, nil
}

func (p prober) At(ctx context.Context, stream string, revision uint64) (Recorded, bool, error) {
	events, err := p.log.ReadStream(ctx, stream, revision, Forward, 1)
	if err != nil || len(events) == 0 || events[0].Revision != revision {
		return Recorded{}, false, err
	}
	return events[0], true, nil
}

func (p prober) End(ctx context.Context) (Position, error) { return p.log.Head(ctx) }
