package commands

import (
	"context"
	"encoding/json"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
)

// OverrideField sets one field of a brand's record manually.
type OverrideField struct {
	Request Request
	Domain  string
	Field   string // JSON name of the field; brand.Fields lists them
	Value   json.RawMessage
	Reason  string // may be empty; at most brand.MaxReasonBytes, kept forever
}

// OverrideField appends FieldOverridden. Repeating it is a no-op, unless it gives another reason.
//
// Errors: brand.ErrInvalidField, brand.ErrNoSuchBrand, brand.ErrWithdrawn, and the errors of update;
// eventschemas.ErrNotYet for a reason before an upgrade is finished.
func (b *Brands) OverrideField(ctx context.Context, in OverrideField) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.Request.ID+"/"+in.Field, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.Override(in.Field, in.Value, in.Reason)
		})
	return err
}

// RemoveOverride lets crawls set a field again.
type RemoveOverride struct {
	Request Request
	Domain  string
	Field   string
}

// RemoveOverride appends OverrideRemoved. Without an override it is a no-op.
//
// Errors: as OverrideField.
func (b *Brands) RemoveOverride(ctx context.Context, in RemoveOverride) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.Request.ID+"/"+in.Field, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.RemoveOverride(in.Field)
		})
	return err
}
