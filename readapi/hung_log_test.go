package readapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/ratelimit"
	"letterhead/projections/brands"
	"letterhead/projections/brandwatch"
	"letterhead/projections/keys"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

// Fake parts of a node whose clock a test can stop: one key, an empty index, and a log that can hang.
type (
	oneKey     struct{ key keys.Key }
	emptyIndex struct{}
	noRecorder struct{}
	noUsage    struct{ readapi.UsageCounts }
	noQuotas   struct{ readapi.Quotas }
	noAssets   struct{ readapi.AssetStore }
)

func (k oneKey) Lookup(context.Context, [32]byte) (keys.Key, bool, error) { return k.key, true, nil }

func (emptyIndex) Get(context.Context, string) (*brands.Entry, error) {
	return nil, brands.ErrNotFound
}

func (emptyIndex) ByID(context.Context, uuid.UUID) (*brands.Entry, error) {
	return nil, brands.ErrNotFound
}

func (noRecorder) KeyUsed(string, string, time.Time) {}

func (noRecorder) Logo(string, time.Time) {}

// hangsAfter hangs once an event of a type was appended.
type hangsAfter struct {
	*remoteLog
	event string
}

func (l hangsAfter) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	done, err := l.remoteLog.Append(ctx, stream, expected, events)
	if err == nil && slices.ContainsFunc(events, func(e eventlog.Proposed) bool { return e.Type == l.event }) {
		l.hung.begin()
	}
	return done, err
}

// TestRequests_LogHangs_AreAnsweredInTime runs in virtual time. Whatever is in progress when the
// log begins to hang, the answer is sent before clients give up, and in the end nothing was charged.
func TestRequests_LogHangs_AreAnsweredInTime(t *testing.T) {
	const clientsGiveUp = 10 * time.Second
	for name, from := range map[string]string{
		"from the beginning":           "",
		"once the credit is held":      eventschemas.CreditsHeld{}.EventType(),
		"once the crawl was asked for": eventschemas.CrawlRequested{}.EventType(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				ctx := t.Context()
				stored, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")})
				must(err)
				t.Cleanup(func() { must(stored.Close()) })
				log := hangsAfter{&remoteLog{Log: stored}, from}
				writer, err := commands.NewAccountWriter(commands.AccountWriterConfig{Config: streamwriter.Config{Shared: true}}, log, nil)
				must(err)
				b, err := commands.NewBrands(commands.BrandsConfig{}, log)
				must(err)
				tail, err := brandwatch.New(ctx, brandwatch.Config{}, log)
				must(err)
				counters, err := ratelimit.NewMemory(ratelimit.Config{})
				must(err)
				id := uuid.NewString()
				must(writer.OpenAccount(ctx, commands.OpenAccount{Request: operator(), AccountID: id, Holder: "holder", Plan: plan.Growth}))
				_, err = writer.GrantCredits(ctx, commands.GrantCredits{Request: operator(), AccountID: id, Kind: account.KindTopup, Credits: 10, PaymentID: "p"})
				must(err)
				api, err := readapi.New(readapi.Config{BaseURL: baseURL}, readapi.Deps{
					Credits: writer, Quotas: noQuotas{}, Recorder: noRecorder{}, Brands: b, Index: emptyIndex{},
					Keys:  oneKey{keys.Key{ID: "k", AccountID: id, Plan: plan.Growth, AccountStatus: string(account.Active)}},
					Usage: noUsage{}, Search: noSearch{}, Assets: noAssets{}, Logos: newStudio(t, openAssets(t, ctx, t.TempDir())), Changes: tail, Counters: counters,
				})
				must(err)
				key, _ := newKey(t, apikey.Secret)
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/brands/unknown.com", nil)
				r.Header.Set("Authorization", "Bearer "+key)
				if from == "" {
					log.hung.begin()
				}
				w, began := httptest.NewRecorder(), time.Now()
				api.Handler().ServeHTTP(w, r)
				if took := time.Since(began); took >= clientsGiveUp || w.Code != http.StatusServiceUnavailable {
					t.Errorf("%d after %s: %s", w.Code, took, w.Body)
				}
				log.hung.end()
				drained, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				must(writer.Drain(drained)) // it finishes pending compensations first
				events, err := stored.ReadStream(ctx, account.Stream(id), 0, eventlog.Forward, 100)
				must(err)
				open := 0
				for _, e := range events {
					switch e.Type {
					case eventschemas.CreditsHeld{}.EventType():
						open++
					case eventschemas.HoldReleased{}.EventType():
						open--
					case eventschemas.CreditsCharged{}.EventType():
						t.Error("charged")
					}
				}
				if open != 0 {
					t.Errorf("%d holds are open", open)
				}
			})
		})
	}
}

// hungGive takes units but does not accept them back until the caller's deadline.
type hungGive struct {
	ratelimit.Counters
	t *testing.T
}

func (h hungGive) Take(ctx context.Context, key ratelimit.Key, units, limit int64) (ratelimit.Decision, error) {
	if key.Scope == "service-crawls" {
		return ratelimit.Decision{}, ratelimit.ErrUnavailable
	}
	return h.Counters.Take(ctx, key, units, limit)
}

func (h hungGive) Give(ctx context.Context, _ ratelimit.Key, _ int64, _ ratelimit.Decision) error {
	if _, bounded := ctx.Deadline(); !bounded {
		h.t.Error("the return of units has no time limit")
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// Returning units delays the answer and the domain's gate, but not for long.
func TestCrawlLimit_ReturnHangs_AnswerDoesNotWait(t *testing.T) {
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { d.Counters = hungGive{d.Counters, t} }
	})
	c := s.account(plan.Growth, 10)
	for range 2 {
		c.get("/v1/brands/unknown.com").refused(t, http.StatusServiceUnavailable, "upstream_failed")
	}
	if b := c.books(); b.holds != 0 || b.balance() != 10 {
		t.Errorf("%d holds, balance %d", b.holds, b.balance())
	}
}

// writerWithoutLog cannot charge, and counts the requests for an account's standing.
type writerWithoutLog struct {
	lookup.Credits
	asked atomic.Int64
}

func (d *writerWithoutLog) ChargeLookup(ctx context.Context, in commands.ChargeLookup) (commands.Receipt, error) {
	in.Reservation.Drop()
	return commands.Receipt{}, eventlog.ErrUnavailable
}

func (d *writerWithoutLog) Standing(ctx context.Context, accountID string) (commands.Standing, error) {
	d.asked.Add(1)
	return d.Credits.Standing(ctx, accountID)
}

// After the log has failed, the answer does not wait for it again to report the credits.
func TestErrors_LogFailed_OmitCreditsHeader(t *testing.T) {
	writer := &writerWithoutLog{}
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { writer.Credits, d.Credits = d.Credits, writer }
	})
	c := s.account(plan.Growth, 10)
	s.known("acme.com", record("acme"))
	a := c.get("/v1/brands/acme.com")
	a.refused(t, http.StatusServiceUnavailable, "upstream_failed")
	if n := writer.asked.Load(); n != 0 || a.header.Get("X-Credits-Remaining") != "" {
		t.Errorf("%d reads of the balance, header %q", n, a.header.Get("X-Credits-Remaining"))
	}
}
