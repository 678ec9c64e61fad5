package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/projections/accounts"
	"letterhead/workers/backup"
	"letterhead/workers/checkpoint"
)

const (
	// rowPage is how many rows of the read model are read at a time.
	rowPage = 500
	// maxFindings bounds the findings that are listed; all are counted.
	maxFindings = 100
)

// Audits verify the streams of accounts.
type Audits struct {
	Reads     *Reads
	Log       eventlog.Log
	Model     *accounts.Model
	Snapshots Snapshots
	VerifyLog func(context.Context) error // verifies what the log stores; nil if a shared event store does
	Ledger    *checkpoint.Ledger
	Reading   bool // another process folds, or none can: the read model may be behind
}

// Snapshots are streamwriter.Snapshots that can be listed; sqlstore.Snapshots.
type Snapshots interface {
	streamwriter.Snapshots
	Each(ctx context.Context, f func(stream string, foldVersion int, revision uint64) error) error
}

// Audit is the result of Audits.Audit.
type Audit struct {
	Accounts int
	Events   uint64
	Broken   int // findings; Findings holds the first of them
	Findings []error
	Signed   string // what all accounts were compared with, as checkpoint.Signed says it
}

// Audit folds the streams of all accounts, or of one, from their first events and compares the results with
// snapshots and read model, and with the last checkpoint. It returns account.ErrNotFound if there is no
// such account.
func (o *Audits) Audit(ctx context.Context, accountID string, show func(backup.Progress)) (Audit, error) {
	v := &ledgerAudit{Audits: o, show: show}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stored := make(chan error, 1)
	if o.VerifyLog == nil {
		stored <- nil
	} else {
		go func() { stored <- o.VerifyLog(ctx) }()
	}
	var err error
	if accountID != "" {
		err = v.one(ctx, accountID)
	} else {
		err = v.all(ctx)
	}
	if err != nil {
		cancel()
	}
	damage := <-stored
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return Audit{}, err
	}
	if damage != nil {
		v.wrong++
		v.findings = slices.Insert(v.findings, 0, damage)
		v.findings = v.findings[:min(len(v.findings), maxFindings)]
	}
	return Audit{v.accounts, v.events, v.wrong, v.findings, v.signed}, nil
}

// ledgerAudit is one run of Audit.
type ledgerAudit struct {
	*Audits
	show   func(backup.Progress)
	head   eventlog.Position // of the log at the beginning
	noRows bool              // the read model of accounts cannot be compared

	accounts, wrong int
	events, total   uint64
	findings        []error // the first maxFindings of wrong
	signed          string
}

// begin waits until the read model of accounts holds what the log holds now.
func (v *ledgerAudit) begin(ctx context.Context) (err error) {
	if v.head, err = v.Log.Head(ctx); err != nil || v.Reading {
		return err
	}
	err = v.Reads.CatchUp(ctx, accounts.Name)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		v.noRows = true
		v.complain(fmt.Errorf("the read model of accounts could not be compared: %w", err))
	}
	return nil
}

func (v *ledgerAudit) one(ctx context.Context, id string) error {
	first, err := v.Log.ReadStream(ctx, account.Stream(id), 0, eventlog.Forward, 1)
	if err != nil {
		return err
	}
	v.signed = "the account is not among those that the last checkpoint keeps"
	_, changed := v.Ledger.Compare(ctx, false, func(was proof.Account) bool {
		if was.ID == id {
			v.signed = fmt.Sprintf("the account is as it was signed, up to revision %d", was.Revision)
		}
		return was.ID != id
	})
	if changed != nil && !errors.Is(changed, ErrLogChanged) {
		return changed
	}
	_, rowErr := v.Model.Get(ctx, id)
	switch {
	case changed != nil:
		v.complain(fmt.Errorf("what was signed: %w", changed))
	case len(first) == 0 && errors.Is(rowErr, accounts.ErrNotFound):
		return account.ErrNotFound
	}
	if err := v.begin(ctx); err != nil {
		return err
	}
	return v.audit(ctx, id)
}

