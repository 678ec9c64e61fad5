package warming_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
	"letterhead/internal/warming"
)

func TestTable_Lists_AreOneAtATime(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, store *sqlstore.Store) {
		ctx, now := t.Context(), time.Unix(1795000000, 0)
		table := testmust.Get(warming.New(ctx, store))(t)
		if _, err := table.Last(ctx); !errors.Is(err, warming.ErrNone) {
			t.Errorf("Last of an empty table: %v", err)
		}
		l := testmust.Get(table.Begin(ctx, "1", []string{"a.com", "b.com"}, now))(t)
		if _, err := table.Begin(ctx, "2", []string{"c.com"}, now); !errors.Is(err, warming.ErrRunning) {
			t.Errorf("a second list: %v", err)
		}
		l.Examined, l.Requested = 1, 1
		testmust.Succeed(t, table.Save(ctx, l))
		same := testmust.Get(table.Begin(ctx, "1", []string{"a.com", "b.com"}, now.Add(time.Hour)))(t)
		if same != l || same.State != warming.Running || same.Accepted != 2 {
			t.Errorf("the same list again: %+v, want %+v", same, l)
		}
		testmust.Succeed(t, table.Cancel(ctx))
		if err := table.Save(ctx, l); !errors.Is(err, warming.ErrNone) {
			t.Errorf("save after the list was cancelled: %v", err)
		}
		testmust.Get(table.Begin(ctx, "2", []string{"c.com"}, now))(t)
		if _, err := table.Domains(ctx, "1"); !errors.Is(err, warming.ErrNone) {
			t.Errorf("the domains of the earlier list: %v", err)
		}
		if domains := testmust.Get(table.Domains(ctx, "2"))(t); !slices.Equal(domains, []string{"c.com"}) {
			t.Errorf("the domains are %q", domains)
		}
	})
}
