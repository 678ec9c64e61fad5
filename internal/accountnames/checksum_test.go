package accountnames_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/accountnames"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

const (
	owner  = accountnames.EmailPrefix + "5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11"
	other  = accountnames.EmailPrefix + "5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c12"
	plain  = "0b7d2c9a-1c55-4b8e-8a3f-6d2f9b1e4a77"
	people = "5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11"
)

// execute runs a statement on the table, as damage or another program would.
func execute(t *testing.T, store *sqlstore.Store, statement string, args ...any) {
	t.Helper()
	err := store.WriteDurable(t.Context(), func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(t.Context(), statement, args...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func wantDamaged(t *testing.T, h *accountnames.Table, want ...string) {
	t.Helper()
	if _, damaged, err := h.Check(t.Context()); err != nil || !slices.Equal(damaged, want) {
		t.Errorf("damaged rows: %q, %v, want %q", damaged, err, want)
	}
}

// wantUnused checks that no read returns a row, by its id or by its name.
func wantUnused(t *testing.T, h *accountnames.Table, id, name string) {
	t.Helper()
	if got, err := h.Names(t.Context(), id, owner); err != nil || len(got) > 0 {
		t.Errorf("names of %q: %q, %v, want none", id, got, err)
	}
	if got, err := h.Emails(t.Context(), people); err != nil || len(got) > 0 {
		t.Errorf("the addresses are %+v, %v, want none", got, err)
	}
	if got, err := h.WithName(t.Context(), name, accountnames.EmailPrefix); err != nil || len(got) > 0 {
		t.Errorf("the people with %q are %q, %v, want none", name, got, err)
	}
	wantDamaged(t, h, id)
}

func TestRow_AnyByteChanged_IsNotUsedUntilItIsSetAgain(t *testing.T) {
	const name = "ann@example.com"
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, store := open(t, cfg)
		flips := []byte{0x01}
		text := "$2"
		if !store.Shared() { // PostgreSQL stores no text that is not UTF-8
			flips, text = append(flips, 0x80), "CAST($2 AS TEXT)"
		}
		changed := func(of string, i int, flip byte) (string, any) {
			bytes := []byte(of)
			bytes[i] ^= flip
			if store.Shared() {
				return string(bytes), string(bytes)
			}
			return string(bytes), bytes
		}
		for _, flip := range flips {
			for i := range len(name) {
				put(t, h, owner, name)
				wantDamaged(t, h)
				damaged, arg := changed(name, i, flip)
				execute(t, store, `UPDATE holders SET name = `+text+` WHERE id = $1`, owner, arg)
				wantUnused(t, h, owner, damaged)
			}
			for i := range len(owner) {
				put(t, h, owner, name)
				damaged, arg := changed(owner, i, flip)
				execute(t, store, `UPDATE holders SET id = `+text+` WHERE id = $1`, owner, arg)
				wantUnused(t, h, damaged, name)
				testmust.Succeed(t, h.Erase(t.Context(), damaged))
			}
		}
		for bit := range 63 {
			put(t, h, owner, name)
			var sum int64
			row := store.Read().QueryRowContext(t.Context(), `SELECT checksum FROM holders WHERE id = $1`, owner)
			testmust.Succeed(t, row.Scan(&sum))
			execute(t, store, `UPDATE holders SET checksum = $2 WHERE id = $1`, owner, sum^1<<bit)
			wantUnused(t, h, owner, name)
		}
		execute(t, store, `UPDATE holders SET checksum = NULL WHERE id = $1`, owner)
		wantUnused(t, h, owner, name)
		put(t, h, owner, name)
		wantDamaged(t, h)
		wantNames(t, h, map[string]string{owner: name}, owner)
	})
}

func TestRow_OfAnotherID_IsNotUsed(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, store := open(t, cfg)
		put(t, h, owner, "ann@example.com")
		put(t, h, other, "bob@example.com")
		put(t, h, plain, "Acme")
		for _, move := range [][2]string{{owner, "moved"}, {other, owner}, {"moved", other}} { // with their checksums
			execute(t, store, `UPDATE holders SET id = $2 WHERE id = $1`, move[0], move[1])
		}
		wantNames(t, h, map[string]string{plain: "Acme"}, owner, other, plain)
		wantDamaged(t, h, owner, other)
	})
}

