package refresh

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

var charges = eventlog.Filter{EventTypes: []string{eventschemas.CreditsCharged{}.EventType()}}

// Run works until ctx ends, then returns nil. After a fault it goes on where it was, after a growing wait.
//
// Errors: eventlog.ErrClosed; eventschemas.ErrUnknownType and ErrUnknownVersion when a charge was written by
// a newer release.
func (r *Refresher) Run(ctx context.Context) error {
	if r.cfg.Off {
		<-ctx.Done()
		return nil
	}
	defer r.save(context.WithoutCancel(ctx)) // so that the next start begins where this one ended
	wait := retryAfter
	for {
		before := r.at
		err := r.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if hopeless(err) {
			return fmt.Errorf("refresh: %w", err)
		}
		if r.at > before {
			wait = retryAfter // it went well meanwhile
		}
		r.cfg.Logger.Error("refresher starts again", "wait", wait, "error", err)
		if pause(ctx, wait/2+rand.N(wait/2+1)) != nil {
			return nil
		}
		wait = min(2*wait, maxRetryAfter)
	}
}

// hopeless says that no later attempt would do better.
func hopeless(err error) bool {
	return errors.Is(err, eventlog.ErrClosed) || errors.Is(err, eventschemas.ErrUnknownType) || errors.Is(err, eventschemas.ErrUnknownVersion)
}

// begin finds out where to read on.
func (r *Refresher) begin(ctx context.Context) error {
	saved, _, err := r.checkpoints.Load(ctx, checkpoint)
	if err != nil {
		return fmt.Errorf("load checkpoint: %w", err)
	}
	head, err := r.log.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the head of the log: %w", err)
	}
	if saved > head { // an older log was put in place
		r.cfg.Logger.Warn("the checkpoint is past the log; the refresher begins at the log's head", "checkpoint", saved, "head", head)
		saved = head
	}
	r.begun, r.at, r.saved, r.savedAt = true, saved, saved, time.Now()
	return nil
}

// follow reads charges until something fails or ctx ends.
func (r *Refresher) follow(ctx context.Context) error {
	if !r.begun {
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	subscription, err := r.log.Subscribe(ctx, r.at, charges)
	if err != nil {
		return fmt.Errorf("subscribe after position %d: %w", r.at, err)
	}
	defer subscription.Close()
	seen := map[string]time.Time{}
	for {
		batch, err := subscription.Next(ctx)
		if err != nil {
			return fmt.Errorf("read after position %d: %w", r.at, err)
		}
		for _, ev := range batch.Events {
			if err := r.charged(ctx, ev, seen); err != nil {
				return err
			}
			r.at = ev.Position
			r.saveInTime(ctx)
		}
		r.at = max(r.at, batch.Position)
		r.saveInTime(ctx)
	}
}

func (r *Refresher) saveInTime(ctx context.Context) {
	if time.Since(r.savedAt) >= saveEvery {
		r.save(ctx)
	}
}

// save keeps the position, when there is news. A save that fails is made up for by a later one.
func (r *Refresher) save(ctx context.Context) {
	if r.at <= r.saved {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	err := r.checkpoints.Save(ctx, checkpoint, r.at)
	r.savedAt = time.Now()
	if err != nil {
		r.cfg.Logger.Warn("the position of the refresher could not be saved", "position", r.at, "error", err)
		return
	}
	r.saved = r.at
}

// charged looks at one charge and asks for a crawl when its brand was imported and never crawled.
func (r *Refresher) charged(ctx context.Context, recorded eventlog.Recorded, seen map[string]time.Time) error {
	ev, err := eventschemas.Decode(recorded.Type, recorded.SchemaVersion, recorded.Data)
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
	requested, err := r.look(ctx, recorded, charge.Domain)
	switch {
	case away(ctx, err):
		return err // and the charge is looked at again
	case err != nil:
		r.skip(recorded, charge.Domain, err)
		return nil
	case !requested:
		return nil
	}
	return pause(ctx, r.cfg.Every)
}

// away says that no other brand would do better now.
func away(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	return ctx.Err() != nil || errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrAmbiguous) || errors.Is(err, eventlog.ErrClosed)
}

// skip passes over a charge. Its brand is looked at again when somebody looks it up later.
func (r *Refresher) skip(charge eventlog.Recorded, domain string, err error) {
	r.skipped.Inc()
	r.cfg.Logger.Error("a charged brand is skipped", "stream", charge.Stream, "revision", charge.Revision, "domain", domain, "error", err)
}

// look asks for a crawl of a brand that is due for one, as soon as there is room for it.
func (r *Refresher) look(ctx context.Context, charge eventlog.Recorded, domain string) (requested bool, err error) {
	due, err := r.due(ctx, domain)
	if err != nil || !due {
		return false, err
	}
	waited, err := r.room(ctx)
	if err != nil {
		return false, err
	}
	if waited { // somebody may have crawled it meanwhile
		if due, err = r.due(ctx, domain); err != nil || !due {
			return false, err
		}
	}
	return true, r.request(ctx, charge, domain)
}

// due says whether a brand was imported, and no crawl has found it, is under way or has just failed.
func (r *Refresher) due(ctx context.Context, domain string) (bool, error) {
	b, err := r.brands.State(ctx, domain)
	if err != nil {
		return false, fmt.Errorf("fold brand %s: %w", domain, err)
	}
	if b.Withdrawn() || b.Crawled() || b.Imported() == nil {
		return false, nil
	}
	if _, _, _, running := b.Running(); running {
		return false, nil
	}
	_, _, remembered := b.Remembered(r.cfg.Now())
	return !remembered, nil
}

func (r *Refresher) request(ctx context.Context, charge eventlog.Recorded, domain string) error {
	crawl, err := r.brands.RequestCrawl(ctx, commands.RequestCrawl{
		Request: commands.Request{ID: charge.ID.String(), Actor: actor, CorrelationID: charge.Metadata.CorrelationID, CausationID: charge.ID.String()},
		Domain:  domain, Cause: brand.CauseSchedule, Lane: brand.LaneRefresh, Allowed: r.cfg.Allowed,
	})
	var remembered *brand.RememberedError
	switch {
	case err == nil:
		r.opened(domain, crawl, charge.Position)
		if !crawl.Joined {
			r.requested.Inc()
			r.cfg.Logger.Info("background crawl requested", "domain", domain, "crawl_id", crawl.ID)
		}
		return nil
	case errors.Is(err, brand.ErrWithdrawn), errors.Is(err, brand.ErrAlreadyKnown), errors.As(err, &remembered):
		return nil // decided meanwhile
	}
	return fmt.Errorf("request a crawl of %s: %w", domain, err)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
