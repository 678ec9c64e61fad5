package readapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"letterhead/domain/plan"
	"letterhead/projections/keys"
	"letterhead/readapi"
)

// stuckKeys does not answer until the request's deadline or until the test releases it.
type stuckKeys struct {
	readapi.KeyDirectory
	inside chan struct{}
	letGo  chan struct{}
}

func (k stuckKeys) Lookup(ctx context.Context, hash [32]byte) (keys.Key, bool, error) {
	k.inside <- struct{}{}
	select {
	case <-k.letGo:
		return k.KeyDirectory.Lookup(ctx, hash)
	case <-ctx.Done():
		return keys.Key{}, false, ctx.Err()
	}
}

// Requests whose keys cannot be checked do not accumulate without limit.
func TestKeyChecks_DirectoryHangs_AreLimited(t *testing.T) {
	const most = 2048
	stuck := stuckKeys{inside: make(chan struct{}, 2*most), letGo: make(chan struct{})}
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			stuck.KeyDirectory = d.Keys
			d.Keys = stuck
		}
	})
	c := s.account(plan.Custom, 50)
	ask := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/v1/me", nil)
		r.Header.Set("Authorization", "Bearer "+c.secret)
		w := httptest.NewRecorder()
		s.api.Handler().ServeHTTP(w, r)
		return w
	}
	var waiting sync.WaitGroup
	for range most {
		waiting.Go(func() { ask() })
	}
	for range most {
		<-stuck.inside
	}
	if w := ask(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("request past the limit: status %d, body %s", w.Code, w.Body)
	}
	close(stuck.letGo)
	waiting.Wait()
	if w := ask(); w.Code != http.StatusOK {
		t.Errorf("request after the directory recovered: status %d, body %s; want %d", w.Code, w.Body, http.StatusOK)
	}
}
