package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/internal/eventlog"
)

const (
	// subscriptionPage bounds the events of one batch.
	subscriptionPage = 4096
	// A subscription retries a failed read after a delay that doubles from the first to the last.
	firstRetry = 10 * time.Millisecond
	lastRetry  = 2 * time.Second
)

type subscription struct {
	log    *Log
	filter eventlog.Filter
	at     eventlog.Position
	live   bool            // of the last batch
	begun  bool            // whether there was a batch
	life   context.Context // canceled by Close of the subscription or of the log
	end    context.CancelFunc
}

// Next implements eventlog.Subscription.
func (s *subscription) Next(ctx context.Context) (eventlog.Batch, error) {
	retry := firstRetry
	for {
		if s.life.Err() != nil {
			return eventlog.Batch{}, fmt.Errorf("subscription: %w", eventlog.ErrClosed)
		}
		if err := ctx.Err(); err != nil {
			return eventlog.Batch{}, err
		}
		news := s.log.news.wait()
		var again <-chan time.Time
		page, err := s.log.page(ctx, s.at, s.filter, subscriptionPage)
		switch {
		case errors.Is(err, eventlog.ErrUnavailable):
			s.log.cfg.Logger.Warn("event log subscription: read failed", "position", s.at, "error", err)
			news, again = nil, time.After(retry)
			retry = min(2*retry, lastRetry)
		case err != nil:
			return eventlog.Batch{}, err
		case page.Next > s.at, page.End != s.live, !s.begun:
			s.at, s.live, s.begun = page.Next, page.End, true
			return eventlog.Batch{Events: page.Events, Position: page.Next, Live: page.End}, nil
		}
		select {
		case <-news:
		case <-again:
		case <-ctx.Done():
		case <-s.life.Done():
		}
	}
}

// Close implements eventlog.Subscription. It may be called while Next waits.
func (s *subscription) Close() error {
	s.end()
	return nil
}
