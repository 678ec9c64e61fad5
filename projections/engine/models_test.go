package engine_test

import (
	"testing"

	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/accounts"
	"letterhead/projections/actions"
	"letterhead/projections/brands"
	"letterhead/projections/checkpoints"
	"letterhead/projections/failures"
	"letterhead/projections/idempotency"
	"letterhead/projections/inbox"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/notices"
	"letterhead/projections/operators"
	"letterhead/projections/payments"
	"letterhead/projections/projectionstest"
	"letterhead/projections/sessions"
	"letterhead/projections/usage"
)

// names are the names of all read models.
var names = []string{
	accounts.Name, keys.Name, usage.Name, ledger.Name, payments.Name, idempotency.Name, brands.Name, checkpoints.Name,
	operators.Name, notices.Name, sessions.Name, actions.Name, inbox.Name, failures.Name,
}

// models are all read models of one Env.
type models struct {
	accounts    *accounts.Model
	keys        *keys.Directory
	usage       *usage.Model
	ledger      *ledger.Model
	payments    *payments.Model
	idempotency *idempotency.Model
	brands      *brands.Model
	checkpoints *checkpoints.Model
	operators   *operators.Model
	notices     *notices.Model
	sessions    *sessions.Model
	actions     *actions.Model
	inbox       *inbox.Model
	failures    *failures.Model
}

func newModels(t testing.TB, e *projectionstest.Env) models {
	t.Helper()
	b := testmust.Get(brands.New(brands.Config{}, e.Store))(t)
	t.Cleanup(b.Close)
	k := keys.New(keys.Config{}, e.Store)
	testmust.Succeed(t, k.Setup(t.Context()))
	return models{
		accounts: accounts.New(e.Store), keys: k, usage: usage.New(e.Store, e.Log),
		ledger: ledger.New(e.Store), payments: payments.New(e.Store), idempotency: idempotency.New(e.Store), brands: b, checkpoints: checkpoints.New(e.Store), operators: operators.New(e.Store), notices: notices.New(e.Store), sessions: sessions.New(e.Store), actions: actions.New(e.Store), inbox: inbox.New(e.Store), failures: failures.New(e.Store),
	}
}

func (m models) all() []projections.Projection {
	return []projections.Projection{m.accounts, m.keys, m.usage, m.ledger, m.payments, m.idempotency, m.brands, m.checkpoints, m.operators, m.notices, m.sessions, m.actions, m.inbox, m.failures}
}
