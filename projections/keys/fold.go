package keys

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// Times are microseconds since 1970. Lists are separated by spaces. The accounts table belongs to this read model, so
// that the Directory loads from one position.
const (
	createKeys = `
CREATE TABLE {keys} (
	id           TEXT   NOT NULL PRIMARY KEY,
	account      TEXT   NOT NULL,
	kind         TEXT   NOT NULL,
	hash         BYTEA  NOT NULL,
	last4        TEXT   NOT NULL,
	issued_at    BIGINT NOT NULL,
	revoked_at   BIGINT,
	last_used_at BIGINT,
	expires_at   BIGINT,
	scopes       TEXT   NOT NULL,
	origins      TEXT   NOT NULL
)`
	indexKeys = `CREATE INDEX IF NOT EXISTS {keys}_by_account ON {keys} (account)`
	// indexHash is used by Lookup if it reads the rows.
	indexHash      = `CREATE INDEX IF NOT EXISTS {keys}_by_hash ON {keys} (hash)`
	createAccounts = `
CREATE TABLE {accounts} (
	id     TEXT NOT NULL PRIMARY KEY,
	plan   TEXT NOT NULL,
	status TEXT NOT NULL
)`

	// keptRows limits the rows that the fold keeps between batches.
	keptRows = 100_000
)

// row is a row of the keys table.
type row struct {
	id, account, kind, last4 string
	hash                     hash
	issuedAt                 int64
	revokedAt, lastUsedAt    sql.NullInt64
	expiresAt                sql.NullInt64
	scopes, origins          string
}

func (k *row) terms() account.KeyTerms {
	t := account.KeyTerms{ExpiresAt: timeOf(k.expiresAt)}
	if k.scopes != "" {
		t.Scopes = strings.Split(k.scopes, " ")
	}
	if k.origins != "" {
		t.Origins = strings.Split(k.origins, " ")
	}
	return t
}

var keyTable = projections.Keyed[string, row]{
	Table: projections.Table{Name: "keys", Create: createKeys, Indexes: []string{indexKeys}, Key: []string{"id"}},
	Columns: []string{
		"account", "kind", "hash", "last4", "issued_at", "revoked_at", "last_used_at",
		"expires_at", "scopes", "origins",
	},
	Compare:   strings.Compare,
	AppendKey: projections.AppendText,
	AppendRow: func(values []any, k *row) []any {
		sum := k.hash
		return append(values, k.account, k.kind, sum[:], k.last4, k.issuedAt, k.revokedAt, k.lastUsedAt,
			k.expiresAt, k.scopes, k.origins)
	},
	Scan: func(r projections.Scanner, id *string, k *row) error {
		var sum []byte
		err := r.Scan(id, &k.account, &k.kind, &sum, &k.last4, &k.issuedAt, &k.revokedAt, &k.lastUsedAt,
			&k.expiresAt, &k.scopes, &k.origins)
		if err != nil {
			return err
		}
		k.id = *id
		if copy(k.hash[:], sum) != len(k.hash) || len(sum) != len(k.hash) {
			return fmt.Errorf("hash of key %s has %d bytes", k.id, len(sum))
		}
		return nil
	},
}

var accountTable = projections.Keyed[string, standing]{
	Table:     projections.Table{Name: "accounts", Create: createAccounts, Key: []string{"id"}},
	Columns:   []string{"plan", "status"},
	Compare:   strings.Compare,
	AppendKey: projections.AppendText,
	AppendRow: func(values []any, s *standing) []any { return append(values, string(s.plan), s.status) },
	Scan:      func(row projections.Scanner, id *string, s *standing) error { return row.Scan(id, &s.plan, &s.status) },
}

// Name implements projections.Projection.
func (d *Directory) Name() string { return Name }

// Handle implements projections.Projection.
func (d *Directory) Handle() *projections.Handle { return d.handle }

// Versions implements projections.Projection.
func (d *Directory) Versions() []projections.Version {
	keys := keyTable.Table
	if d.shared {
		keys.Indexes = []string{indexKeys, indexHash}
	}
	return []projections.Version{{
		Number:     version,
		Categories: projections.Accounts | projections.Usage,
		Tables:     []projections.Table{keys, accountTable.Table},
		Strict:     true,
		NewFold:    d.newFold,
	}}
}

// Swap implements projections.Swapper. Folding these tables raised no fence, and those that were live before may have
// been in quarantine, or lost.
func (d *Directory) Swap(ctx context.Context, tx *sqlstore.Tx, t *projections.Tables) error {
	if !d.shared {
		return nil
	}
	return raise(ctx, tx, t)
}

type fold struct {
	directory *Directory
	tables    *projections.Tables
	keys      *projections.Rows[string, row]
	accounts  *projections.Rows[string, standing]
}

func (d *Directory) newFold(t *projections.Tables, empty bool) projections.Fold {
	return &fold{
		directory: d, tables: t,
		keys: keyTable.Rows(t, keptRows, empty), accounts: accountTable.Rows(t, keptRows, empty),
	}
}

// Fold implements projections.Fold.
func (f *fold) Fold(ctx context.Context, q projections.Queryer, events []*projections.Event) (projections.Changes, error) {
	if err := f.want(ctx, q, events); err != nil {
		return projections.Changes{}, err
	}
	news := &news{keys: map[string]struct{}{}, accounts: map[string]struct{}{}}
	for _, e := range events {
		if err := f.apply(e, news); err != nil {
			return projections.Changes{}, e.Errorf("%w", err)
		}
	}
	return f.changes(news), nil
}

