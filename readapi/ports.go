package readapi

import (
	"context"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/assets"
	"letterhead/projections/brands"
	"letterhead/projections/changes"
	"letterhead/projections/keys"
	"letterhead/projections/search"
	"letterhead/projections/usage"
	"letterhead/readapi/logo"
)

// Interfaces of the other parts, reduced to the methods used here. Their own packages document each
// method and its errors.
type (
	// Desk decides about credits; *commands.AccountWriter.
	Desk interface {
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

	// UsageDesk counts searches and logos durably; *commands.QuotaWriter.
	UsageDesk interface {
		CountSearch(ctx context.Context, accountID string, at time.Time, limit int64) (used int64, err error)
		CountLogo(ctx context.Context, accountID string, at time.Time, limit int64) error
		ReturnLogo(accountID string, at time.Time)
		Searches(ctx context.Context, accountID, month string) (int64, error)
		SearchesSeen(ctx context.Context, accountID, month string) (int64, error)
	}

	// UsageRecorder records usage in the background; *commands.UsageRecorder. It never blocks.
	UsageRecorder interface {
		KeyUsed(accountID, keyID string, at time.Time)
		Logo(accountID string, at time.Time)
	}

	// BrandCommands are the use cases of brands; *commands.Brands.
	BrandCommands interface {
		State(ctx context.Context, domain string) (*brand.Brand, error)
		StateAt(ctx context.Context, domain string, revision uint64) (*brand.Brand, error)
		RequestCrawl(ctx context.Context, in commands.RequestCrawl) (commands.Crawl, error)
		ExpireCrawl(ctx context.Context, domain, crawlID string) error
	}

	// BrandIndex is the read model of brands; projections/brands.
	BrandIndex interface {
		Get(ctx context.Context, domain string) (*brands.Entry, error)
		ByID(ctx context.Context, id uuid.UUID) (*brands.Entry, error)
	}

	// KeyDirectory finds keys by the hash of the sent key; projections/keys. An error means that the
	// key could not be checked, not that it is invalid.
	KeyDirectory interface {
		Lookup(ctx context.Context, hash [32]byte) (k keys.Key, found bool, err error)
	}

	// UsageCounts returns the recorded usage of a month; projections/usage.
	UsageCounts interface {
		Get(ctx context.Context, accountID, month string) (usage.Counts, error)
	}

	// Searcher finds brands by name or domain, best first; projections/search.
	Searcher interface {
		Search(ctx context.Context, q string, limit int) ([]search.Hit, error)
	}

	// AssetStore stores logos and images; *assets.Store.
	AssetStore interface {
		Open(ctx context.Context, id, ext string) (*assets.Reader, error)
	}

	// LogoStudio draws logos; *logo.Studio.
	LogoStudio interface {
		Draw(ctx context.Context, b logo.Brand, o logo.Options) (logo.Picture, error)
	}

	// Changes reports live changes of brand streams; projections/changes.
	Changes interface {
		Watch(domain string) *changes.Watch
		Withdrawn(domain string) bool
	}
)