// all audits every account: a pass over the log finds those that are in doubt, which are then audited one by one.
func (v *ledgerAudit) all(ctx context.Context) error {
	if err := v.begin(ctx); err != nil {
		return err
	}
	p, err := v.newPass(ctx)
	if err == nil {
		err = p.run(ctx)
	}
	if err != nil {
		return err
	}
	signed, err := v.Ledger.Compare(ctx, true, p.saw)
	switch {
	case ctx.Err() != nil, errors.Is(err, assets.ErrUnavailable): // this is no fault of the ledger
		return err
	case errors.Is(err, checkpoint.ErrLacks): // the log has these accounts: the pass complains unless they may still be folded
		signed = fmt.Sprintf("the root of the last checkpoint was not compared: %v", err)
	case err != nil:
		v.complain(fmt.Errorf("what was signed: %w", err))
	}
	v.signed = signed
	for _, id := range p.doubtful() {
		if err := v.audit(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// eachRow calls f for every row of the read model of accounts.
func (v *ledgerAudit) eachRow(ctx context.Context, f func(row *accounts.Account) error) error {
	if v.noRows {
		return nil
	}
	for after := ""; ; {
		rows, err := v.Model.List(ctx, after, rowPage)
		if err != nil {
			return err
		}
		for i := range rows {
			if err := f(&rows[i]); err != nil {
				return err
			}
			after = rows[i].ID
		}
		if len(rows) < rowPage {
			return nil
		}
	}
}

func (v *ledgerAudit) audit(ctx context.Context, id string) error {
	// Read the snapshots before the stream: they must not hold more than the stream.
	claims, err := commands.SnapshotClaims(ctx, v.Snapshots, id)
	if errors.As(err, new(*commands.AuditError)) {
		v.complain(err)
	} else if err != nil {
		return err
	}
	row, err := v.row(ctx, id)
	if err != nil {
		return err
	}
	if row != nil {
		claims = append(claims,
			commands.Claim{Source: "its row in the read model", Revision: row.Revision,
				Differs: func(a *account.Account) string { return differs(row, a) }})
	}
	events, wrong, err := commands.AuditAccount(ctx, v.Log, id, claims, func(events int) {
		v.events += uint64(events)
		v.total = max(v.total, v.events)
		v.show(backup.Progress{Stage: backup.StageEvents, Done: v.events, Total: v.total})
	})
	if err != nil {
		return err
	}
	for _, w := range wrong {
		v.complain(w)
	}
	v.accounts++
	if row != nil && len(wrong) == 0 && row.Revision+1 < events && !v.Reading {
		return v.rowIsCurrent(ctx, row)
	}
	return nil
}

// rowIsCurrent complains if the row lacks an event that the log held when the audit began.
func (v *ledgerAudit) rowIsCurrent(ctx context.Context, row *accounts.Account) error {
	next, err := v.Log.ReadStream(ctx, account.Stream(row.ID), row.Revision+1, eventlog.Forward, 1)
	if err != nil {
		return err
	}
	if len(next) == 1 && next[0].Position <= v.head {
		v.complain(&commands.AuditError{AccountID: row.ID, Revision: next[0].Revision,
			Problem: "its row in the read model lacks this event and those after it"})
	}
	return nil
}

// row returns the account as the read model has it; nil if that has none.
func (v *ledgerAudit) row(ctx context.Context, id string) (*accounts.Account, error) {
	if v.noRows {
		return nil, nil
	}
	row, err := v.Model.Get(ctx, id)
	if errors.Is(err, accounts.ErrNotFound) {
		if !v.Reading {
			v.complain(&commands.AuditError{AccountID: id, Problem: "the read model lacks the account"})
		}
		return nil, nil
	}
	return row, err
}

// differs says how a row of the read model differs from the account that the events add up to.
func differs(r *accounts.Account, a *account.Account) string {
	switch {
	case r.Balance != a.Balance():
		return fmt.Sprintf("balance is %d, but the events add up to %d", r.Balance, a.Balance())
	case r.Status != a.Status():
		return fmt.Sprintf("it says %q, the events say %q", r.Status, a.Status())
	case r.Plan != a.Plan():
		return fmt.Sprintf("it says plan %q, the events say %q", r.Plan, a.Plan())
	case r.Holder != a.Holder():
		return "it names another holder than the events"
	}
	return ""
}

func (v *ledgerAudit) complain(err error) {
	if v.wrong++; len(v.findings) < maxFindings {
		v.findings = append(v.findings, err)
	}
}

const (
	// passPage is how many events are read at a time, and passPages how many such pages may wait for a shard.
	passPage, passPages = 2048, 2
	// maxFolded limits the accounts that a pass folds as a whole, to compare them with their snapshots. A snapshot
	// has 256 events or more, so only a log of millions of events has as many; the others are audited one by one.
	maxFolded = 8192
)

// pass folds the streams of all accounts in one pass over the log and compares them as commands.AuditAccount does. It
// only finds the accounts that are in doubt. In memory it has some 200 bytes of each account, so the accounts are
// spread over shards, which work at the same time.
type pass struct {
	*ledgerAudit
	until  eventlog.Position
	seed   maphash.Seed
	shards []*shard
}

type shard struct {
	*pass
	accounts map[string]*tracked
}

// tracked is an account up to an event.
type tracked struct {
	head     eventschemas.Hash
	events   uint64
	opened   eventlog.Position // of AccountOpened, or 0
	folded   facts
	row      facts // of the read model, after the event with rowAt
	rowAt    uint64
	hasRow   bool
	doubtful bool
	compared bool // with the row
	snapshot uint64
	whole    *account.Account // until it is compared with its snapshot
}

// facts are what the read model says of an account, texts as hashes.
type facts struct {
	balance              int64
	holder, plan, status uint64
}

// newPass reads the snapshots and the rows before the log, which must not have less than they.
func (v *ledgerAudit) newPass(ctx context.Context) (*pass, error) {
	p := &pass{ledgerAudit: v, seed: maphash.MakeSeed(), shards: make([]*shard, runtime.GOMAXPROCS(0))}
	for i := range p.shards {
		p.shards[i] = &shard{p, map[string]*tracked{}}
	}
	whole := 0
	err := v.Snapshots.Each(ctx, func(stream string, version int, revision uint64) error {
		id, ok := strings.CutPrefix(stream, account.StreamPrefix)
		if !ok || version < account.OldestFoldVersion || version > account.FoldVersion {
			return nil
		}
		t := p.shardOf(id).account(id)
		if whole++; version < account.FoldVersion || whole > maxFolded {
			t.doubtful = true
		} else {
			t.snapshot, t.whole = revision, account.New(id)
		}
		return nil
	})
	if err == nil {
		err = v.eachRow(ctx, func(row *accounts.Account) error {
			v.total += row.Revision + 1
			t := p.shardOf(row.ID).account(row.ID)
			t.hasRow, t.rowAt = true, row.Revision
			t.row = facts{row.Balance, p.hash(row.Holder), p.hash(string(row.Plan)), p.hash(string(row.Status))}
			return nil
		})
	}
	if err == nil {
		p.until, err = v.Log.Head(ctx)
	}
	return p, err
}

func (p *pass) hash(text string) uint64 { return maphash.String(p.seed, text) }

func (p *pass) shardOf(id string) *shard { return p.shards[p.hash(id)%uint64(len(p.shards))] }

func (s *shard) account(id string) *tracked {
	t, ok := s.accounts[id]
	if !ok {
		t = &tracked{}
		s.accounts[strings.Clone(id)] = t
	}
	return t
}

// run reads the log. Errors: of the log and of the snapshots, ctx.Err().
func (p *pass) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	feeds := make([]chan []eventlog.Recorded, len(p.shards))
	for i, s := range p.shards {
		feeds[i] = make(chan []eventlog.Recorded, passPages)
		group.Go(func() error {
			for events := range feeds[i] {
				for j := range events {
					if err := s.take(ctx, &events[j]); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer func() {
			for _, feed := range feeds {
				close(feed)
			}
		}()
		filter := eventlog.Filter{StreamPrefixes: []string{account.StreamPrefix}}
		for at := eventlog.Position(0); at < p.until; {
			page, err := p.Log.ReadAll(ctx, at, filter, passPage)
			if err != nil {
				return err
			}
			for _, feed := range feeds {
				if err := delay.Send(ctx, feed, page.Events); err != nil {
					return err
				}
			}
			p.events += uint64(len(page.Events))
			p.total = max(p.total, p.events)
			p.show(backup.Progress{Stage: backup.StageEvents, Done: p.events, Total: p.total})
			if at = page.Next; page.End {
				break
			}
		}
		return nil
	})
	return group.Wait()
}

// take folds an event, if its account belongs to the shard.
func (s *shard) take(ctx context.Context, rec *eventlog.Recorded) error {
	id := strings.TrimPrefix(rec.Stream, account.StreamPrefix)
	if rec.Position > s.until || s.shardOf(id) != s {
		return nil
	}
	t := s.account(id)
	if rec.Type == (eventschemas.AccountOpened{}).EventType() && t.opened == 0 {
		t.opened = rec.Position
	}
	if t.doubtful {
		return nil
	}
	if rec.Revision == 0 && s.VerifyLog == nil { // a shared store may have lost streams that the log still has
		first, err := s.Log.ReadStream(ctx, rec.Stream, 0, eventlog.Forward, 1)
		t.doubtful = err != nil || len(first) == 0 || first[0].Position != rec.Position
	}
	if t.hasRow && rec.Revision == t.rowAt+1 && rec.Position <= s.head && !s.Reading {
		t.doubtful = true // the row lacks this event
	}
	if !s.fold(t, rec) {
		t.doubtful, t.whole = true, nil
	}
	if t.whole == nil || rec.Revision != t.snapshot {
		return nil
	}
	// Another snapshot may have been saved since they were listed.
	claims, err := commands.SnapshotClaims(ctx, s.Snapshots, id)
	if err != nil || len(claims) != 1 || claims[0].Revision != t.snapshot || claims[0].Differs(t.whole) != "" {
		t.doubtful = true
	}
	t.whole = nil
	return ctx.Err()
}

// fold reports whether an event follows from those before it and agrees with the row.
func (s *shard) fold(t *tracked, rec *eventlog.Recorded) bool {
	var err error
	if t.head, err = commands.Chain.Check(t.head, rec.Stream, t.events, rec); err != nil {
		return false
	}
	ev, err := eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data)
	if err != nil {
		return false
	}
	t.events++
	before := t.folded.balance
	t.folded.balance += account.Delta(ev)
	switch ev := ev.(type) {
	case eventschemas.AccountOpened:
		t.folded = facts{t.folded.balance, s.hash(ev.Holder), s.hash(ev.Plan), s.hash(string(account.Active))}
	case eventschemas.PlanChanged:
		t.folded.plan = s.hash(ev.To)
	case eventschemas.AccountSuspended:
		t.folded.status = s.hash(string(account.Suspended))
	case eventschemas.AccountReinstated:
		t.folded.status = s.hash(string(account.Active))
	case eventschemas.AccountClosed:
		t.folded.status = s.hash(string(account.Closed))
	}
	if t.whole != nil {
		t.whole.Apply(ev, rec.OccurredAt)
		t.whole.Link(t.head)
	}
	if t.hasRow && rec.Revision == t.rowAt {
		t.compared = true
		if t.row != t.folded {
			return false
		}
	}
	return !commands.Overdraws(ev, before, t.folded.balance)
}

// saw reports whether an account ends as it was signed.
func (p *pass) saw(was proof.Account) bool {
	t := p.shardOf(was.ID).accounts[was.ID]
	return t != nil && !t.doubtful && t.events == was.Revision+1 && t.head == was.Head
}

// doubtful counts the accounts without a doubt, and returns the others: those that only the read model has, and then
// the rest in the order in which they were opened.
func (p *pass) doubtful() []string {
	doubts := map[string]eventlog.Position{}
	p.events = 0
	for _, s := range p.shards {
		for id, t := range s.accounts {
			switch {
			case t.opened == 0 && !t.hasRow, t.opened > p.head: // the read model need not have it
			case t.opened == 0, t.doubtful, t.whole != nil, t.hasRow && !t.compared,
				!t.hasRow && !p.noRows && !p.Reading:
				doubts[id] = t.opened
			default:
				p.accounts++
				p.events += t.events
			}
		}
	}
	return slices.SortedFunc(maps.Keys(doubts), func(a, b string) int {
		return cmp.Or(cmp.Compare(doubts[a], doubts[b]), cmp.Compare(a, b))
	})
}