// news are the changes of a batch that requests must know: all but the last use of keys.
type news struct {
	keys, accounts map[string]struct{}
	known          bool // a changed row existed before, and so may be in the memory of nodes
}

func (f *fold) want(ctx context.Context, q projections.Queryer, events []*projections.Event) error {
	err := f.accounts.Want(ctx, q, func(yield func(string) bool) {
		for _, e := range events {
			switch e.Body.(type) {
			case eventschemas.AccountOpened, eventschemas.PlanChanged, eventschemas.AccountSuspended,
				eventschemas.AccountReinstated, eventschemas.AccountClosed:
				if !yield(e.Subject) {
					return
				}
			}
		}
	})
	if err != nil {
		return err
	}
	return f.keys.Want(ctx, q, func(yield func(string) bool) {
		for _, e := range events {
			switch ev := e.Body.(type) {
			case eventschemas.KeyIssued:
				if !yield(ev.KeyID) {
					return
				}
			case eventschemas.KeyRevoked:
				if !yield(ev.KeyID) {
					return
				}
			case eventschemas.UsageTicked:
				for i := range ev.Entries {
					for _, used := range ev.Entries[i].KeysUsed {
						if !yield(used.KeyID) {
							return
						}
					}
				}
			}
		}
	})
}

func (f *fold) apply(e *projections.Event, n *news) error {
	switch ev := e.Body.(type) {
	case eventschemas.AccountOpened:
		s := f.changeAccount(n, e.Subject)
		s.plan, s.status = plan.ID(ev.Plan), string(account.Active)
	case eventschemas.PlanChanged:
		f.changeAccount(n, e.Subject).plan = plan.ID(ev.To)
	case eventschemas.AccountSuspended:
		f.changeAccount(n, e.Subject).status = string(account.Suspended)
	case eventschemas.AccountReinstated:
		f.changeAccount(n, e.Subject).status = string(account.Active)
	case eventschemas.AccountClosed:
		f.changeAccount(n, e.Subject).status = string(account.Closed)
	case eventschemas.KeyIssued:
		sum, err := parseHash(ev.Hash)
		if err != nil {
			return err
		}
		k := f.changeKey(n, ev.KeyID)
		*k = row{
			id: ev.KeyID, account: e.Subject, kind: ev.Kind, last4: ev.Last4, hash: sum, issuedAt: e.OccurredAt.UnixMicro(),
			scopes: strings.Join(ev.Scopes, " "), origins: strings.Join(ev.Origins, " "),
		}
		if ev.ExpiresAt != nil {
			k.expiresAt = sql.NullInt64{Int64: ev.ExpiresAt.UnixMicro(), Valid: true}
		}
	case eventschemas.KeyRevoked:
		if k := f.keys.Get(ev.KeyID); k != nil && !k.revokedAt.Valid {
			f.changeKey(n, ev.KeyID).revokedAt = sql.NullInt64{Int64: e.OccurredAt.UnixMicro(), Valid: true}
		}
	case eventschemas.UsageTicked:
		for i := range ev.Entries {
			for _, used := range ev.Entries[i].KeysUsed {
				f.used(used)
			}
		}
	}
	return nil
}

// used records the last use of a key. Ticks of several nodes come in any order.
func (f *fold) used(u eventschemas.KeyUsed) {
	at := u.At.UnixMicro()
	k := f.keys.Get(u.KeyID)
	if k == nil || (k.lastUsedAt.Valid && k.lastUsedAt.Int64 >= at) {
		return
	}
	f.keys.Change(u.KeyID).lastUsedAt = sql.NullInt64{Int64: at, Valid: true}
}

func (f *fold) changeKey(n *news, id string) *row {
	n.keys[id] = struct{}{}
	n.known = n.known || f.keys.Get(id) != nil
	return f.keys.Change(id)
}

func (f *fold) changeAccount(n *news, id string) *standing {
	n.accounts[id] = struct{}{}
	n.known = n.known || f.accounts.Get(id) != nil
	return f.accounts.Change(id)
}

// changes returns the changed rows, and copies of those in news.
func (f *fold) changes(n *news) projections.Changes {
	standings := make(map[string]standing, len(n.accounts))
	writeAccounts := accountTable.Take(f.tables, f.accounts, func(id string, s *standing) { standings[id] = *s })
	known := make([]row, 0, len(n.keys))
	writeKeys := keyTable.Take(f.tables, f.keys, func(id string, k *row) {
		if _, ok := n.keys[id]; ok {
			known = append(known, *k)
		}
	})
	return projections.Changes{
		Write: func(ctx context.Context, tx *sqlstore.Tx) error {
			if err := writeAccounts(ctx, tx); err != nil {
				return err
			}
			if f.directory.shared && n.known {
				if err := raise(ctx, tx, f.tables); err != nil {
					return err
				}
			}
			return writeKeys(ctx, tx)
		},
		Committed: func(live bool) {
			if live {
				f.directory.take(known, standings)
			}
		},
		Unchanged: len(n.keys)+len(n.accounts) == 0,
	}
}

// Reset implements projections.Fold.
func (f *fold) Reset() {
	f.keys.Reset()
	f.accounts.Reset()
}
