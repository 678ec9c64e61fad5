package commands

import (
	"context"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
)

// SucceedCrawl ends a crawl with the record that it found.
type SucceedCrawl struct {
	Request            Request
	Domain, CrawlID    string
	Record             eventschemas.Record
	Evidence           []eventschemas.Evidence
	FinalURL           string
	ETag, LastModified string
	ByConvention       *eventschemas.IconsByConvention
}

// SucceedCrawl appends CrawlSucceeded, or CrawlConfirmed if the record has no changes. The outcome of
// a crawl that has ended is a no-op, but a success after a timeout still counts.
//
// Errors: brand.ErrRecordTooLarge, and the errors of update.
func (b *Brands) SucceedCrawl(ctx context.Context, in SucceedCrawl) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.CrawlID, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.SucceedCrawl(brand.SucceedCrawl{
				CrawlID: in.CrawlID, Record: in.Record, Evidence: in.Evidence, FinalURL: in.FinalURL, ETag: in.ETag,
				LastModified: in.LastModified, ByConvention: in.ByConvention,
			})
		})
	return err
}

// ConfirmCrawl ends a crawl whose site reported no changes.
type ConfirmCrawl struct {
	Request         Request
	Domain, CrawlID string
}

// ConfirmCrawl appends CrawlConfirmed for the current record. The outcome of a crawl that has ended is
// a no-op, but a confirmation after a timeout still counts.
//
// Errors: brand.ErrInvalidCrawl if no crawl has found a record yet, and the errors of update.
func (b *Brands) ConfirmCrawl(ctx context.Context, in ConfirmCrawl) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.CrawlID, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.ConfirmCrawl(in.CrawlID)
		})
	return err
}

// FailCrawl ends a crawl without a record.
type FailCrawl struct {
	Request         Request
	Domain, CrawlID string
	Outcome         string // brand.Timeout …
	Detail          string // one sentence for operators; never fetched content
}

// FailCrawl appends CrawlFailed, including how long the failure is remembered. For a crawl that has
// ended it is a no-op.
//
// Errors: brand.ErrInvalidCrawl, and the errors of update.
func (b *Brands) FailCrawl(ctx context.Context, in FailCrawl) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.CrawlID, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.FailCrawl(brand.FailCrawl{CrawlID: in.CrawlID, Outcome: in.Outcome, Detail: in.Detail})
		})
	return err
}

// ExpireCrawl ends a crawl that exceeded its deadline, as a timeout, or as not begun. Before the deadline, and for a
// crawl that is not running, it is a no-op.
//
// Errors: as update and BrandsConfig.Begun.
func (b *Brands) ExpireCrawl(ctx context.Context, domain, crawlID string) error {
	begun, err := b.cfg.Begun(ctx, crawlID)
	if err != nil {
		return err
	}
	request := Request{ID: crawlID, Actor: "system:crawl-deadline"}
	_, err = b.update(ctx, domain, request,
		crawlID, func(state *brand.Brand, now time.Time) ([]eventschemas.Event, error) {
			return state.ExpireCrawl(crawlID, begun, now)
		})
	return err
}
