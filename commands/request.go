package commands

import (
	"errors"
	"fmt"

	"letterhead/internal/eventlog"
)

// maxRequestText bounds each field of a Request, in bytes: the events of one command carry it many times.
const maxRequestText = 128

// Request says who asks. It becomes the metadata of the events.
type Request struct {
	ID            string // minted for each request, never taken from a client
	Actor         string // account:<id>, operator:<name>, system:<part>
	CorrelationID string // optional
	CausationID   string // optional
}

// Validate returns ErrInvalidRequest for a request without id or actor, or with one that is too long.
func (r Request) Validate() error {
	var errs []error
	for _, field := range []struct {
		name, value string
		required    bool
	}{
		{"request id", r.ID, true}, {"actor", r.Actor, true},
		{"correlation id", r.CorrelationID, false}, {"causation id", r.CausationID, false},
	} {
		if field.required && field.value == "" {
			errs = append(errs, fmt.Errorf("%w: %s is missing", ErrInvalidRequest, field.name))
		}
		if len(field.value) > maxRequestText {
			errs = append(errs, fmt.Errorf("%w: %s is too long", ErrInvalidRequest, field.name))
		}
	}
	return errors.Join(errs...)
}

// metadata is the envelope's part that says who asked.
func (r Request) metadata() eventlog.Metadata {
	return eventlog.Metadata{RequestID: r.ID, Actor: r.Actor, CorrelationID: r.CorrelationID, CausationID: r.CausationID}
}

// Done is the outcome of a command on an account that is not a spend.
type Done struct {
	// Position to wait for in a projection, so that it shows the command's effect.
	Position eventlog.Position
	Balance  int64
	Repeated bool // it was so already; nothing was appended
}

// Actors of events that nobody asked for.
const (
	actorDesk      = "system:desk"
	actorUsageDesk = "system:usage-desk"
)
