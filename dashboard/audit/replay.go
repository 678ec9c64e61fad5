package audit

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"letterhead/commands/streamwriter"
	"letterhead/dashboard/site"
	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/domain/timeline"
	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/eventlog"
	"letterhead/projections/accounts"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
)

const (
	// replayAround is the number of events before and after the position that are listed.
	replayAround = 10
	// maxReplayRows limits the holds, and the grants, that are listed.
	maxReplayRows = 100
	// maxCatchUps limits how often a page follows events that are appended while it is made.
	maxCatchUps = 3
	// freshWithin limits how long a replay waits for the latest events in the read models.
	freshWithin = 3 * time.Second
	// maxRevisionDigits limits a revision, and maxTyped what is shown of one that is wrong, in bytes.
	maxRevisionDigits = 18
	maxTyped          = 300
	// refreshReplay is the number of seconds after which the page of a running replay is loaded again.
	refreshReplay = 1
	// refreshWaiting is that of a replay for which there is no room yet.
	refreshWaiting = 5
)

// Replay is an account after an event, as a page shows it.
type Replay struct {
	AccountID string
	At        string     // as it was asked for; empty for the newest event
	Asked     *time.Time // if a time was asked for
	Early     bool       // it is before the first event, which the position is
	AtProblem string
	Newest    uint64 // revision of the last event in the log
	Replayed  uint64 // number of events
	Running   bool
	Waits     bool // there is no room for it yet
	Refresh   int  // seconds
	End       *End

	Now       *timeline.Moment // at the position; nil if there is none
	Position  uint64
	Latest    bool   // the position is the newest revision
	Last      uint64 // revision that was replayed last
	Opened    time.Time
	LastAt    time.Time
	Event     ReplayEvent
	Around    []ReplayEvent
	Curve     *Curve // nil while the replay runs, and of a single event
	Holds     []timeline.Hold
	MoreHolds int
	Keys      []ValidKey
	Lots      []Lot // with credits left
	UsedUp    int   // others
	MoreLots  int

	Differences []Difference
	More        int    // differences that are not listed
	Uncompared  string // why the read models cannot be compared
	Behind      error  // why the read models may not have the newest event; nil if they have it
	Stopped     error  // why the entries of the ledger cannot be compared; nil if they were
	Entry       bool   // the ledger has the balance at this position

	Month         time.Time // of the event
	VerifyCommand string
}

// Before and After are the positions beside this one.
func (v *Replay) Before() uint64 { return v.Position - 1 }

// After is the next position.
func (v *Replay) After() uint64 { return v.Position + 1 }

// Events is the number of events in the log.
func (v *Replay) Events() uint64 { return v.Newest + 1 }

// ReplayEvent is an event as it is described.
type ReplayEvent struct {
	ledger.Line
	Story bool // the ledger explains its request
}

// By says who caused the event.
func (e *ReplayEvent) By() string {
	kind, _, _ := strings.Cut(e.Actor, ":")
	by := map[string]string{"account": "the account", "operator": "the operator", "system": "the service"}
	return cmp.Or(by[kind], "unknown")
}

// ValidKey is a valid key with its name.
type ValidKey struct {
	timeline.Key
	Name string
}

// Title is the name of the key, or else its end.
func (k ValidKey) Title() string {
	return titleOfKey(k.Name, k.Last4)
}

// Lot is a grant with credits left.
type Lot struct{ timeline.Lot }

// Name names the grant.
func (l Lot) Name() string {
	return ledger.NameOfGrant(l.Kind)
}

