package commands

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/notices"
	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/eventlog"
	"letterhead/internal/safehttp"
)

// maxAddressBytes is the maximum length of an e-mail address (RFC 5321, section 4.5.3.1.3, without the brackets).
const maxAddressBytes = 254

// Notices implements the use cases of notices. The settings and deliveries of an account are on a separate stream;
// the destinations are personal data, and are kept with the names of account holders. It is safe for concurrent use.
type Notices struct {
	coldStreams
	accounts *AccountWriter
	names    *accountnames.Table
}

// NewNotices returns the commands for a log. events is as in AccountWriterConfig.
func NewNotices(log eventlog.Log, events eventschemas.Encoder, now func() time.Time, accounts *AccountWriter,
	names *accountnames.Table) *Notices {
	return &Notices{coldStreams{log, events, now}, accounts, names}
}

// DestinationID returns the id of a destination of an account in the table of names.
func DestinationID(accountID, destination string) string {
	return "notices-" + destination + ":" + accountID
}

// SetNotices is the command to set which notices an account's holder gets. A nil field changes nothing; an empty
// destination is removed and erased.
type SetNotices struct {
	Request        Request
	AccountID      string
	LowBalance     *int64  // credits below which the balance is low; 0 turns this notice off
	Webhook, Email *string // https URL and e-mail address
}

// Set sets which notices an account's holder gets. The destinations are stored after the event, so that a rejected
// command stores none; repeating the command after an error completes it.
//
// Errors: notices.ErrInvalid, account.ErrNotFound, account.ErrClosed, eventschemas.ErrNotYet, ErrBusy, and the errors
// of the log and of the table of names.
func (n *Notices) Set(ctx context.Context, in SetNotices) (Done, error) {
	if err := errors.Join(in.Request.Validate(), in.Validate()); err != nil {
		return Done{}, err
	}
	if err := n.accounts.checkOpen(ctx, in.AccountID); err != nil {
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
	if err = n.accounts.checkOpen(ctx, in.AccountID); errors.Is(err, account.ErrClosed) { // meanwhile
		err = errors.Join(err, n.Erase(ctx, in.AccountID))
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
		return fmt.Errorf("%w: the threshold is %d credits; it must not be negative, and 0 is none",
			notices.ErrInvalid, *in.LowBalance)
	}
	if in.Webhook != nil && *in.Webhook != "" {
		u, err := safehttp.CheckURL(*in.Webhook)
		if err != nil {
			return fmt.Errorf("%w: webhook: %w", notices.ErrInvalid, err)
		}
		if u.Scheme != "https" || len(*in.Webhook) > accountnames.MaxNameBytes {
			return fmt.Errorf("%w: a webhook is an https URL of at most %d bytes",
				notices.ErrInvalid, accountnames.MaxNameBytes)
		}
	}
	if in.Email != nil && *in.Email != "" && !isEmail(*in.Email) {
		return fmt.Errorf("%w: email is not an e-mail address such as billing@example.com (ASCII only)",
			notices.ErrInvalid)
	}
	return nil
}

// isEmail reports whether a text is one e-mail address and nothing else. ParseAddress also accepts a name before it.
func isEmail(text string) bool {
	address, err := mail.ParseAddress(text)
	return err == nil && address.Address == text && len(text) <= maxAddressBytes &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
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
func (n *Notices) decide(ctx context.Context, request Request, accountID string,
	begin func() (fold func(eventschemas.Event), next func() eventschemas.Event)) (Done, error) {
	c := onNotices(request, accountID)
	var next func() eventschemas.Event
	c.read = func(ctx context.Context) (end streamEnd, err error) {
		var fold func(eventschemas.Event)
		fold, next = begin()
		err = n.each(ctx, c.stream, 0, eventlog.End, func(rec *eventlog.Recorded, ev eventschemas.Event) {
			fold(ev)
			end = endOf(rec)
		})
		return end, err
	}
	c.decide = func(time.Time) ([]eventschemas.Event, error) {
		if ev := next(); ev != nil {
			return []eventschemas.Event{ev}, nil
		}
		return nil, nil
	}
	return n.do(ctx, c)
}

// onNotices returns a command on the stream of an account's notices. One request may append several events.
func onNotices(request Request, accountID string) *coldCommand {
	return &coldCommand{
		stream: notices.Stream(accountID), request: request, key: request.ID, numbered: true,
	}
}

// Append appends an event to the stream of an account's notices, which must have a number of events, and returns the
// new number. Each call needs another request id: if two nodes append the same, one gets
// eventlog.ErrWrongRevision.
// Other errors: ErrInvalidRequest, eventschemas.ErrNotYet, and the errors of the log.
func (n *Notices) Append(ctx context.Context, request Request, accountID string, events uint64,
	ev eventschemas.Event) (uint64, error) {
	if err := request.Validate(); err != nil {
		return 0, err
	}
	c := onNotices(request, accountID)
	end, err := n.end(ctx, c.stream)
	if err != nil {
		return 0, err
	}
	if end.events != events {
		return 0, &eventlog.WrongRevisionError{Stream: c.stream, Expected: eventlog.After(events)}
	}
	_, err = n.append(ctx, c, events, []eventschemas.Event{ev}, monotonic(n.now(), end.at))
	return events + 1, err
}

// Settle records the outcome of an attempt, whatever else was appended meanwhile, and returns the number of events of
// the stream. Errors: ErrBusy, and the errors of Append except eventlog.ErrWrongRevision.
func (n *Notices) Settle(ctx context.Context, request Request, accountID string,
	outcome eventschemas.NoticeSettled) (count uint64, err error) {
	if err := request.Validate(); err != nil {
		return 0, err
	}
	c := onNotices(request, accountID)
	c.read = func(ctx context.Context) (streamEnd, error) {
		end, err := n.end(ctx, c.stream)
		count = end.events + 1
		return end, err
	}
	c.decide = func(time.Time) ([]eventschemas.Event, error) { return []eventschemas.Event{outcome}, nil }
	_, err = n.do(ctx, c)
	return count, err
}

// end reads the end of a stream.
func (n *Notices) end(ctx context.Context, stream string) (streamEnd, error) {
	last, err := n.log.ReadStream(ctx, stream, eventlog.End, eventlog.Backward, 1)
	if err != nil || len(last) == 0 {
		return streamEnd{}, err
	}
	return endOf(&last[0]), nil
}
