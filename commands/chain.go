package commands

import (
	"letterhead/commands/streamwriter"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// Chain is the hash chain of accounts.
var Chain streamwriter.Chain = func(
	head eventschemas.Hash, stream string, revision uint64, ev *eventlog.Proposed,
) eventschemas.Hash {
	return chainLink(stream, revision, ev).Next(head)
}

// ChainLink returns the part of a recorded event that the chain covers.
func ChainLink(rec *eventlog.Recorded) eventschemas.ChainLink {
	return chainLink(rec.Stream, rec.Revision, &rec.Proposed)
}

// chainLink returns the part of an event that the chain covers.
func chainLink(stream string, revision uint64, ev *eventlog.Proposed) eventschemas.ChainLink {
	return eventschemas.ChainLink{
		Stream:        stream,
		Revision:      revision,
		EventID:       ev.ID,
		Type:          ev.Type,
		SchemaVersion: ev.SchemaVersion,
		OccurredAt:    ev.OccurredAt,
		Actor:         ev.Metadata.Actor,
		RequestID:     ev.Metadata.RequestID,
		Data:          ev.Data,
	}
}
