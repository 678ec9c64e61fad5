package refresh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

var charges = eventlog.Filter{EventTypes: []string{eventschemas.CreditsCharged{}.EventType()}}

// Run works until ctx ends, then returns nil. After a fault it continues where it was, after a growing wait.
//
// Errors: eventlog.ErrClosed; eventschemas.ErrUnknownType and ErrUnknownVersion if a charge was
// written by a newer release.
func (r *Refresher) Run(ctx context.Context) error {
	if r.cfg.Off {
		<-ctx.Done()
		return nil
	}
	defer r.done.SaveAtLast(ctx)
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	scheduled := make(chan error, 1)
	go func() {
		scheduled <- r.persist(working, r.keepFresh)
		cancel()
	}()
	followed := r.persist(working, r.follow)
	cancel()
	return errors.Join(followed, <-scheduled)
}

// persist runs loop until ctx ends, retrying after faults. If a loop has made progress since the last
// fault, the wait starts at its minimum.
func (r *Refresher) persist(ctx context.Context, loop func(ctx context.Context) (came bool, err error)) error {
	wait := retryAfter
	for {
		came, err := loop(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if permanent(err) {
			return fmt.Errorf("refresh: %w", err)
		}
		if came {
			wait = retryAfter
		}
		r.cfg.Logger.Error("refresher starts again", "wait", wait, "error", err)
		if delay.For(ctx, delay.Jittered(wait)) != nil {
			return nil
		}
		wait = min(2*wait, maxRetryAfter)
	}
}

// permanent reports whether retrying cannot help.
func permanent(err error) bool {
	return errors.Is(err, eventlog.ErrClosed) || errors.Is(err, eventschemas.ErrUnknownType) ||
		errors.Is(err, eventschemas.ErrUnknownVersion)
}

// follow reads charges until an error occurs or ctx ends.
func (r *Refresher) follow(ctx context.Context) (came bool, err error) {
	before := r.done.At
	err = r.charges(ctx)
	return r.done.At > before, err
}

func (r *Refresher) charges(ctx context.Context) error {
	if err := r.done.Begin(ctx, r.log); err != nil {
		return err
	}
	subscription, err := r.log.Subscribe(ctx, r.done.At, charges)
	if err != nil {
		return fmt.Errorf("subscribe after position %d: %w", r.done.At, err)
	}
	defer subscription.Close()
	seen := map[string]time.Time{}
	for {
		batch, err := subscription.Next(ctx)
		if err != nil {
			return fmt.Errorf("read after position %d: %w", r.done.At, err)
		}
		for _, ev := range batch.Events {
			if err := r.charged(ctx, ev, seen); err != nil {
				return err
			}
			r.done.At = ev.Position
			r.done.SaveInTime(ctx)
		}
		r.done.At = max(r.done.At, batch.Position)
		r.done.SaveInTime(ctx)
	}
}

// charged examines one charge and requests a crawl if its brand was imported and never crawled.
func (r *Refresher) charged(ctx context.Context, recorded eventlog.Recorded, seen map[string]time.Time) error {
	ev, err := eventlog.Decode(&recorded, eventschemas.Decode)
	if errors.Is(err, eventschemas.ErrDamaged) {
		r.skip(recorded, "", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s at position %d: %w", recorded.Type, recorded.Position, err)
	}
	charge, ok := ev.(eventschemas.CreditsCharged)
	now := r.cfg.Now()
	if last, known := seen[charge.Domain]; !ok || charge.Domain == "" || known && now.Sub(last) < seenFor {
		return nil
	}
	if len(seen) >= maxSeen {
		clear(seen)
	}
	seen[charge.Domain] = now
	err = r.ask(ctx, candidate{
		domain: charge.Domain, due: (*brand.Brand).OnlyImported, why: "looked_up", after: recorded.Position,
		request: commands.Request{ID: recorded.ID.String(), Actor: actor,
			CorrelationID: recorded.Metadata.CorrelationID, CausationID: recorded.ID.String()},
	})
	if err == nil || isUnavailable(ctx, err) {
		return err // after a fault the charge is examined again
	}
	r.skip(recorded, charge.Domain, err)
	return nil
}

// isUnavailable reports whether requests for other brands would fail now, too.
func isUnavailable(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	return ctx.Err() != nil || errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrAmbiguous) ||
		errors.Is(err, eventlog.ErrClosed)
}

// skip skips a charge. Its brand is examined again after a later look-up.
func (r *Refresher) skip(charge eventlog.Recorded, domain string, err error) {
	r.skipped.Inc()
	r.cfg.Logger.Error("a charged brand is skipped", "stream", charge.Stream, "revision", charge.Revision,
		"domain", domain, "error", err)
}

// ends selects the events that end a crawl.
var ends = eventlog.Filter{EventTypes: []string{
	eventschemas.CrawlSucceeded{}.EventType(), eventschemas.CrawlConfirmed{}.EventType(),
	eventschemas.CrawlFailed{}.EventType(),
}}

// outstanding is a crawl whose end has not been seen.
type outstanding struct {
	id       string
	deadline time.Time         // by the refresher's clock
	after    eventlog.Position // its end comes after this position
}

// opened remembers a crawl by its brand's stream, even one that was requested by another caller at the
// same time. Crawls of an earlier process are not known: right after a restart a few more may be open.
func (r *Refresher) opened(domain string, crawl commands.Crawl, after eventlog.Position) {
	r.open[brand.Stream(domain)] = outstanding{
		id: crawl.ID,
		// Counted from now: the time of the request may be from another node's clock.
		deadline: r.cfg.Now().Add(crawl.Allowed),
		// a joined crawl has no position, and was running when the brand was examined
		after: max(after, crawl.Position),
	}
}

// room waits until fewer than MaxOutstanding crawls are open: until one has ended on the log, or its
// deadline has passed. Crawls that queued behind slow ones would run out of time without an attempt.
func (r *Refresher) room(ctx context.Context) error {
	first, after := r.oldest()
	if len(r.open) < r.cfg.MaxOutstanding {
		return nil
	}
	subscription, err := r.log.Subscribe(ctx, after, ends)
	if err != nil {
		return fmt.Errorf("subscribe after position %d: %w", after, err)
	}
	defer subscription.Close()
	for len(r.open) >= r.cfg.MaxOutstanding {
		batch, err := eventlog.NextWithin(ctx, subscription, first.Sub(r.cfg.Now()))
		if err != nil {
			return fmt.Errorf("read the ends of crawls after position %d: %w", after, err)
		}
		for _, ev := range batch.Events {
			r.ended(ev)
		}
		after = max(after, batch.Position)
		first, _ = r.oldest()
	}
	return nil
}

// oldest forgets crawls whose deadline has passed. It returns the first deadline of the remaining
// crawls, and a position that precedes the end of each of them.
func (r *Refresher) oldest() (deadline time.Time, after eventlog.Position) {
	now, found := r.cfg.Now(), false
	for stream, c := range r.open {
		if !now.Before(c.deadline) {
			delete(r.open, stream)
			continue
		}
		if !found || c.deadline.Before(deadline) {
			deadline = c.deadline
		}
		if !found || c.after < after {
			after = c.after
		}
		found = true
	}
	return deadline, after
}

// ended forgets a crawl that an event ends.
func (r *Refresher) ended(recorded eventlog.Recorded) {
	open, ok := r.open[recorded.Stream]
	if !ok {
		return
	}
	ev, err := eventlog.Decode(&recorded, eventschemas.Decode)
	if err != nil {
		// Its deadline ends it.
		r.cfg.Logger.Error("the end of a crawl cannot be read", "stream", recorded.Stream,
			"revision", recorded.Revision, "error", err)
		return
	}
	if id, _ := brand.EndOf(ev); id == open.id {
		delete(r.open, recorded.Stream)
	}
}
