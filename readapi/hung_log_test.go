package readapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/ratelimit"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

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
	const clientTimeout = 10 * time.Second
	for name, from := range map[string]string{
		"from the beginning":           "",
		"once the credit is held":      eventschemas.CreditsHeld{}.EventType(),
		"once the crawl was asked for": eventschemas.CrawlRequested{}.EventType(),
	} {
		t.Run(name, func(t *testing.T) {
			log := hangsAfter{&remoteLog{}, from}
			var writer *commands.AccountWriter
			inBubble(t, func(s *service) {
				s.crawler.does("unknown.com", func(context.Context, eventschemas.CrawlRequested) ending { return ending{} })
				c := s.account(plan.Growth, 60)
				r := httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, "/v1/brands/unknown.com", nil)
				r.Header = bearer(c.secret)
				if from == "" {
					log.hung.begin()
				}
				w, began := httptest.NewRecorder(), time.Now()
				s.api.Handler().ServeHTTP(w, r)
				if took := time.Since(began); took >= clientTimeout || w.Code != http.StatusServiceUnavailable {
					s.t.Errorf("status %d after %s: body %s; want %d and less than %v", w.Code, took, w.Body, http.StatusServiceUnavailable, clientTimeout)
				}
				log.hung.end()
				drained, cancel := context.WithTimeout(s.t.Context(), waitLimit)
				defer cancel()
				s.must(writer.Drain(drained)) // it finishes pending compensations first
				if b := c.books(); len(b.openHolds) != 0 || len(b.charges) != 0 {
					s.t.Errorf("%d holds are open, %d charges; want 0 and 0", len(b.openHolds), len(b.charges))
				}
			}, func(set *setup) {
				set.parts.Log = func(l eventlog.Log) eventlog.Log { log.Log, log.Prober = l, eventlog.Probe(l); return log }
				set.deps = func(d *readapi.Deps) {
					var err error
					// One that shares its accounts with other nodes reads the log more often.
					if writer, err = commands.NewAccountWriter(commands.AccountWriterConfig{Config: streamwriter.Config{Shared: true}}, log, nil); err != nil {
						t.Fatal(err)
					}
					d.Credits = writer
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
		c.get("/v1/brands/unknown.com").rejected(t, http.StatusServiceUnavailable, "upstream_failed")
	}
	if b := c.books(); b.holds != 0 || b.balance() != 10 {
		t.Errorf("%d holds, balance %d; want 0 and 10", b.holds, b.balance())
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
	a.rejected(t, http.StatusServiceUnavailable, "upstream_failed")
	if n := writer.asked.Load(); n != 0 || a.header.Get("X-Credits-Remaining") != "" {
		t.Errorf("%d reads of the balance, header %q; want 0 and %q", n, a.header.Get("X-Credits-Remaining"), "")
	}
}
