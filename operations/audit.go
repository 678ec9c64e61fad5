package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/internal/eventlog"
	"letterhead/projections/accounts"
	"letterhead/workers/backup"
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
	Reading   bool                        // another process folds, or none can: the read model may be behind
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
}

// Audit folds the streams of all accounts, or of one, from their first events and compares the results with
// snapshots and read model. It returns account.ErrNotFound if there is no such account.
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
	return Audit{Accounts: v.accounts, Events: v.events, Broken: v.wrong, Findings: v.findings}, nil
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
	_, rowErr := v.Model.Get(ctx, id)
	if len(first) == 0 && errors.Is(rowErr, accounts.ErrNotFound) {
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
			commands.Claim{Source: "its row in the read model", Revision: row.Revision, Differs: row.differs})
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
func (v *ledgerAudit) rowIsCurrent(ctx context.Context, row *auditedRow) error {
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

// auditedRow is an account as the read model has it.
type auditedRow struct{ accounts.Account }

func (v *ledgerAudit) row(ctx context.Context, id string) (*auditedRow, error) {
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
	if err != nil {
		return nil, err
	}
	return &auditedRow{*row}, nil
}

func (r *auditedRow) differs(a *account.Account) string {
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
