package backup_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"pgregory.net/rapid"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
	"letterhead/workers/backup"
)

// clients is the number of concurrent clients.
const clients = 64

// liveService charges accounts, as often as allowed, until it is stopped.
type liveService struct {
	charged atomic.Int64
	allowed chan struct{}
	stop    func()
}

// allow permits n charges; when it returns, all but the last charge of each client are complete.
func (l *liveService) allow(t *testing.T, n int) {
	for range n {
		select {
		case l.allowed <- struct{}{}:
		case <-t.Context().Done():
			return
		}
	}
}

func live(t *testing.T, s side) *liveService {
	t.Helper()
	snapshots := testmust.Get(sqlstore.NewSnapshots(t.Context(), s.store))(t)
	accountWriter := testmust.Get(commands.NewAccountWriter(commands.AccountWriterConfig{}, s.log, snapshots))(t)
	request := func() commands.Request { return commands.Request{ID: uuid.NewString(), Actor: "system:test"} }
	var accounts []string
	for range 4 {
		id := uuid.NewString()
		testmust.Succeed(t, testmust.Err(accountWriter.OpenAccount(t.Context(), commands.OpenAccount{Request: request(), AccountID: id, Holder: "h-" + id, Plan: "free"})))
		_, err := accountWriter.GrantCredits(t.Context(), commands.GrantCredits{Request: request(), AccountID: id, Kind: account.KindTopup, Credits: 1_000_000, PaymentID: "p-" + id})
		testmust.Succeed(t, err)
		accounts = append(accounts, id)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	l := &liveService{allowed: make(chan struct{})}
	for c := range clients {
		running.Go(func() {
			for {
				select {
				case <-l.allowed:
				case <-ctx.Done():
					return
				}
				_, err := accountWriter.ChargeLookup(t.Context(), commands.ChargeLookup{
					Request: request(), AccountID: accounts[c%len(accounts)], BrandID: uuid.NewString(), Domain: "example.com", RecordRevision: 1,
				})
				if err != nil {
					t.Errorf("charge: %v", err)
					continue
				}
				l.charged.Add(1)
			}
		})
	}
	l.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := accountWriter.Drain(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(l.stop)
	return l
}

// prefix checks that every stream of a copy is a prefix of the live one, and that the copy has the order of the log.
func prefix(t *testing.T, copied, log []eventlog.Recorded) {
	t.Helper()
	if len(copied) > len(log) {
		t.Fatalf("%d of %d events are copied", len(copied), len(log))
	}
	equal(t, copied, log[:len(copied)])
}

func TestBackup_While64ClientsCharge_IsConsistent(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	small(t, from)
	service := live(t, from)
	var last backup.Summary
	for round := range 4 {
		cfg := tiny()
		// The clients continue during each backup, alongside the reading of every page.
		cfg.Progress = func(backup.Progress) { service.allow(t, clients) }
		var charging sync.WaitGroup
		charging.Go(func() { service.allow(t, 10*clients) })
		service.allow(t, clients)
		sum := run(t, cfg, from, folder)
		if round > 0 && (sum.NewEvents == 0 || sum.Events != last.Events+sum.NewEvents) {
			t.Errorf("round %d: %+v after %+v", round, sum, last)
		}
		last = sum
		charging.Wait()
		to := embedded(t)
		restore(t, folder, to) // which verifies every chain
		prefix(t, all(t, to.log), all(t, from.log))
	}
	service.stop()
	run(t, tiny(), from, folder)
	to := embedded(t)
	restore(t, folder, to)
	same(t, to, from)
	// No acknowledged charge is lost or duplicated.
	charges := 0
	for _, e := range all(t, to.log) {
		if e.Type == "CreditsCharged" && e.Metadata.Actor == "system:test" {
			charges++
		}
	}
	if int64(charges) != service.charged.Load() {
		t.Errorf("%d charges are restored, but %d were acknowledged", charges, service.charged.Load())
	}
}

func TestMigrate_FirstPassWhile64ClientsCharge_CanBeFinished(t *testing.T) {
	from := embedded(t)
	service := live(t, from)
	_, log := eventStore(t)
	to := backup.Target{Log: log}
	service.allow(t, 300)
	var charging sync.WaitGroup
	charging.Go(func() { service.allow(t, 500) })
	out, err := backup.Migrate(t.Context(), tiny(), false, from.source(), to)
	if err != nil || out.Events == 0 {
		t.Fatalf("first pass: %+v, %v", out, err)
	}
	charging.Wait()
	source := all(t, from.log)
	equal(t, byStream(all(t, log)), byStream(source[:out.Events]))
	service.stop()
	final, err := backup.Migrate(t.Context(), tiny(), true, from.source(), to)
	if err != nil || final.Present != out.Events {
		t.Fatalf("final pass: %+v, %v", final, err)
	}
	equal(t, byStream(all(t, log)), byStream(all(t, from.log)))
}

// A final pass must fail if the source still changes.
func TestMigrate_FinalPassOfChangingSource_Fails(t *testing.T) {
	from, to := embedded(t), embedded(t)
	w := small(t, from)
	cfg := tiny()
	once := false
	cfg.Progress = func(p backup.Progress) {
		if p.Stage == backup.StageEvents && !once {
			once = true
			w.charge("a1", 1)
		}
	}
	if out, err := backup.Migrate(t.Context(), cfg, true, from.source(), to.target()); !errors.Is(err, backup.ErrDiffers) {
		t.Errorf("Migrate = %+v, %v, want ErrDiffers", out, err)
	}
}

func TestBackup_Bucket_RoundTrip(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "somebody")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	backend := s3mem.New()
	testmust.Succeed(t, backend.CreateBucket("backups"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	defer server.Close()
	at := "s3://backups?use_path_style=true&prefix=letterhead/&endpoint=" + url.QueryEscape(server.URL)
	from := embedded(t)
	w := small(t, from)
	first := run(t, tiny(), from, at)
	w.charge("a0", 1)
	if sum := run(t, tiny(), from, at); sum.NewEvents != 1 || sum.Events != first.Events+1 {
		t.Errorf("second backup: %+v", sum)
	}
	to := embedded(t)
	restore(t, at, to)
	same(t, to, from)
	if _, err := backup.Inspect(t.Context(), strings.Replace(at, "letterhead/", "other/", 1)); !errors.Is(err, backup.ErrNotBackup) {
		t.Errorf("another prefix: %v, want ErrNotBackup", err)
	}
	if _, err := backup.Run(t.Context(), tiny(), from.source(), "s3://key:hush@backups"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("keys in the URL: %v", err)
	}
}

// schema creates an empty schema on a PostgreSQL server and returns a URL that uses it.
func schema(t *testing.T, server string) string {
	t.Helper()
	var random [6]byte
	testmust.Succeed(t, testmust.Err(rand.Read(random[:])))
	name := "backup_" + hex.EncodeToString(random[:])
	admin := testmust.Get(sqlstore.Open(t.Context(), sqlstore.Config{URL: server}))(t)
	do := func(ctx context.Context, statement string) error {
		return admin.Write(ctx, func(tx *sqlstore.Tx) error {
			_, err := tx.ExecContext(ctx, statement)
			return err
		})
	}
	testmust.Succeed(t, do(t.Context(), "CREATE SCHEMA "+name))
	t.Cleanup(func() {
		if err := errors.Join(do(context.WithoutCancel(t.Context()), "DROP SCHEMA "+name+" CASCADE"), admin.Close()); err != nil {
			t.Error(err)
		}
	})
	u := testmust.Get(url.Parse(server))(t)
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String()
}

// The disaster drill: a backup of the embedded shape is restored into the distributed shape, and vice versa.
func TestRoundTrip_ThroughEventStoreDBAndPostgres(t *testing.T) {
	server := testservices.Postgres(t)
	from, first, second := embedded(t), t.TempDir(), t.TempDir()
	w := small(t, from)
	for i := range 2500 {
		w.name(fmt.Sprintf("holder-%05d", i%1200), fmt.Sprint("Näme ", i))
	}
	run(t, tiny(), from, first)
	_, log := eventStore(t)
	there := withDatabase(t, log, sqlstore.Config{URL: schema(t, server)})
	there.assets = openAssets(t, t.TempDir())
	positions := testmust.Get(sqlstore.NewPositions(t.Context(), there.store))(t)
	target := there.target()
	target.Positions, target.Done = positions, []string{"relay crawl.live"}
	out, err := backup.Restore(t.Context(), backup.RestoreConfig{Config: tiny()}, first, opened(target))
	if err != nil || out.Names != 1203 {
		t.Fatalf("Restore = %+v, %v, want 1203 names", out, err)
	}
	if at, _, err := positions.Load(t.Context(), "relay crawl.live"); at != out.Position || at == 0 || err != nil {
		t.Errorf("the relay begins at %d (%v), want %d", at, err, out.Position)
	}
	run(t, tiny(), there, second)
	back := embedded(t)
	restore(t, second, back)
	equal(t, byStream(all(t, back.log)), byStream(all(t, from.log)))
	count := func(s side) (n int) {
		for after := ""; ; {
			page := testmust.Get(s.names.Page(t.Context(), after, 7))(t)
			if len(page) == 0 {
				return n
			}
			n, after = n+len(page), page[len(page)-1].ID
		}
	}
	if a, b, c := count(from), count(there), count(back); a != 1203 || b != a || c != a {
		t.Errorf("%d names, %d in PostgreSQL, %d back", a, b, c)
	}
}

// fewChecks reduces the checks of rapid in a test that waits for many flushes, unless the command line sets a number.
func fewChecks(t *testing.T, n int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() != checks.DefValue {
		return
	}
	testmust.Succeed(t, checks.Value.Set(strconv.Itoa(n)))
	t.Cleanup(func() { testmust.Succeed(t, checks.Value.Set(checks.DefValue)) })
}

// For any history the copy equals the source, apart from positions.
func TestRestore_AnyHistory_ComesBack(t *testing.T) {
	fewChecks(t, 25)
	text := rapid.StringN(0, 40, 120)
	rapid.Check(t, func(r *rapid.T) {
		from, to, folder := embeddedIn(r, freshFolder(t, r)), embeddedIn(r, freshFolder(t, r)), freshFolder(t, r)
		w := newWriter(r, from)
		runs := rapid.IntRange(1, 3).Draw(r, "backups")
		for range runs {
			for range rapid.IntRange(0, 12).Draw(r, "appends") {
				stream := rapid.SampledFrom([]string{"account-1", "account-2", "brand-x.com", "usage-node-a", "å"}).Draw(r, "stream")
				var events []eventlog.Proposed
				for range rapid.IntRange(1, 5).Draw(r, "events") {
					data := []byte(text.Draw(r, "data"))
					if rapid.IntRange(0, 9).Draw(r, "large") == 0 {
						data = make([]byte, 20<<10)
					}
					e := w.event(stream, rapid.SampledFrom([]string{"A", "CreditsCharged", "CrawlFailed"}).Draw(r, "type"), rapid.IntRange(0, 3).Draw(r, "version"), data)
					e.Metadata.CausationID = text.Draw(r, "causation")
					events = append(events, e)
				}
				w.append(stream, events...)
			}
			testmust.Succeed(r, testmust.Err(backup.Run(t.Context(), tiny(), from.source(), folder)))
		}
		testmust.Succeed(r, testmust.Err(backup.Restore(t.Context(), backup.RestoreConfig{Config: tiny()}, folder, opened(to.target()))))
		same(r, to, from)
		standby := embeddedIn(r, freshFolder(t, r))
		testmust.Succeed(r, testmust.Err(backup.Migrate(t.Context(), tiny(), true, from.source(), standby.target())))
		equal(r, all(r, standby.log), all(r, from.log))
	})
}
