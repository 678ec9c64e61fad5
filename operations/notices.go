package operations

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"letterhead/commands"
	domain "letterhead/domain/notices"
	"letterhead/eventschemas"
	"letterhead/internal/config"
	"letterhead/internal/disk"
	"letterhead/internal/eventlog"
	"letterhead/internal/webhook"
	"letterhead/projections/notices"
)

const (
	// shownNotices limits the deliveries that Of returns.
	shownNotices = 50
	// maxRetryTurns limits the attempts of Retry to append between the attempts of deliveries.
	maxRetryTurns = 16
)

// ErrNoNoticesKey means that nodes that share an event store have no key that signs webhooks.
var ErrNoNoticesKey = errors.New("nodes that share an event store sign webhooks with the same key: " +
	`set LETTERHEAD_NOTICES_KEY on all of them ("letterhead account notices --new-key" prints a key)`)

// NoticeSettings are the settings of an account's notices, and its last notices as they were delivered.
type NoticeSettings struct {
	LowBalance int64             `json:"low_balance"` // credits below which the balance is low; 0 for no notice of it
	Webhook    string            `json:"webhook"`     // URL; empty if there is none
	Email      string            `json:"email"`       // address; empty if there is none
	Notices    []domain.Delivery `json:"notices"`     // the newest first
}

// Notices are the use cases of accounts' notices.
type Notices struct {
	Reads    *Reads
	Commands *commands.Notices
	Model    *notices.Model
	Config   config.Config
	Logger   *slog.Logger

	keys sync.Mutex // guards the file of the key that signs webhooks
}

// SigningKey returns the key with which a webhook is signed, and logs why there is none.
func (o *Notices) SigningKey() (webhook.Key, error) {
	key, err := o.signingKey()
	if err != nil {
		o.Logger.Warn("a webhook cannot be signed", "error", err)
	}
	return key, err
}

// signingKey returns the key that signs webhooks of notices. It makes none: receivers would reject what a new key signs
// in place of one that was lost. Errors: ErrNoNoticesKey, errLostNoticesKey, and the errors of the file.
func (o *Notices) signingKey() (webhook.Key, error) {
	if !o.Config.NoticesKey.IsZero() {
		return o.Config.NoticesKey, nil
	}
	if o.Config.Shared() {
		return webhook.Key{}, ErrNoNoticesKey
	}
	name := o.Config.NoticesKeyPath()
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return webhook.Key{}, fmt.Errorf("%s: %w", name, errLostNoticesKey)
	}
	if err != nil {
		return webhook.Key{}, err
	}
	key, err := webhook.ParseKey(string(text))
	if err != nil {
		return key, fmt.Errorf(
			"%s: %w; restore the file, or remove it to have a new key made, and give receivers the new public key",
			name, err)
	}
	return key, nil
}

// errLostNoticesKey means that a data folder has no key that signs webhooks.
var errLostNoticesKey = errors.New(`the key that signs webhooks is missing: restore the file, or make a new one with "letterhead account notices --public-key" and give receivers the public key`)

// Key returns the key that signs webhooks of notices, which it makes if it is kept in the data folder. Errors: as
// signingKey.
func (o *Notices) Key() (webhook.Key, error) {
	o.keys.Lock()
	defer o.keys.Unlock()
	key, err := o.signingKey()
	if !errors.Is(err, errLostNoticesKey) {
		return key, err
	}
	if key, err = webhook.NewKey(rand.Reader); err != nil {
		return key, err
	}
	return key, disk.WriteText(o.Config.NoticesKeyPath(), key.Private()+"\n")
}

// Set is commands.Notices.Set, after a check that there is a key if there is a webhook. Other errors: as Key.
func (o *Notices) Set(ctx context.Context, in commands.SetNotices) (commands.Done, error) {
	if in.Webhook != nil && *in.Webhook != "" {
		if _, err := o.Key(); err != nil {
			return commands.Done{}, err
		}
	}
	return o.Commands.Set(ctx, in)
}

// Of returns the settings and the last notices of an account.
func (o *Notices) Of(ctx context.Context, accountID string) (NoticeSettings, error) {
	out := NoticeSettings{Notices: []domain.Delivery{}}
	if err := errors.Join(o.Reads.AccountExists(ctx, accountID), o.Reads.Folded(ctx, notices.Name)); err != nil {
		return out, err
	}
	settings, err := o.Model.Get(ctx, accountID)
	if err != nil {
		return out, err
	}
	destinations, err := o.Commands.Destinations(ctx, accountID)
	if err != nil {
		return out, err
	}
	out.LowBalance, out.Webhook, out.Email = settings.LowBalance, destinations[domain.Webhook],
		destinations[domain.Email]
	latest, err := o.Model.Latest(ctx, accountID, shownNotices)
	if latest != nil {
		out.Notices = latest
	}
	return out, err
}

// Retry has the dead-lettered deliveries of a notice attempted again, and returns how many there were. Errors:
// domain.ErrUnknown, domain.ErrNotDead, commands.ErrBusy, and the errors of commands.Notices.Append except
// eventlog.ErrWrongRevision. After an error, repeating the call completes it.
func (o *Notices) Retry(ctx context.Context, by commands.Request, accountID, noticeID string) (int, error) {
	total := 0
	for range maxRetryTurns {
		retried, err := o.reopen(ctx, by, accountID, noticeID)
		total += retried
		switch {
		case errors.Is(err, eventlog.ErrWrongRevision): // an attempt was recorded meanwhile
			continue
		case errors.Is(err, domain.ErrNotDead) && total > 0:
			err = nil
		}
		return total, err
	}
	return total, fmt.Errorf("retry notice %s of account %s: %d races lost: %w", noticeID, accountID,
		maxRetryTurns, commands.ErrBusy)
}

// reopen is Retry, but it fails with eventlog.ErrWrongRevision if another event is appended meanwhile. It returns how
// many deliveries it has reopened before.
func (o *Notices) reopen(ctx context.Context, by commands.Request, accountID, noticeID string) (int, error) {
	if err := o.Reads.Folded(ctx, notices.Name); err != nil {
		return 0, err
	}
	found, events, err := o.Model.Find(ctx, accountID, noticeID)
	if err != nil {
		return 0, err
	}
	if len(found) == 0 {
		return 0, fmt.Errorf("%s: %w", noticeID, domain.ErrUnknown)
	}
	retried := 0
	for _, d := range found {
		if d.State != domain.DeadLettered {
			continue
		}
		if events, err = o.Commands.Append(ctx, by, accountID, events,
			eventschemas.NoticeReopened{NoticeID: noticeID, Destination: d.Destination}); err != nil {
			return retried, err
		}
		retried++
	}
	if retried == 0 {
		return 0, fmt.Errorf("%s: %w", noticeID, domain.ErrNotDead)
	}
	return retried, nil
}
