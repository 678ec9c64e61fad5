package audit

import (
	"context"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"letterhead/internal/web"
	"letterhead/projections/ledger"
)

// maxRequestEntries limits the entries of one request; a batch has at most a few hundred.
const maxRequestEntries = 1000

// ErrNoEntries means that the ledger has no entries of a request.
var ErrNoEntries = web.NewProblem(http.StatusNotFound, "The ledger has no entries of this request",
	"A request has some if credits were held or charged. Its id is in the X-Request-Id of the answer.", nil)

// Story is what a request did to an account, and why.
type Story struct {
	ID      string
	Metered bool // it held or charged credits
	Charged int64
	Entries []ledger.Line
	Domains []string
	Key     *Key    // that was charged; nil if it is not known
	Behind  error   // why the latest entries may be missing; nil if they are not
	Crawls  []Crawl // of the domains, from the first entry to the last; set by who may read them
}

// Crawl is what a crawl did while a request waited for it.
type Crawl struct {
	Domain, Type, Outcome, Detail string
	At                            time.Time
}

// Story returns the story of a request of an account. all includes entries that customers do not see. Errors:
// ErrNoEntries, and those of the stores.
func (a *Auditor) Story(ctx context.Context, accountID, requestID string, all bool) (*Story, error) {
	s := &Story{ID: requestID, Behind: a.fresh(ctx, ledger.Name)}
	var entries []ledger.Entry
	err := a.readLedger(ctx, func() error {
		if requestID == "" || !utf8.ValidString(requestID) || strings.Contains(requestID, "\x00") {
			return nil // no request has such an id
		}
		for e, err := range a.Ledger.Entries(ctx, accountID,
			ledger.Filter{RequestID: requestID, ForCustomer: !all, Limit: maxRequestEntries}) {
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, ErrNoEntries
	}
	seen := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		s.Charged += e.Charged()
		s.Metered = s.Metered || e.Charged() != 0 || e.HoldID != ""
		if e.Domain != "" && !seen[e.Domain] {
			seen[e.Domain] = true
			s.Domains = append(s.Domains, e.Domain)
		}
		if s.Key == nil && e.KeyID != "" {
			if s.Key, err = a.Key(ctx, accountID, e.KeyID); err != nil {
				return nil, err
			}
		}
	}
	s.Entries, err = ledger.Lines(ctx, a.Names, entries)
	return s, err
}

// Title is the question that the story answers, to the customer or to an operator.
func (s *Story) Title(operator bool) string {
	who := "I"
	if operator {
		who = "it"
	}
	switch {
	case s.Charged > 0:
		return "Why was " + who + " charged?"
	case s.Metered:
		return "Why was " + who + " not charged?"
	}
	return "What this request did"
}