// A backup and a migration copy what is stored.
func TestPutAll_CopyOfADamagedRow_IsDamaged(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, store := open(t, cfg)
		for _, id := range []string{"changed", "missing", "sound"} {
			put(t, h, id, "Acme")
		}
		execute(t, store, `UPDATE holders SET name = 'Acne' WHERE id = 'changed'`)
		execute(t, store, `UPDATE holders SET checksum = NULL WHERE id = 'missing'`)
		all, err := h.Page(t.Context(), "", accountnames.MaxPage)
		if err != nil || len(all) != 3 {
			t.Fatalf("the page is %v, %v", all, err)
		}
		target, _ := open(t, sqlstoretest.SQLite(t))
		testmust.Succeed(t, target.PutAll(t.Context(), all))
		wantNames(t, target, map[string]string{"sound": "Acme"}, "changed", "missing", "sound")
		wantDamaged(t, target, "changed", "missing")
	})
}

func TestDamagedRow_IsErasedAndReported(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, store := open(t, cfg)
		var log strings.Builder
		metrics := prometheus.NewRegistry()
		testmust.Succeed(t, h.Observe(slog.New(slog.NewTextHandler(&log, nil)), metrics))
		gauge := func(want float64) {
			t.Helper()
			families, err := metrics.Gather()
			if err != nil || len(families) != 1 || families[0].GetName() != "letterhead_holders_damaged" ||
				families[0].GetMetric()[0].GetGauge().GetValue() != want {
				t.Errorf("the metrics are %v, %v, want one of %v", families, err, want)
			}
		}
		put(t, h, owner, "ann@example.com")
		gauge(0)
		execute(t, store, `UPDATE holders SET name = 'anna@example.com' WHERE id = $1`, owner)
		for range 2 {
			wantNames(t, h, map[string]string{}, owner)
		}
		gauge(1)
		if n := strings.Count(log.String(), owner); n != 1 || strings.Contains(log.String(), "ann") {
			t.Errorf("the log has %d lines about the row, want 1 without its name:\n%s", n, log.String())
		}
		if ids, err := h.EmailIDs(t.Context(), people); err != nil || !slices.Equal(ids, []string{owner}) {
			t.Errorf("the rows of the account are %q, %v", ids, err)
		}
		if ids, err := h.Stored(t.Context(), owner, other); err != nil || !slices.Equal(ids, []string{owner}) {
			t.Errorf("the stored rows are %q, %v", ids, err)
		}
		testmust.Succeed(t, h.Erase(t.Context(), owner))
		gauge(0)
		wantDamaged(t, h)
	})
}

// The check of a serving node finds damage without a read.
func TestWatch_FindsDamage(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, store := open(t, cfg)
		put(t, h, "a", "Acme")
		execute(t, store, `UPDATE holders SET name = 'Acne'`)
		second, err := accountnames.New(t.Context(), store)
		testmust.Succeed(t, err)
		metrics := prometheus.NewRegistry()
		testmust.Succeed(t, second.Observe(nil, metrics))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- second.Watch(ctx) }()
		awaitGauge(t, metrics, 1)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func awaitGauge(t *testing.T, metrics *prometheus.Registry, want float64) {
	t.Helper()
	_, ok := testwait.Until(testwait.Timeout, func() bool {
		families, err := metrics.Gather()
		return err == nil && families[0].GetMetric()[0].GetGauge().GetValue() == want
	})
	if !ok {
		t.Errorf("the metric did not become %v", want)
	}
}
