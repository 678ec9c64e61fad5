// Package signinmail sends people links to sign in to the dashboard, at an e-mail address that operators have set.
package signinmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/mail"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"letterhead/domain/account"
	"letterhead/domain/signin"
	"letterhead/internal/delay"
	"letterhead/internal/email"
)

const (
	// maxWaiting limits the addresses that wait for their message.
	maxWaiting = 64
	// maxSending limits the messages that are made and sent at a time.
	maxSending = 4
	// maxLinks limits the links in a message.
	maxLinks = 10
	// attempts limits the attempts to make and send a message.
	attempts = 3
	// attemptTime limits an attempt.
	attemptTime = 30 * time.Second
	// DefaultPause is the time between two attempts.
	DefaultPause = 10 * time.Second
)

// ErrFull means that too many messages wait.
var ErrFull = errors.New("too many messages with sign-in links wait")

// Link signs a person in.
type Link struct {
	Person  signin.Person
	URL     string
	Expires time.Time
}

// Links finds people and issues their links.
type Links interface {
	// WithEmail returns the people of accounts who get links at an address.
	WithEmail(ctx context.Context, address string) ([]signin.Person, error)
	// Issue issues a link for a person. Errors: account.ErrNotFound, account.ErrClosed, signin.ErrTooManyLinks, and
	// others, after which a later call may succeed.
	Issue(ctx context.Context, of signin.Person) (Link, error)
}

// Config configures a Mailer. All fields but Pause are required.
type Config struct {
	Server  email.Server
	From    *mail.Address
	Service string // URL of the service
	Links   Links
	Now     func() time.Time
	Logger  *slog.Logger
	Pause   time.Duration // between two attempts; DefaultPause if 0
}

// Mailer sends the messages. It is safe for concurrent use.
type Mailer struct {
	Config
	waiting chan string
}

// New returns a mailer. Run sends what Send asks for.
func New(cfg Config) *Mailer {
	cfg.Pause = cmp.Or(cfg.Pause, DefaultPause)
	return &Mailer{cfg, make(chan string, maxWaiting)}
}

// Send queues a message with sign-in links for an address, which Run sends if accounts have that address. It returns at
// once, so that neither its result nor its duration reveals whether any has. Errors: ErrFull.
func (m *Mailer) Send(address string) error {
	select {
	case m.waiting <- address:
		return nil
	default:
		return ErrFull
	}
}

// Run sends messages until ctx ends. Messages that are still queued then are not sent.
func (m *Mailer) Run(ctx context.Context) error {
	var sending errgroup.Group
	sending.SetLimit(maxSending)
	for {
		select {
		case <-ctx.Done():
			return sending.Wait()
		case address := <-m.waiting:
			sending.Go(func() error {
				if err := m.deliver(ctx, address); err != nil && ctx.Err() == nil {
					m.Logger.WarnContext(ctx, "a message with sign-in links could not be sent", "error", err)
				}
				return nil
			})
		}
	}
}

// deliver makes a message and sends it.
func (m *Mailer) deliver(ctx context.Context, address string) (err error) {
	d := delivery{Mailer: m, address: address, done: map[signin.Person]bool{}}
	for attempt := 1; attempt <= attempts; attempt++ {
		if attempt > 1 {
			if err := delay.For(ctx, delay.Jittered(m.Pause)); err != nil {
				return err
			}
		}
		if err = d.attempt(ctx, attempt == attempts); err == nil || errors.Is(err, email.ErrRejected) {
			return err
		}
	}
	return fmt.Errorf("%d attempts: %w", attempts, err)
}

// delivery is a message that is being made.
type delivery struct {
	*Mailer
	address string
	done    map[signin.Person]bool // that have a link, or get none
	links   []Link
}

// attempt issues the links that earlier attempts did not issue, and sends the message. The last attempt sends the links
// that there are.
func (d *delivery) attempt(ctx context.Context, last bool) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	people, err := d.Links.WithEmail(ctx, d.address)
	if err != nil {
		return err
	}
	var failed error
	for _, person := range people[:min(len(people), maxLinks)] {
		if d.done[person] {
			continue
		}
		link, err := d.Links.Issue(ctx, person)
		switch {
		case errors.Is(err, account.ErrNotFound), errors.Is(err, account.ErrClosed):
			d.done[person] = true
		case errors.Is(err, signin.ErrTooManyLinks):
			d.done[person] = true
			d.Logger.WarnContext(ctx, "a sign-in link is not sent by e-mail, because there are too many",
				"account", person.AccountID, "person", person.ID, "error", err)
		case err != nil:
			failed = fmt.Errorf("link of account %s: %w", person.AccountID, err)
		default:
			d.done[person] = true
			d.links = append(d.links, link)
		}
	}
	if len(d.links) == 0 || failed != nil && !last {
		return failed
	}
	return errors.Join(failed, d.Server.Send(ctx, email.Message{
		From: d.From, To: d.address, ID: uuid.NewString(), At: d.Now(), Subject: "Your link to sign in",
		Text: d.text(d.links),
	}))
}

func (m *Mailer) text(links []Link) string {
	var b strings.Builder
	fmt.Fprintf(&b, "You asked to sign in to the dashboard of %s.\n\n", m.Service)
	for _, l := range links {
		switch {
		case len(links) > 1 && l.Person.ID != signin.Owner:
			fmt.Fprintf(&b, "Account %s, as %s:\n", l.Person.AccountID, l.Person.ID)
		case len(links) > 1:
			fmt.Fprintf(&b, "Account %s:\n", l.Person.AccountID)
		}
		fmt.Fprintf(&b, "%s\n\n", l.URL)
	}
	works := "The link works once, until"
	if len(links) > 1 {
		works = "Each link works once, until"
	}
	fmt.Fprintf(&b, "%s %s.\nIf you did not ask for it, ignore this message.\n",
		works, links[0].Expires.UTC().Format("2 January 2006 at 15:04 UTC"))
	return b.String()
}
