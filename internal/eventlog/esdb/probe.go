package esdb

import (
	"context"
	"math"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"letterhead/internal/eventlog"
)

// probeEvents is the number of records in one read for the first event. The server begins its log with a few itself.
const probeEvents = 64

// prober is a client that is not shared yet, as an eventlog.Prober.
type prober struct{ client *esdb.Client }

var _ eventlog.Prober = prober{}

func (n prober) First(ctx context.Context) (first eventlog.Recorded, found bool, err error) {
	defer recovered(&err)
	var from esdb.AllPosition = esdb.Start{}
	for {
		in, err := n.client.ReadAll(ctx, esdb.ReadAllOptions{From: from, Direction: esdb.Forwards}, probeEvents)
		if err != nil {
			return first, false, err
		}
		looked := 0
		err = receive(in, func(event *esdb.ResolvedEvent) (bool, error) {
			looked++
			from = startAt(position(event))
			first, found, err = fromClient(event)
			return !found, err
		})
		if err != nil || found || looked < probeEvents {
			return first, found, err
		}
	}
}

func (n prober) Last(ctx context.Context) (last eventlog.Recorded, found bool, err error) {
	defer recovered(&err)
	var from esdb.AllPosition = esdb.End{}
	for {
		events, err := readBack(ctx, n.client, from, probeEvents)
		if err != nil {
			return last, false, err
		}
		for _, event := range events {
			if e, ours, err := fromClient(event); ours || err != nil {
				return e, ours, err
			}
			from = startAt(position(event))
		}
		if len(events) < probeEvents {
			return last, false, nil
		}
	}
}

func (n prober) At(ctx context.Context, stream string,
	revision uint64) (held eventlog.Recorded, found bool, err error) {
	defer recovered(&err)
	if revision > math.MaxInt64 { // more than the server can count
		return held, false, nil
	}
	in, err := n.client.ReadStream(ctx, stream,
		esdb.ReadStreamOptions{From: esdb.Revision(revision), Direction: esdb.Forwards}, 1)
	if err != nil {
		return held, false, err
	}
	err = receive(in, func(event *esdb.ResolvedEvent) (bool, error) {
		held, found, err = fromClient(event)
		return false, err
	})
	return held, found && held.Revision == revision, err
}

// End implements eventlog.Prober: it returns the position of the last record, including records of other programs.
func (n prober) End(ctx context.Context) (end eventlog.Position, err error) {
	defer recovered(&err)
	events, err := readBack(ctx, n.client, esdb.End{}, 1)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	return position(events[0]), nil
}

// Log is an eventlog.Prober too.
var _ eventlog.Prober = (*Log)(nil)

func (l *Log) First(ctx context.Context) (eventlog.Recorded, bool, error) {
	return probe(ctx, l, "read the first event", prober.First)
}

func (l *Log) Last(ctx context.Context) (eventlog.Recorded, bool, error) {
	return probe(ctx, l, "read the last event", prober.Last)
}

func (l *Log) At(ctx context.Context, stream string, revision uint64) (eventlog.Recorded, bool, error) {
	return probe(ctx, l, "read "+stream, func(n prober, ctx context.Context) (eventlog.Recorded, bool, error) {
		return n.At(ctx, stream, revision)
	})
}

func (l *Log) End(ctx context.Context) (eventlog.Position, error) {
	end, err := read(ctx, l,
		func(ctx context.Context, m *member) (eventlog.Position, error) { return prober{m.client}.End(ctx) })
	if err != nil {
		return 0, readError(ctx, "read the end of the log", err)
	}
	return end, nil
}

func probe(ctx context.Context, l *Log, attempt string,
	ask func(prober, context.Context) (eventlog.Recorded, bool, error)) (eventlog.Recorded, bool, error) {
	type answer struct {
		event eventlog.Recorded
		found bool
	}
	a, err := read(ctx, l, func(ctx context.Context, m *member) (a answer, err error) {
		a.event, a.found, err = ask(prober{m.client}, ctx)
		return a, err
	})
	if err != nil {
		return a.event, a.found, readError(ctx, attempt, err)
	}
	return a.event, a.found, nil
}
