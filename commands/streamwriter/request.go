package streamwriter

import (
	"errors"
	"fmt"

	"letterhead/internal/eventlog"
)

// MaxRequestText limits each field of a Request, in bytes: the events of one command contain it many times.
const MaxRequestText = 128

// Request identifies the request of a command and its actor. It becomes the metadata of the events.
type Request struct {
	ID            string // generated for each request, never taken from a client
	Actor         string // account:<id>, operator:<name>, system:<part>
	CorrelationID string // optional
	CausationID   string // optional
}

// Validate returns ErrInvalidRequest if the id or actor is missing or a field is too long.
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
		if len(field.value) > MaxRequestText {
			errs = append(errs, fmt.Errorf("%w: %s is too long", ErrInvalidRequest, field.name))
		}
	}
	return errors.Join(errs...)
}

// metadata returns the request as event metadata.
func (r Request) metadata() eventlog.Metadata {
	return eventlog.Metadata{RequestID: r.ID, Actor: r.Actor, CorrelationID: r.CorrelationID,
		CausationID: r.CausationID}
}