// Replay returns an account after an event, recomputed from the first one. at is its revision as it was typed; empty
// for the newest one. Errors: account.ErrNotFound, and those of the stores.
func (a *Auditor) Replay(ctx context.Context, accountID, at string) (*Replay, error) {
	for follows := 0; ; follows++ {
		newest, err := a.newest(ctx, accountID)
		if err != nil {
			return nil, err
		}
		v := &Replay{At: strings.TrimSpace(at), AccountID: accountID, Newest: newest,
			Behind: a.fresh(ctx, accounts.Name, keys.Name, ledger.Name)}
		position, ok, err := a.position(ctx, v)
		if !ok {
			return v, err
		}
		if err := a.replay(ctx, v, position); err != nil {
			return nil, err
		}
		if len(v.Differences) == 0 {
			return v, nil
		}
		// An event that was appended meanwhile may be in a read model already.
		now, err := a.newest(ctx, accountID)
		if err != nil || now == newest {
			return v, err
		}
		if follows == maxCatchUps { // the read models are ahead of each replay
			v.Differences = slices.DeleteFunc(v.Differences,
				func(d Difference) bool { return d.Revision == v.Position })
			v.Uncompared = "Events are being appended all the time. Load the page again in a moment."
			return v, nil
		}
	}
}

// fresh waits until the named read models include all earlier answers. It fails if they do not within freshWithin.
func (a *Auditor) fresh(ctx context.Context, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, freshWithin)
	defer cancel()
	return a.Folded(ctx, names...)
}

// position returns the revision that was asked for, and false if there is none. Errors: those of the log.
func (a *Auditor) position(ctx context.Context, v *Replay) (position uint64, ok bool, err error) {
	if v.At == "" {
		return v.Newest, true, nil
	}
	position, err = strconv.ParseUint(v.At, 10, 63)
	if err == nil && len(v.At) <= maxRevisionDigits {
		if position > v.Newest {
			v.AtProblem = fmt.Sprintf("The account has no such event yet: its newest revision is %s.",
				site.Number(int64(v.Newest)))
		}
		return position, v.AtProblem == "", nil
	}
	if v.Asked = parseTime(v.At); v.Asked == nil {
		if !utf8.ValidString(v.At) || len(v.At) > maxTyped {
			v.At = ""
		}
		v.AtProblem = "Enter a revision, which is a whole number from 0 on, or a time like 2026-11-30T15:04:05Z."
		return 0, false, nil
	}
	events, err := a.eventsUpTo(ctx, v)
	v.Early = events == 0
	return max(events, 1) - 1, err == nil, err
}

// parseTime returns a moment, or the last one of a month or a day; nil if the text is none. A time without a zone is in
// UTC: the date-and-time fields of browsers send it so, without the seconds if they are 0.
func parseTime(text string) *time.Time {
	for _, rest := range []string{"", "Z", ":00Z"} {
		_, end, err := books.ParseSpan(text + rest)
		if err == nil || errors.Is(err, books.ErrBefore1970) {
			end = end.Add(-time.Microsecond)
			return &end
		}
	}
	return nil
}

