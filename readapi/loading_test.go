package readapi_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/plan"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/readapi"
)

// halfReadable is a log that returns the beginning of an account's stream, and the rest when it is opened.
type halfReadable struct {
	eventlog.Log
	open chan struct{}
}

func (h *halfReadable) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	if direction == eventlog.Forward && from > 0 && strings.HasPrefix(stream, "account-") {
		select {
		case <-h.open:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return h.Log.ReadStream(ctx, stream, from, direction, limit)
}

// While a long account stream is loaded, every request of the account is a 503 with Retry-After.
func TestLookup_AccountIsLoading_Is503WithRetryAfter(t *testing.T) {
	half := &halfReadable{open: make(chan struct{})}
	s := start(t, func(set *setup) {
		set.parts.Log = func(log eventlog.Log) eventlog.Log {
			half.Log = log
			return log
		}
		set.deps = func(d *readapi.Deps) {
			writer := testmust.Get(commands.NewAccountWriter(commands.AccountWriterConfig{Config: streamwriter.Config{LoadWithin: time.Nanosecond, Now: set.parts.Now}}, half, nil))(t)
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
				defer cancel()
				if err := writer.Drain(ctx); err != nil {
					t.Error(err)
				}
			})
			d.Credits = writer
		}
	})
	const charges = 2500 // more than the page of a stream that an account writer reads at a time
	c := s.account(plan.Growth, charges+1)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range charges / 50 {
				_, err := s.writer.ChargeLookup(t.Context(), commands.ChargeLookup{Request: operator(), AccountID: c.id, BrandID: uuid.NewString(), Domain: spentAway})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s.catchUp()
	a := c.get("/v1/me")
	p := a.rejected(t, http.StatusServiceUnavailable, "upstream_failed")
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 60 || !strings.Contains(p.Error.Message, "loaded") {
		t.Errorf("Retry-After %q: %s", a.header.Get("Retry-After"), p.Error.Message)
	}
	close(half.open)
	if _, loaded := testwait.Until(waitLimit, func() bool { return c.get("/v1/me").status == http.StatusOK }); !loaded {
		t.Fatal("the account was never loaded")
	}
	if body := c.get("/v1/me").body; !strings.Contains(string(body), `"balance":1`) {
		t.Errorf("after its loading: %s", body)
	}
}
