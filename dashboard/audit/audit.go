// Package audit shows how an account came to be what it is: its replay from the first event, the story of a request, and
// its use by day. The pages of customers and those of operators have all of them.
package audit

import (
	"context"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"letterhead/commands"
	"letterhead/dashboard/site"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/eventlog"
	"letterhead/projections/accounts"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/usage"
)

// Event is an event of an account that continues the hash chain.
type Event struct {
	eventlog.Recorded
	Head eventschemas.Hash // its hash
}

// Sources are what accounts are read from. All are required.
type Sources struct {
	Log      eventlog.Log
	Accounts *accounts.Model
	Names    *accountnames.Table
	Keys     *keys.Directory
	Ledger   *ledger.Model
	Counts   *usage.Model // what accounts used
	// Folded waits until the named read models have what the log has now.
	Folded func(ctx context.Context, names ...string) error
	Logger *slog.Logger
	Now    func() time.Time
	Limits Limits
}

// Auditor replays accounts, and traces requests to their holds, crawls and charges.
type Auditor struct {
	Sources
	ledgers *semaphore.Weighted
	replays *replays
}

// New returns an auditor, which Close ends.
func New(from Sources) *Auditor {
	a := &Auditor{Sources: from, ledgers: semaphore.NewWeighted(ledger.Reads())}
	a.replays = newReplays(a)
	return a
}

// Close ends what goes on in the background.
func (a *Auditor) Close() error {
	a.replays.close()
	return nil
}

// newest returns the revision of an account's last event. Errors: account.ErrNotFound, those of the log.
func (a *Auditor) newest(ctx context.Context, accountID string) (revision uint64, err error) {
	last, err := a.Log.ReadStream(ctx, account.Stream(accountID), eventlog.End, eventlog.Backward, 1)
	switch {
	case err != nil:
		return 0, err
	case len(last) == 0:
		return 0, fmt.Errorf("account %s: %w", accountID, account.ErrNotFound)
	}
	return last[0].Revision, nil
}

// page returns at most limit events of an account from a revision on, after it has checked that they continue the hash
// chain from head, the hash of the event before them. Errors: *streamwriter.ChainError, along with the events before
// the one at which the chain breaks; those of the log.
func (a *Auditor) page(ctx context.Context, accountID string, from uint64, head eventschemas.Hash,
	limit int) ([]Event, error) {
	stream := account.Stream(accountID)
	stored, err := a.Log.ReadStream(ctx, stream, from, eventlog.Forward, limit)
	if err != nil {
		return nil, err
	}
	page := make([]Event, 0, len(stored))
	for i := range stored {
		if head, err = commands.Chain.Check(head, stream, from+uint64(i), &stored[i]); err != nil {
			return page, err
		}
		page = append(page, Event{Recorded: stored[i], Head: head})
	}
	return page, nil
}

// readLedger calls read when it is this request's turn.
func (a *Auditor) readLedger(ctx context.Context, read func() error) error {
	if err := a.ledgers.Acquire(ctx, 1); err != nil {
		return err
	}
	defer a.ledgers.Release(1)
	return read()
}

//go:embed files
var files embed.FS

// Templates returns the templates of pages by name: files/layout.html and files/NAME.html of a server, the shared ones,
// and "replay", of a *ReplayPage, "story", of a StoryPage, and "usage", of a UsagePage.
func Templates(names []string, functions template.FuncMap, from fs.FS) (map[string]*template.Template, error) {
	all := map[string]*template.Template{}
	for _, name := range names {
		t, err := site.Template(name, functions, from, "files/layout.html", "files/"+name+".html")
		if err == nil {
			t, err = t.ParseFS(files, "files/*.html")
		}
		if err != nil {
			return nil, err
		}
		all[name] = t
	}
	return all, nil
}

// Status returns the status of a page whose query has a problem, if it is not empty.
func Status(problem string) int {
	if problem != "" {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// ReplayPage is a replay with the addresses of the pages around it.
type ReplayPage struct {
	*Replay
	Name       string // of the account; empty if it has none
	URL        string // of the replay
	Requests   string // that the id of a request is added to, after a slash
	Statements string // that a month is added to, after a slash
	Operator   bool   // the reader is an operator
}

// Title names the page.
func (p ReplayPage) Title() string {
	if p.Name == "" {
		return "Replay"
	}
	return "Replay of " + p.Name
}

// StoryPage is a story with the addresses of the pages around it.
type StoryPage struct {
	*Story
	Ledger   string
	Brands   string // that a domain is added to, after a slash; empty for customers
	Operator bool
}
