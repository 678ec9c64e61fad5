package commands

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"strconv"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/notices"
	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/eventlog"
	"letterhead/internal/safehttp"
)

const (
	// maxNoticeTurns limits the attempts to append to a stream of notices.
	maxNoticeTurns = 16
	// maxAddressBytes is the maximum length of an e-mail address (RFC 5321, section 4.5.3.1.3, without the brackets).
	maxAddressBytes = 254
	// noticesPage is the number of events of a stream of notices per read.
	noticesPage = 512
)

// Notices implements the use cases of notices. The settings and deliveries of an account are on a stream of their own; the
// destinations are personal data, and are kept with the names of account holders. It is safe for concurrent use.
type Notices struct {
	log      eventlog.Log
	events   eventschemas.Encoder
	now      func() time.Time
	accounts *AccountWriter
	names    *accountnames.Table
}

// NewNotices returns the commands for a log. events is as in AccountWriterConfig.
func NewNotices(log eventlog.Log, events eventschemas.Encoder, now func() time.Time, accounts *AccountWriter, names *accountnames.Table) *Notices {
	return &Notices{log, events, now, accounts, names}
}

// DestinationID returns the id of a destination of an account in the table of names.
func DestinationID(accountID, destination string) string {
	return "notices-" + destination + ":" + accountID
}

// SetNotices is the command to set which notices an account's holder gets. What is nil stays; an empty destination is
// removed and erased.
type SetNotices struct {
	Request        Request
	AccountID      string
	LowBalance     *int64  // credits below which the balance is low; 0 for no notice of it
	Webhook, Email *string // https URL and e-mail address
}

// Set sets which notices an account's holder gets. The destinations are stored after the event, so that a rejected command
// stores none; repeating the command after an error completes it.
//
// Errors: notices.ErrInvalid, account.ErrNotFound, account.ErrClosed, eventschemas.ErrNotYet, ErrBusy, and those of the log
// and of the table of names.
func (n *Notices) Set(ctx context.Context, in SetNotices) (Done, error) {
	if err := errors.Join(in.Request.Validate(), in.Validate()); err != nil {
		return Done{}, err
	}
	standing, err := n.accounts.Standing(ctx, in.AccountID)
	if err == nil && standing.Status == string(account.Closed) {
		err = account.ErrClosed
	}
	if err != nil {
		return Done{}, err
	}
	done, err := n.set(ctx, in)
	if err != nil {
		return Done{}, err
	}
	for destination, value := range map[string]*string{notices.Webhook: in.Webhook, notices.Email: in.Email} {
		if value == nil {
			continue
		}
		if err := n.keep(ctx, DestinationID(in.AccountID, destination), *value); err != nil {
			return done, err
		}
	}
	if standing, err = n.accounts.Standing(ctx, in.AccountID); err == nil && standing.Status == string(account.Closed) { // meanwhile
		err = errors.Join(account.ErrClosed, n.Erase(ctx, in.AccountID))
	}
	return done, err
}

func (n *Notices) keep(ctx context.Context, id, value string) error {
	if value == "" {
		return n.names.Erase(ctx, id)
	}
	return n.names.Put(ctx, id, value)
}

// Erase erases the destinations of an account.
func (n *Notices) Erase(ctx context.Context, accountID string) error {
	for _, destination := range notices.Destinations {
		if err := n.names.Erase(ctx, DestinationID(accountID, destination)); err != nil {
			return err
		}
	}
	return nil
}

// Destinations returns the destinations of an account: its URL and its address, by destination.
func (n *Notices) Destinations(ctx context.Context, accountID string) (map[string]string, error) {
	ids := make([]string, len(notices.Destinations))
	for i, destination := range notices.Destinations {
		ids[i] = DestinationID(accountID, destination)
	}
	names, err := n.names.Names(ctx, ids...)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for i, destination := range notices.Destinations {
		if value := names[ids[i]]; value != "" {
			found[destination] = value
		}
	}
	return found, nil
}

// Validate checks the settings that are given. Errors: notices.ErrInvalid.
func (in SetNotices) Validate() error {
	if in.LowBalance != nil && *in.LowBalance < 0 {
		return fmt.Errorf("%w: the threshold is %d credits; it must not be negative, and 0 is none", notices.ErrInvalid, *in.LowBalance)
	}
	if in.Webhook != nil && *in.Webhook != "" {
		u, err := safehttp.CheckURL(*in.Webhook)
		if err != nil {
			return fmt.Errorf("%w: webhook: %w", notices.ErrInvalid, err)
		}
		if u.Scheme != "https" || len(*in.Webhook) > accountnames.MaxNameBytes {
			return fmt.Errorf("%w: a webhook is an https URL of at most %d bytes", notices.ErrInvalid, accountnames.MaxNameBytes)
		}
	}
	if in.Email != nil && *in.Email != "" && !isEmail(*in.Email) {
		return fmt.Errorf("%w: an e-mail address looks like billing@example.com, in ASCII", notices.ErrInvalid)
	}
	return nil
}

