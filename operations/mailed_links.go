package operations

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"

	"letterhead/commands"
	"letterhead/domain/signin"
	"letterhead/internal/ratelimit"
	"letterhead/workers/signinmail"
)

// Links by e-mail in a minute.
const (
	// maxClientMails limits the messages that are sent for one client.
	maxClientMails = 10
	// maxAddressMails limits the mails to one address. signin.MaxOpenMailed and signin.MaxMailedLinks limit the mails
	// to an account.
	maxAddressMails = 1
)

// MailedLinks are links to sign in that people ask for, by e-mail.
type MailedLinks struct {
	SignIns  *SignIns
	Mailer   *signinmail.Mailer
	Counters ratelimit.Counters
	Logger   *slog.Logger
}

// Links are the links that SignIns issues for messages; they implement signinmail.Links.
type Links struct {
	SignIns *SignIns
	// By returns the request of the people of an account.
	By func(accountID string) commands.Request
}

// WithEmail implements signinmail.Links.
func (l Links) WithEmail(ctx context.Context, address string) ([]signin.Person, error) {
	return l.SignIns.Commands.WithEmail(ctx, address)
}

// Issue implements signinmail.Links. The actor is the account, because one of its people asked for the link.
func (l Links) Issue(ctx context.Context, of signin.Person) (signinmail.Link, error) {
	token, expires, err := l.SignIns.Commands.IssueMailedLink(ctx, l.By(of.AccountID), of)
	return signinmail.Link{Person: of, URL: l.SignIns.loginURL(of.AccountID, token), Expires: expires}, err
}

// Send queues a message with links for the people who have an e-mail address. The address is personal data, so it is
// counted by its hash; the client is counted by its network address, as other visitors are.
//
// Only messages that are sent count against the limits and take a place in the queue, so requests with invented
// addresses cannot use up the limit of other people on the same network. An unknown address gets the same result after
// the same steps, so neither reveals whether it is known. For the same reason a message beyond a limit is only logged.
// Errors: ratelimit.ErrUnavailable, and the errors of the table of names.
func (m *MailedLinks) Send(ctx context.Context, address, client string) error {
	address = strings.ToLower(address)
	people, err := m.SignIns.Commands.WithEmail(ctx, address)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(address))
	limits := []struct {
		key ratelimit.Key
		max int64
	}{
		{ratelimit.Key{Scope: "sign-in-mail-addresses", ID: hex.EncodeToString(sum[:])}, maxAddressMails},
		{ratelimit.Key{Scope: "sign-in-mail-clients", ID: client}, maxClientMails},
	}
	if len(people) == 0 {
		for i := range limits {
			limits[i].key = ratelimit.Key{Scope: "sign-in-mail-unknown", ID: client}
		}
	}
	for _, limit := range limits {
		decision, taken := m.Counters.Take(ctx, limit.key, 1, limit.max)
		if taken != nil {
			return taken
		}
		if !decision.Allowed {
			err = cmp.Or(err, fmt.Errorf("the limit of %s in a minute is %d", limit.key.Scope, limit.max))
		}
	}
	if len(people) == 0 {
		return nil
	}
	if err == nil {
		err = m.Mailer.Send(address)
	}
	if err != nil {
		m.Logger.Warn("a link is not sent by e-mail",
			"account", people[0].AccountID, "person", people[0].ID, "client", client, "error", err)
	}
	return nil
}
