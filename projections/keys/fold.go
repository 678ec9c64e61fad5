package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// keptRows limits the rows that the fold keeps between batches.
	keptRows = 100_000
)

// row is a row of the keys table.
type row struct {
	id, account, kind, last4 string
	hash                     hash
	issuedAt                 time.Time
	revokedAt, lastUsedAt    time.Time // zero if they did not happen
	expiresAt                time.Time // zero if it does not
	scopes, origins          string
}

func (k *row) terms() account.KeyTerms {
	t := account.KeyTerms{ExpiresAt: k.expiresAt}
	if k.scopes != "" {
		t.Scopes = strings.Split(k.scopes, " ")
	}
	if k.origins != "" {
		t.Origins = strings.Split(k.origins, " ")
	}
	return t
}

// Lists are separated by spaces.
var keyTable = projections.Keyed[string, row]{
	Name: "keys",
	Key:  projections.TextKey("id"),
	Columns: []projections.Column[row]{
		projections.Text("account", func(k *row) *string { return &k.account }),
		projections.Text("kind", func(k *row) *string { return &k.kind }),
		{
			Name: "hash", Type: "BYTEA NOT NULL",
			Value: func(k *row) any { return slices.Clone(k.hash[:]) },
			Into:  func(k *row) any { return (*storedHash)(&k.hash) },
		},
		projections.Text("last4", func(k *row) *string { return &k.last4 }),
		projections.Time("issued_at", func(k *row) *time.Time { return &k.issuedAt }),
		projections.TimeOrNull("revoked_at", func(k *row) *time.Time { return &k.revokedAt }),
		projections.TimeOrNull("last_used_at", func(k *row) *time.Time { return &k.lastUsedAt }),
		projections.TimeOrNull("expires_at", func(k *row) *time.Time { return &k.expiresAt }),
		projections.Text("scopes", func(k *row) *string { return &k.scopes }),
		projections.Text("origins", func(k *row) *string { return &k.origins }),
	},
	Indexes: []projections.Index{{Name: "by_account", On: "(account)"}, {Name: "by_hash", On: "(hash)"}},
	Compare: strings.Compare,
	Found:   func(id string, k *row) { k.id = id },
}

// storedHash is a hash that is scanned.
type storedHash hash

func (h *storedHash) Scan(stored any) error {
	sum, _ := stored.([]byte)
	if copy(h[:], sum) != len(h) || len(sum) != len(h) {
		return fmt.Errorf("hash of a key has %d bytes", len(sum))
	}
	return nil
}

// accountTable belongs to this read model, so that the Directory loads from one position.
var accountTable = projections.Keyed[string, standing]{
	Name: "accounts",
	Key:  projections.TextKey("id"),
	Columns: []projections.Column[standing]{
		projections.Text("plan", func(s *standing) *plan.ID { return &s.plan }),
		projections.Text("status", func(s *standing) *string { return &s.status }),
	},
	Compare: strings.Compare,
}

// version returns the version of the tables.
func (d *Directory) version() projections.Version {
	return projections.Version{
		Number:  2,
		Streams: []string{account.StreamPrefix, usage.StreamPrefix},
		Tables:  []projections.Table{keyTable.Table(), accountTable.Table()},
		Strict:  true,
		NewFold: d.newFold,
	}
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

func (f *fold) Fold(ctx context.Context, q projections.Queryer,
	events []*projections.Event) (projections.Changes, error) {
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
	known          bool // a changed row existed before, and so may be in memory
}

func (f *fold) want(ctx context.Context, q projections.Queryer, events []*projections.Event) error {
	var accounts, keys []string
	for _, e := range events {
		switch ev := e.Body.(type) {
		case eventschemas.AccountOpened, eventschemas.PlanChanged, eventschemas.AccountSuspended,
			eventschemas.AccountReinstated, eventschemas.AccountClosed:
			accounts = append(accounts, e.Subject)
		case eventschemas.KeyIssued:
			keys = append(keys, ev.KeyID)
		case eventschemas.KeyRevoked:
			keys = append(keys, ev.KeyID)
		case eventschemas.UsageTicked:
			for i := range ev.Entries {
				for _, used := range ev.Entries[i].KeysUsed {
					keys = append(keys, used.KeyID)
				}
			}
		}
	}
	return errors.Join(f.accounts.Want(ctx, q, slices.Values(accounts)), f.keys.Want(ctx, q, slices.Values(keys)))
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
			id: ev.KeyID, account: e.Subject, kind: ev.Kind, last4: ev.Last4, hash: sum, issuedAt: e.OccurredAt,
			scopes: strings.Join(ev.Scopes, " "), origins: strings.Join(ev.Origins, " "),
		}
		if ev.ExpiresAt != nil {
			k.expiresAt = ev.ExpiresAt.UTC()
		}
	case eventschemas.KeyRevoked:
		if k := f.keys.Get(ev.KeyID); k != nil && k.revokedAt.IsZero() {
			f.changeKey(n, ev.KeyID).revokedAt = e.OccurredAt
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
	at := u.At.UTC().Truncate(time.Microsecond)
	if k := f.keys.Get(u.KeyID); k != nil && at.After(k.lastUsedAt) {
		f.keys.Change(u.KeyID).lastUsedAt = at
	}
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

// changes returns the changed rows.
func (f *fold) changes(n *news) projections.Changes {
	writeAccounts := accountTable.Take(f.tables, f.accounts, nil)
	writeKeys := keyTable.Take(f.tables, f.keys, nil)
	unchanged := len(n.keys)+len(n.accounts) == 0
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
			if live && !f.directory.shared && !unchanged {
				f.directory.alone.forget(n)
			}
		},
		Unchanged: unchanged,
	}
}

func (f *fold) Reset() {
	f.keys.Reset()
	f.accounts.Reset()
}