// isEmail reports whether a text is one e-mail address and nothing else. ParseAddress also accepts a name before it.
func isEmail(text string) bool {
	address, err := mail.ParseAddress(text)
	return err == nil && address.Address == text && len(text) <= maxAddressBytes && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// set appends the new settings, unless nothing would change.
func (n *Notices) set(ctx context.Context, in SetNotices) (Done, error) {
	return n.decide(ctx, in.Request, in.AccountID, func() (func(eventschemas.Event), func() eventschemas.Event) {
		var old eventschemas.NoticesSet
		fold := func(ev eventschemas.Event) {
			if set, ok := ev.(eventschemas.NoticesSet); ok {
				old = set
			}
		}
		return fold, func() eventschemas.Event {
			next := old
			if in.LowBalance != nil {
				next.LowBalance = *in.LowBalance
			}
			if in.Webhook != nil {
				next.Webhook = *in.Webhook != ""
			}
			if in.Email != nil {
				next.Email = *in.Email != ""
			}
			if next == old && in.Webhook == nil && in.Email == nil { // another URL is a change
				return nil
			}
			return next
		}
	})
}

// decide appends the event that next returns when fold was called for each event of the stream of an account's notices;
// nothing if it is nil. If another event was appended meanwhile, it begins again with begin.
func (n *Notices) decide(ctx context.Context, request Request, accountID string, begin func() (fold func(eventschemas.Event), next func() eventschemas.Event)) (Done, error) {
	for range maxNoticeTurns {
		fold, next := begin()
		var last eventlog.Recorded
		count := uint64(0)
		err := eventlog.ReadPages(ctx, n.log, notices.Stream(accountID), noticesPage, func(page []eventlog.Recorded) error {
			for i := range page {
				ev, err := eventlog.Decode(&page[i], eventschemas.Decode)
				if err != nil {
					return err
				}
				fold(ev)
				last, count = page[i], page[i].Revision+1
			}
			return nil
		})
		if err != nil {
			return Done{}, fmt.Errorf("read %s: %w", notices.Stream(accountID), err)
		}
		ev := next()
		if ev == nil {
			return Done{Position: last.Position, Repeated: true}, nil
		}
		_, position, err := n.append(ctx, request, accountID, &count, ev)
		if !errors.Is(err, eventlog.ErrWrongRevision) {
			return Done{Position: position}, err
		}
	}
	return Done{}, fmt.Errorf("append to %s: %d races lost: %w", notices.Stream(accountID), maxNoticeTurns, ErrBusy)
}

// Append appends an event to the stream of an account's notices, which must have a number of events, and returns the new
// number. Each call needs a request id of its own: of two nodes that append the same, one gets eventlog.ErrWrongRevision.
// Other errors: ErrInvalidRequest, eventschemas.ErrNotYet, and those of the log.
func (n *Notices) Append(ctx context.Context, request Request, accountID string, events uint64, ev eventschemas.Event) (uint64, error) {
	count, _, err := n.append(ctx, request, accountID, &events, ev)
	return count, err
}

// Settle records the outcome of an attempt, whatever else was appended meanwhile, and returns the number of events of the
// stream. Errors: ErrBusy, and those of Append except eventlog.ErrWrongRevision.
func (n *Notices) Settle(ctx context.Context, request Request, accountID string, outcome eventschemas.NoticeSettled) (uint64, error) {
	for range maxNoticeTurns {
		count, _, err := n.append(ctx, request, accountID, nil, outcome)
		if !errors.Is(err, eventlog.ErrWrongRevision) {
			return count, err
		}
	}
	return 0, fmt.Errorf("settle a notice of account %s: %d races lost: %w", accountID, maxNoticeTurns, ErrBusy)
}

// append appends an event after the last one. If events is not nil, the stream must have that number of events.
func (n *Notices) append(ctx context.Context, request Request, accountID string, events *uint64, ev eventschemas.Event) (count uint64, at eventlog.Position, err error) {
	if err := request.Validate(); err != nil {
		return 0, 0, err
	}
	stream := notices.Stream(accountID)
	last, err := n.log.ReadStream(ctx, stream, eventlog.End, eventlog.Backward, 1)
	if err != nil {
		return 0, 0, err
	}
	var then time.Time
	if len(last) > 0 {
		count, then = last[0].Revision+1, last[0].OccurredAt
	}
	if events != nil && *events != count {
		return 0, 0, &eventlog.WrongRevisionError{Stream: stream, Expected: eventlog.After(*events)}
	}
	key := request.ID + "/" + strconv.FormatUint(count, 10)
	proposed, err := propose(n.events, onNoticesStream, stream, []eventschemas.Event{ev}, request, key, monotonic(n.now(), then))
	if err != nil {
		return 0, 0, err
	}
	appended, err := appendKnown(ctx, n.log, stream, eventlog.After(count), proposed)
	return count + 1, appended.Position, err
}
