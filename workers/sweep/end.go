package sweep

import (
	"context"
	"errors"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// sweep ends overdue holds and crawls. Those that could not be ended now are retried at the next
// sweep; if the log is unavailable, the rest is skipped.
func (s *Sweeper) sweep(ctx context.Context) {
	if s.releaseHolds(ctx) {
		s.endCrawls(ctx)
	}
}

// releaseHolds returns false if the log is unavailable.
func (s *Sweeper) releaseHolds(ctx context.Context) bool {
	for id, holds := range s.overdueHolds() {
		n, err := s.release(ctx, id)
		s.metrics.swept.WithLabelValues(whatHold).Add(float64(n))
		switch {
		case isUnavailable(ctx, err):
			s.cfg.Logger.Warn("the event log is unavailable; overdue holds are released later", "error", err)
			return false
		case permanent(err):
			s.cfg.Logger.Error("overdue holds cannot be released; look at the account", "account", id,
				"holds", len(holds), "error", err)
		case err != nil:
			s.cfg.Logger.Warn("overdue holds could not be released yet", "account", id, "error", err)
			continue
		case n == account.MaxReleases:
			continue // there may be more than one command releases
		}
		// They are removed now, not when their ends are read from the log, which is not read while memory is full.
		for _, key := range holds {
			delete(s.open.Holds, key)
		}
	}
	return true
}

// overdueHolds returns the keys of overdue holds, by account.
func (s *Sweeper) overdueHolds() map[string][]string {
	// Account writers decide in whole microseconds. Holds that are overdue here must be overdue there, or they
	// would be forgotten.
	now, due := s.cfg.Now().Truncate(time.Microsecond), map[string][]string{}
	for key, h := range s.open.Holds {
		if _, chosen := due[h.Account]; now.After(h.Deadline) && (chosen || len(due) < sweepBatch) {
			due[h.Account] = append(due[h.Account], key)
		}
	}
	return due
}

func (s *Sweeper) endCrawls(ctx context.Context) {
	now, looked := s.cfg.Now(), 0
	for domain, c := range s.open.Crawls {
		if !now.After(c.Deadline.Add(crawlSlack)) {
			continue
		}
		if looked++; looked > sweepBatch {
			return
		}
		err := s.expire(ctx, domain, c.ID)
		switch {
		case isUnavailable(ctx, err):
			s.cfg.Logger.Warn("the event log or the database is unavailable; overdue crawls are ended later", "error", err)
			return
		case permanent(err):
			s.cfg.Logger.Error("an overdue crawl cannot be ended; look at the brand", "domain", domain, "error", err)
		case err != nil:
			s.cfg.Logger.Warn("an overdue crawl could not be ended yet", "domain", domain, "error", err)
			continue
		default:
			s.metrics.swept.WithLabelValues(whatCrawl).Inc()
		}
		delete(s.open.Crawls, domain)
	}
}

func (s *Sweeper) release(ctx context.Context, accountID string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	return s.holds.ReleaseOverdue(ctx, accountID)
}

func (s *Sweeper) expire(ctx context.Context, domain, crawlID string) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	return s.crawls.ExpireCrawl(ctx, domain, crawlID)
}

// isUnavailable reports whether further commands would fail now, too.
func isUnavailable(ctx context.Context, err error) bool {
	return err != nil &&
		(ctx.Err() != nil || errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrClosed) ||
			errors.Is(err, sqlstore.ErrUnavailable))
}

// permanent reports whether later sweeps would fail, too: this release cannot decide on the stream.
func permanent(err error) bool {
	for _, fault := range []error{
		account.ErrNotFound, eventlog.ErrCorrupt, eventlog.ErrInvalid,
		eventschemas.ErrDamaged, eventschemas.ErrUnknownType, eventschemas.ErrUnknownVersion,
	} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}
