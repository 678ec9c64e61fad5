package commands

import (
	"context"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
)

// ClaimBrand marks a brand as claimed by its owner.
type ClaimBrand struct {
	Request Request
	Domain  string
}

// ClaimBrand appends BrandClaimed. Repeating it is a no-op.
//
// Errors: brand.ErrNoSuchBrand, brand.ErrWithdrawn, and the errors of update.
func (b *Brands) ClaimBrand(ctx context.Context, in ClaimBrand) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.Request.ID, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.Claim()
		})
	return err
}

// WithdrawBrand removes a brand permanently at its owner's request.
type WithdrawBrand struct {
	Request Request
	Domain  string
	Reason  string
}

// WithdrawBrand appends BrandWithdrawn, also for a brand that was never requested. Repeating it is a no-op.
//
// Errors: as update.
func (b *Brands) WithdrawBrand(ctx context.Context, in WithdrawBrand) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.Request.ID, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.Withdraw(in.Reason)
		})
	return err
}
