package lookup

import (
	"context"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/ratelimit"
	"letterhead/projections/brands"
	"letterhead/projections/brandwatch"
)

// Parts are the parts that look-ups use. All except CaughtUp are required.
type Parts struct {
	Credits  Credits
	Brands   Brands
	Index    Index
	Changes  Changes
	Counters ratelimit.Counters
	Keyless  Keyless
	// CaughtUp waits until the Index has every event that the log had at the time of the call. It is called before an
	// id is reported as unknown, because another node may just have answered it. Optional: nil if there are no other
	// nodes.
	CaughtUp func(ctx context.Context) error
}

// Interfaces of the other parts, reduced to the methods used here. Their own packages document each
// method and its errors.
type (
	// Credits decides about credits; *commands.AccountWriter.
	Credits interface {
		Reserve(ctx context.Context, accountID string) (*commands.Reservation, error)
		Confirm(ctx context.Context, r *commands.Reservation) error
		HoldCredits(ctx context.Context, in commands.HoldCredits) (commands.Hold, error)
		ChargeLookup(ctx context.Context, in commands.ChargeLookup) (commands.Receipt, error)
		Recall(ctx context.Context, in commands.Recall) ([]commands.Receipt, error)
		ReleaseHold(ctx context.Context, in commands.ReleaseHold) error
		ReleaseUndelivered(in commands.ReleaseHold) error
		ReverseUndelivered(in commands.UndeliveredCharge) error
		Standing(ctx context.Context, accountID string) (commands.Standing, error)
	}

	// Brands are the use cases of brands; *commands.Brands.
	Brands interface {
		State(ctx context.Context, domain string) (*brand.Brand, error)
		StateAt(ctx context.Context, domain string, revision uint64) (*brand.Brand, error)
		RequestCrawl(ctx context.Context, in commands.RequestCrawl) (commands.Crawl, error)
		ExpireCrawl(ctx context.Context, domain, crawlID string) error
	}

	// Index is the read model of brands; projections/brands.
	Index interface {
		Get(ctx context.Context, domain string) (*brands.Entry, error)
		ByID(ctx context.Context, id uuid.UUID) (*brands.Entry, error)
		Listed(ctx context.Context, symbol string) (domain string, whole bool, err error)
	}

	// Keyless counts crawls for callers without a key; *commands.QuotaWriter.
	Keyless interface {
		CountKeylessCrawl(ctx context.Context, at time.Time, limit int64) error
		ReturnKeylessCrawl(at time.Time)
	}

	// Changes reports live changes of brand streams; projections/brandwatch.
	Changes interface {
		Watch(domain string) *brandwatch.Watch
		Withdrawn(domain string) bool
	}
)
