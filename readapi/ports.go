package readapi

import (
	"context"
	"iter"
	"time"

	"letterhead/domain/statement"
	"letterhead/internal/assets"
	"letterhead/projections/brands"
	"letterhead/projections/checkpoints"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/search"
	"letterhead/projections/usage"
	"letterhead/readapi/logo"
	"letterhead/readapi/lookup"
)

// Interfaces of the other parts, reduced to the methods used here. Their own packages document each
// method and its errors.
type (
	// Quotas counts searches and logos durably, within the plan; *commands.QuotaWriter.
	Quotas interface {
		lookup.Keyless
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

	// KeyDirectory finds keys by the hash of the sent key; projections/keys. An error means that the
	// key could not be checked, not that it is invalid.
	KeyDirectory interface {
		Lookup(ctx context.Context, hash [32]byte) (k keys.Key, found bool, err error)
	}

	// UsageCounts returns the recorded usage of a month; projections/usage.
	UsageCounts interface {
		Get(ctx context.Context, accountID, month string) (usage.Counts, error)
	}

	// Ledger shows the entries and statements of accounts; projections/ledger.
	Ledger interface {
		Entries(ctx context.Context, accountID string, f ledger.Filter) iter.Seq2[ledger.Entry, error]
		AsOf(ctx context.Context, accountID string, at time.Time) (ledger.Entry, error)
		Statement(ctx context.Context, accountID string, month, now time.Time) (*statement.Statement, error)
		StatementBefore(ctx context.Context, accountID string, month, end time.Time) (*statement.Statement, error)
	}

	// Crawls finds the crawls that requests waited for; projections/brands.
	Crawls interface {
		Crawls(ctx context.Context, waits []brands.Wait) ([]brands.Crawl, error)
	}

	// Searcher finds brands by name or domain, best first; projections/search.
	Searcher interface {
		Search(ctx context.Context, q string, limit int) ([]search.Hit, error)
	}

	// AssetStore stores logos and images; *assets.Store.
	AssetStore interface {
		Open(ctx context.Context, id, ext string) (*assets.Reader, error)
	}

	// Checkpoints has the signed checkpoints of the ledger; projections/checkpoints.
	Checkpoints interface {
		Last(ctx context.Context) (*checkpoints.Checkpoint, error)
	}

	// LogoRenderer draws logos; *logo.Renderer.
	LogoRenderer interface {
		Draw(ctx context.Context, b logo.Brand, o logo.Options) (logo.Image, error)
	}
)
