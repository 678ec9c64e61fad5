package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"letterhead/adminapi"
	"letterhead/commands"
	domain "letterhead/domain/notices"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/safehttp"
	"letterhead/internal/webhook"
	"letterhead/node/datafolder"
	"letterhead/projections/notices"
	worker "letterhead/workers/notices"
)

const (
	// shownNotices limits the deliveries that NoticesOf returns.
	shownNotices = 50
	// maxRetryTurns limits the attempts of RetryNotice to append between the attempts of deliveries.
	maxRetryTurns = 16
)

// openNotices starts the part that delivers notices.
func (n *Node) openNotices(context.Context) ([]part, error) {
	client, err := safehttp.New(safehttp.Config{UserAgent: "Letterhead-Webhook/1.0 (+" + n.Config.BaseURL + ")", Denied: n.Config.CrawlDeny, Now: n.clock.Now})
	if err != nil {
		return nil, err
	}
	n.closing(func() error { client.Close(); return nil })
	senders := map[string]worker.Sender{domain.Webhook: &worker.Webhook{Client: client, Key: n.keyOfWebhooks, Now: n.clock.Now}}
	if n.Config.SMTP.IsSet() {
		senders[domain.Email] = &worker.Mail{Server: n.Config.SMTP, From: n.Config.MailFrom, BillingURL: n.Config.BillingURL, Now: n.clock.Now}
	}
	w, err := worker.New(worker.Config{Senders: senders, Now: n.clock.Now, Logger: n.logger, Registerer: n.metrics}, n.notices, n.Notices)
	if err != nil {
		return nil, err
	}
	return []part{n.led("notices", w.Run)}, nil
}

// keyOfWebhooks returns the key with which a webhook is signed, and logs why there is none.
func (n *Node) keyOfWebhooks() (webhook.Key, error) {
	key, err := n.signingKey()
	if err != nil {
		n.logger.Warn("a webhook cannot be signed", "error", err)
	}
	return key, err
}

// signingKey returns the key that signs webhooks of notices. It makes none: receivers would reject what a new key signs
// in place of one that was lost. Errors: adminapi.ErrNoNoticesKey, errLostNoticesKey, and those of the file.
func (n *Node) signingKey() (webhook.Key, error) {
	if !n.Config.NoticesKey.IsZero() {
		return n.Config.NoticesKey, nil
	}
	if n.Config.Shared() {
		return webhook.Key{}, adminapi.ErrNoNoticesKey
	}
	name := n.Config.NoticesKeyPath()
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return webhook.Key{}, fmt.Errorf("%s: %w", name, errLostNoticesKey)
	}
	if err != nil {
		return webhook.Key{}, err
	}
	key, err := webhook.ParseKey(string(text))
	if err != nil {
		return key, fmt.Errorf("%s: %w; restore the file, or remove it to have a new key made, and give receivers the new public key", name, err)
	}
	return key, nil
}

// errLostNoticesKey means that a data folder has no key that signs webhooks.
var errLostNoticesKey = errors.New(`the key that signs webhooks is missing: restore the file, or make a new one with "letterhead account notices --public-key" and give receivers the public key`)

// NoticesKey returns the key that signs webhooks of notices, which it makes if it is kept in the data folder. Errors: as
// signingKey.
func (n *Node) NoticesKey() (webhook.Key, error) {
	n.noticesKeys.Lock()
	defer n.noticesKeys.Unlock()
	key, err := n.signingKey()
	if !errors.Is(err, errLostNoticesKey) {
		return key, err
	}
	if key, err = webhook.NewKey(rand.Reader); err != nil {
		return key, err
	}
	return key, datafolder.WriteFile(n.Config.NoticesKeyPath(), []byte(key.Private()+"\n"))
}

// SetNotices is commands.Notices.Set, after a check that there is a key if there is a webhook. Other errors: those of
// NoticesKey.
func (n *Node) SetNotices(ctx context.Context, in commands.SetNotices) (commands.Done, error) {
	if in.Webhook != nil && *in.Webhook != "" {
		if _, err := n.NoticesKey(); err != nil {
			return commands.Done{}, err
		}
	}
	return n.Notices.Set(ctx, in)
}

// NoticesOf returns the settings and the last notices of an account.
func (n *Node) NoticesOf(ctx context.Context, accountID string) (adminapi.Notices, error) {
	out := adminapi.Notices{Notices: []domain.Delivery{}}
	if err := errors.Join(n.AccountExists(ctx, accountID), n.Folded(ctx, notices.Name)); err != nil {
		return out, err
	}
	settings, err := n.notices.Get(ctx, accountID)
	if err != nil {
		return out, err
	}
	destinations, err := n.Notices.Destinations(ctx, accountID)
	if err != nil {
		return out, err
	}
	out.LowBalance, out.Webhook, out.Email = settings.LowBalance, destinations[domain.Webhook], destinations[domain.Email]
	latest, err := n.notices.Latest(ctx, accountID, shownNotices)
	if latest != nil {
		out.Notices = latest
	}
	return out, err
}

// RetryNotice has the dead-lettered deliveries of a notice attempted again, and returns how many there were. Errors:
// domain.ErrUnknown, domain.ErrNotDead, commands.ErrBusy, and those of commands.Notices.Append except
// eventlog.ErrWrongRevision. After an error, repeating the call completes it.
func (n *Node) RetryNotice(ctx context.Context, by commands.Request, accountID, noticeID string) (int, error) {
	total := 0
	for range maxRetryTurns {
		retried, err := n.reopen(ctx, by, accountID, noticeID)
		total += retried
		switch {
		case errors.Is(err, eventlog.ErrWrongRevision): // an attempt was recorded meanwhile
			continue
		case errors.Is(err, domain.ErrNotDead) && total > 0:
			err = nil
		}
		return total, err
	}
	return total, fmt.Errorf("retry notice %s of account %s: %d races lost: %w", noticeID, accountID, maxRetryTurns, commands.ErrBusy)
}

// reopen is RetryNotice, but it fails with eventlog.ErrWrongRevision if another event is appended meanwhile. It returns how
// many deliveries it has reopened before.
func (n *Node) reopen(ctx context.Context, by commands.Request, accountID, noticeID string) (int, error) {
	if err := n.Folded(ctx, notices.Name); err != nil {
		return 0, err
	}
	found, events, err := n.notices.Find(ctx, accountID, noticeID)
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
		if events, err = n.Notices.Append(ctx, by, accountID, events, eventschemas.NoticeReopened{NoticeID: noticeID, Destination: d.Destination}); err != nil {
			return retried, err
		}
		retried++
	}
	if retried == 0 {
		return 0, fmt.Errorf("%s: %w", noticeID, domain.ErrNotDead)
	}
	return retried, nil
}