// eventsUpTo returns how many events of the account occurred up to the time that was asked for. It reads some twenty of
// a million, because in a stream times never decrease.
func (a *Auditor) eventsUpTo(ctx context.Context, v *Replay) (uint64, error) {
	low, high := uint64(0), v.Newest+1
	for low < high {
		middle := (low + high) / 2
		page, err := a.Log.ReadStream(ctx, account.Stream(v.AccountID), middle, eventlog.Forward, 1)
		if err != nil {
			return 0, err
		}
		if len(page) > 0 && !page[0].OccurredAt.After(*v.Asked) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// replay fills the view. The read models are compared if they have the newest event.
func (a *Auditor) replay(ctx context.Context, v *Replay, position uint64) error {
	r, running, err := a.replays.of(ctx, v.AccountID, v.Newest)
	if err != nil {
		return err
	}
	v.Running = running
	v.Waits = !running && !r.done(v.Newest)
	switch {
	case v.Running:
		v.Refresh = refreshReplay
	case v.Waits:
		v.Refresh = refreshWaiting
	}
	v.VerifyCommand = "letterhead ledger verify --account " + r.accountID
	r.look(v, position)
	if v.Now == nil || v.Early {
		return nil
	}
	if err := a.listEvents(ctx, v, r); err != nil {
		return err
	}
	if err := a.validKeys(ctx, v); err != nil {
		return err
	}
	v.Month = books.MonthOf(v.Event.At)
	switch {
	case v.Running || v.Waits || v.Stopped != nil:
	case v.Behind != nil:
		v.Uncompared = "They may be behind the event log now. Load the page again in a moment."
	case v.Latest:
		return a.compareNewest(ctx, v, r)
	default:
		return a.compareEntry(ctx, v)
	}
	return nil
}

// look copies the replay's present state into the view.
func (r *replay) look(v *Replay, position uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.End, v.Replayed, v.Stopped = r.end, r.timeline.Next(), r.uncompared
	v.Differences, v.More = append(v.Differences, r.differences...), r.more
	if v.Replayed == 0 {
		return
	}
	v.Last = v.Replayed - 1
	if position > v.Last {
		if v.End != nil && v.At != "" {
			v.AtProblem = fmt.Sprintf("The replay ends at revision %s, for the reason above.",
				site.Number(int64(v.Last)))
			return
		}
		position = v.Last
	}
	m := r.timeline.At(position)
	v.Now, v.Position, v.Latest = &m, position, position == v.Newest && !v.Early
	v.Opened, v.LastAt = r.timeline.Opened(), r.timeline.LastAt()
	if !v.Running && !v.Waits && v.Last > 0 {
		v.Curve = newCurve(r.timeline, position)
	}
	v.Holds = m.Holds[:min(len(m.Holds), maxReplayRows)]
	v.MoreHolds = len(m.Holds) - len(v.Holds)
	for _, lot := range m.Lots {
		switch {
		case lot.Left == 0:
			v.UsedUp++
		case len(v.Lots) < maxReplayRows:
			v.Lots = append(v.Lots, Lot{lot})
		default:
			v.MoreLots++
		}
	}
}

// listEvents describes the event at the position and those around it. They are read from the log again, and checked
// again.
func (a *Auditor) listEvents(ctx context.Context, v *Replay, r *replay) error {
	first, last := v.Position-min(v.Position, replayAround), min(v.Position+replayAround, v.Last)
	r.mu.Lock()
	from, head := r.timeline.Before(first)
	r.mu.Unlock()
	page, err := a.page(ctx, r.accountID, from, head, int(last-from)+1)
	if broken := (*streamwriter.ChainError)(nil); errors.As(err, &broken) {
		v.End = brokenChain(broken)
	} else if err != nil {
		return err
	}
	var entries []ledger.Entry
	for i := range page {
		e := &page[i]
		if e.Revision < first {
			continue
		}
		body, err := eventschemas.Decode(e.Type, e.SchemaVersion, e.Data)
		if err != nil {
			return err
		}
		entries = append(entries, r.entry(&e.Recorded, body))
	}
	lines, err := ledger.Lines(ctx, a.Names, entries)
	if err != nil {
		return err
	}
	for _, l := range lines {
		e := ReplayEvent{l, l.RequestID != ""}
		switch e.Type { // of which the ledger of customers has no entries
		case eventschemas.PaymentFeeRecorded{}.EventType():
			e.What, e.Detail, e.Story = "Fee of the payment processor recorded", "it moves no credits", false
		case eventschemas.AccountNoted{}.EventType():
			e.What, e.Detail, e.Story = "Note of the operator", "it changes nothing", false
		}
		if e.Revision == v.Position {
			v.Event = e
		}
		v.Around = append(v.Around, e)
	}
	return nil
}

// entry returns the entry of an event, with the replayed balance.
func (r *replay) entry(e *eventlog.Recorded, body eventschemas.Event) ledger.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry := ledger.EntryOf(r.accountID, e, body)
	entry.Balance, entry.Note = r.timeline.Balance(e.Revision), "" // customers see the page, too
	return entry
}

func (a *Auditor) validKeys(ctx context.Context, v *Replay) error {
	for _, k := range v.Now.Keys {
		if !k.Expired(v.Event.At) {
			v.Keys = append(v.Keys, ValidKey{Key: k})
		}
	}
	keyNames, err := accountnames.NamesOf(ctx, a.Names, v.Keys, func(k *ValidKey) string { return k.ID })
	for i := range v.Keys {
		v.Keys[i].Name = keyNames[v.Keys[i].ID]
	}
	return err
}

// compareEntry compares the balance with the entry of the ledger.
func (a *Auditor) compareEntry(ctx context.Context, v *Replay) error {
	return a.readLedger(ctx, func() error {
		for e, err := range a.Ledger.Entries(ctx, v.AccountID,
			ledger.Filter{FromRevision: v.Position, BeforeRevision: v.Position + 1}) {
			if err != nil {
				return err
			}
			v.Entry = e.Balance == v.Now.Balance
		}
		return nil
	})
}

// compareNewest compares the account with the read models.
func (a *Auditor) compareNewest(ctx context.Context, v *Replay, r *replay) error {
	differ := func(what, stored, replayed string) {
		if stored != replayed {
			v.Differences = append(v.Differences, Difference{v.Position, what, stored, replayed})
		}
	}
	stored, err := a.Accounts.Get(ctx, r.accountID)
	if err != nil {
		return err
	}
	differ("the revision of the account", site.Number(int64(stored.Revision)), site.Number(int64(v.Position)))
	differ("the balance of the account", site.Number(stored.Balance), site.Number(v.Now.Balance))
	differ("the plan", string(stored.Plan), string(v.Now.Plan))
	differ("the status", string(stored.Status), string(v.Now.Status))
	if err := a.compareKeys(ctx, v, differ); err != nil {
		return err
	}
	r.mu.Lock()
	compared, held, head := r.compared, r.held, r.timeline.Head()
	r.mu.Unlock()
	if compared <= v.Position {
		differ("the number of entries in the ledger", site.Number(int64(compared)), site.Number(int64(v.Position)+1))
		return nil
	}
	differ("what the entries of the ledger hold", site.Number(held), site.Number(v.Now.Held))
	return a.readLedger(ctx, func() error {
		last, _, err := a.Ledger.Latest(ctx, r.accountID, ledger.Filter{}, 1)
		if err == nil && len(last) > 0 && last[0].Revision == v.Position && last[0].Hash != "" {
			differ("the hash in the ledger", last[0].Hash, hex.EncodeToString(head[:]))
		}
		return err
	})
}

func (a *Auditor) compareKeys(ctx context.Context, v *Replay, differ func(what, stored, replayed string)) error {
	stored, err := a.Keys.List(ctx, v.AccountID)
	if err != nil {
		return err
	}
	if len(stored) == keys.MaxListed {
		v.Uncompared = "The account has more keys than can be compared."
		return nil
	}
	describe := func(kind, last4 string, issued time.Time, terms account.KeyTerms) string {
		text := kind + ", ends with " + last4 + ", issued at " + issued.Format(time.RFC3339Nano)
		if !terms.ExpiresAt.IsZero() {
			text += ", expires at " + terms.ExpiresAt.Format(time.RFC3339Nano)
		}
		if limits := slices.Concat(terms.Scopes, terms.Origins); len(limits) > 0 {
			text += ", only for " + strings.Join(limits, ", ")
		}
		return text
	}
	valid, revoked := map[string]string{}, 0
	for _, k := range stored {
		if k.RevokedAt.IsZero() {
			valid[k.ID] = describe(k.Kind, k.Last4, k.IssuedAt, k.KeyTerms)
		} else {
			revoked++
		}
	}
	for _, k := range v.Now.Keys {
		in, ok := valid[k.ID]
		if !ok {
			in = "not valid"
		}
		differ("key "+k.ID, in, describe(k.Kind, k.Last4, k.IssuedAt, k.KeyTerms))
		delete(valid, k.ID)
	}
	for _, k := range stored {
		if in, ok := valid[k.ID]; ok {
			differ("key "+k.ID, in, "not valid")
		}
	}
	differ("the number of revoked keys", site.Number(int64(revoked)), site.Number(int64(v.Now.Revoked)))
	return nil
}
