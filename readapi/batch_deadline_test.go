package readapi_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/ratelimit"
	"letterhead/projections/changes"
	"letterhead/projections/keys"
	"letterhead/readapi"
)

// TestABatchStartsNothingPastItsDeadline measures in time that stands still while anybody works. No crawl ever
// ends, so that five items take nine seconds: the sixteenth would start after 27.
func TestABatchStartsNothingPastItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		ctx := t.Context()
		log, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")})
		must(err)
		t.Cleanup(func() { must(log.Close()) })
		desk, err := commands.NewDesk(commands.DeskConfig{}, log, nil)
		must(err)
		b, err := commands.NewBrands(commands.BrandsConfig{}, log)
		must(err)
		tail, err := changes.New(ctx, changes.Config{}, log)
		must(err)
		counters, err := ratelimit.NewMemory(ratelimit.Config{})
		must(err)
		id := uuid.NewString()
		must(desk.OpenAccount(ctx, commands.OpenAccount{Request: operator(), AccountID: id, Holder: "holder", Plan: plan.Custom}))
		rows, err := plan.Default().Get(plan.Custom)
		must(err)
		api, err := readapi.New(readapi.Config{BaseURL: baseURL}, readapi.Deps{
			Desk: desk, UsageDesk: noUsageDesk{}, Recorder: noRecorder{}, Brands: b, Index: emptyIndex{},
			Keys:  oneKey{keys.Key{ID: "k", AccountID: id, Plan: rows.ID, AccountStatus: string(account.Active)}},
			Usage: noUsage{}, Search: noSearch{}, Assets: noAssets{}, Changes: tail, Counters: counters,
		})
		must(err)
		key, _ := newKey(t, apikey.Secret)
		identifiers := numbered("unknown-%d.com", 22)
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, batchPath, strings.NewReader(batchOf(t, identifiers)))
		r.Header.Set("Authorization", "Bearer "+key)
		w, began := httptest.NewRecorder(), time.Now()
		api.Handler().ServeHTTP(w, r)
		if took := time.Since(began); took < 25*time.Second || took > 35*time.Second {
			t.Errorf("it took %s", took)
		}
		for i, item := range decodeExactly[specBatch](t, w.Body.Bytes()).Results {
			tried := !strings.Contains(item.Error.Message, "before this item was tried")
			if item.said() != "504 timeout" || tried != (i < 15) || *item.Domain != identifiers[i] {
				t.Errorf("%s: %s, %q", identifiers[i], item.said(), item.Error.Message)
			}
		}
		if got := w.Header().Get("X-Credits-Remaining"); got != "50" {
			t.Errorf("%s remaining", got)
		}
		must(desk.Drain(ctx))
		events, err := log.ReadStream(ctx, account.Stream(id), 0, eventlog.Forward, 1000)
		must(err)
		holds, open := 0, 0
		for _, e := range events {
			switch e.Type {
			case eventschemas.CreditsHeld{}.EventType():
				holds, open = holds+1, open+1
			case eventschemas.HoldReleased{}.EventType():
				open--
			}
		}
		if holds != 15 || open != 0 {
			t.Errorf("%d holds, %d of them open", holds, open)
		}
	})
}

// The server's own time to write is over before anything is answered, as it is when a batch has taken it up.
func TestABatchsAnswerIsNotCutByTheServersTime(t *testing.T) {
	s := start(t)
	c := s.account(plan.Custom, 10)
	s.known("acme.com", record("acme"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	server := readapi.NewServer(s.api.Handler())
	server.WriteTimeout = time.Nanosecond
	done := make(chan error, 1)
	go func() { done <- server.Serve(readapi.NewListener(l)) }()
	t.Cleanup(func() {
		s.must(server.Close())
		<-done
	})
	ask := func(method, path, body string) (answer, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+l.Addr().String()+path, strings.NewReader(body))
		s.must(err)
		req.Header.Set("Authorization", "Bearer "+c.secret)
		resp, err := s.transport.RoundTrip(req)
		if err != nil {
			return answer{}, err
		}
		defer resp.Body.Close()
		read, err := io.ReadAll(resp.Body)
		return answer{status: resp.StatusCode, header: resp.Header, body: read}, err
	}
	if a, err := ask(http.MethodGet, "/v1/brands/acme.com", ""); err == nil {
		t.Errorf("the server's time does not cut an answer: %d %s", a.status, a.body)
	}
	a, err := ask(http.MethodPost, batchPath, `{"identifiers":["acme.com"]}`)
	s.must(err)
	a.items(t, []string{"acme.com"})
}
