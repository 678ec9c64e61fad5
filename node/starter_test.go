package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/internal/testmust"
	"letterhead/starter"
)

// Until a node has begun and its starter index is loaded, no cache may keep a fallback: the next request may find the
// logo.
func TestHandler_NodeNotBegun_FallbacksAreNotCached(t *testing.T) {
	n := openNode(t)
	testmust.Succeed(t, n.startRoles(t.Context()))
	handler := testmust.Get(n.handler(t.Context()))(t)
	ask := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	// A fallback is drawn with the vector renderer, and a request does not wait for as long as compiling may take.
	testmust.Succeed(t, n.drawing.vectors.await(t.Context()))
	early := ask("/logo/github.com?format=png")
	if early.Code != http.StatusOK || early.Header().Get("Content-Type") != "image/png" || early.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("before: status %d, %v", early.Code, early.Header())
	}
	if code := ask("/readyz").Code; code != http.StatusServiceUnavailable {
		t.Errorf("before: /readyz %d, want %d", code, http.StatusServiceUnavailable)
	}
	testmust.Succeed(t, n.begin(t.Context(), func(*Node, Begun) error { return nil }, nil))
	select {
	case <-n.drawing.vectors.ready:
	default:
		t.Error("the node is ready before it can draw vectors")
	}
	late := ask("/logo/github.com?format=png")
	if late.Code != http.StatusOK || late.Header().Get("Cache-Control") != "public, max-age=900, s-maxage=3600" {
		t.Errorf("after: status %d, %v", late.Code, late.Header())
	}
	if code := ask("/readyz").Code; code != http.StatusOK {
		t.Errorf("after: /readyz %d, want %d", code, http.StatusOK)
	}
}

// markerOf returns a marker with the given content.
type markerOf func() (string, error)

func (m markerOf) Load(context.Context) (string, error) { return m() }
func (markerOf) Save(context.Context, string) error     { return nil }

// A node in a cluster waits for the starter index that another node loads, but not forever.
func TestAwaitStarter_AnotherNodeLoads_WaitsForIt(t *testing.T) {
	n := openNode(t)
	marker := sharedMarker{n.Stores.Positions, n.Stores.Log}
	looked := make(chan struct{})
	first := true
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		n.awaitStarter(t.Context(), markerOf(func() (string, error) {
			version, err := marker.Load(t.Context())
			if first {
				first = false
				close(looked)
			}
			return version, err
		}))
	}()
	<-looked
	if n.health.starterSeen.Load() {
		t.Error("the node reports a starter index that is not loaded")
	}
	brands := starterBrands{n.Writers.Brands, commands.Request{ID: uuid.NewString(), Actor: "system:starter"}}
	var one starter.Brand
	if err := starter.Each(func(b starter.Brand) error { one = b; return io.EOF }); !errors.Is(err, io.EOF) {
		t.Fatalf("error = %v, want EOF", err)
	}
	testmust.Succeed(t, testmust.Err(brands.ImportBrand(t.Context(), starter.Version, one)))
	testmust.Succeed(t, marker.Save(t.Context(), starter.Version))
	<-waited
	if _, err := n.Models.Brands.Get(t.Context(), one.Domain); err != nil || !n.health.starterSeen.Load() {
		t.Errorf("seen %v, and %s is found: %v", n.health.starterSeen.Load(), one.Domain, err)
	}
}

func TestAwaitStarter_NotLoaded_TimesOut(t *testing.T) {
	t.Parallel()
	for name, marker := range map[string]markerOf{
		"no request loads it":         func() (string, error) { return "", nil },
		"the database is unavailable": func() (string, error) { return "", errors.New("unavailable") },
		"of another release":          func() (string, error) { return "older", nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &Node{logger: slog.New(slog.DiscardHandler), health: &health{}}
			go n.awaitStarter(t.Context(), marker)
			for _, seen := range []bool{false, true} {
				time.Sleep(starterTimeout - time.Millisecond)
				synctest.Wait()
				if n.health.starterSeen.Load() != seen {
					t.Errorf("%s: seen %v, want %v", name, !seen, seen)
				}
			}
		})
	}
}
