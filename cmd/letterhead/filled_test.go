package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/internal/config"
	"letterhead/starter"
)

// opened is a service of one folder before it begins, without a starter index of its own.
func opened(t *testing.T) *service {
	t.Helper()
	t.Setenv("LETTERHEAD_STARTER", "off")
	cfg, err := config.FromEnvironment(map[string]string{"LETTERHEAD_DATA": filepath.Join(t.TempDir(), "data")})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := lockFolder(cfg.Data, folderMayBeNew)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openService(t.Context(), cfg, lock, serviceOptions{logs: io.Discard, logLevel: "error"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// Until a node has begun, which is when its starter index is loaded, nobody is to keep a fallback: the next
// request may find the logo.
func TestAFallbackIsKeptByNobodyBeforeTheNodeHasBegun(t *testing.T) {
	s := opened(t)
	if err := s.work(t.Context()); err != nil {
		t.Fatal(err)
	}
	handler, err := s.handler()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	early := ask("/logo/github.com?format=png")
	if early.Code != http.StatusOK || early.Header().Get("Content-Type") != "image/png" || early.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("before: %d %v", early.Code, early.Header())
	}
	if code := ask("/readyz").Code; code != http.StatusServiceUnavailable {
		t.Errorf("before: /readyz %d", code)
	}
	if err := s.begin(t.Context(), &environment{stdout: io.Discard, stderr: io.Discard}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.vectors.ready:
	default:
		t.Error("the node is ready before it can draw vectors")
	}
	late := ask("/logo/github.com?format=png")
	if late.Code != http.StatusOK || late.Header().Get("Cache-Control") != "public, max-age=900, s-maxage=3600" {
		t.Errorf("after: %d %v", late.Code, late.Header())
	}
	if code := ask("/readyz").Code; code != http.StatusOK {
		t.Errorf("after: /readyz %d", code)
	}
}

// markerOf is a marker that says what it is told to.
type markerOf func() (string, error)

func (m markerOf) Load(context.Context) (string, error) { return m() }
func (markerOf) Save(context.Context, string) error     { return nil }

// A node of several waits for the starter index that another loads, and not for ever.
func TestANodeWaitsForTheStarterIndexOfAnother(t *testing.T) {
	s := opened(t)
	marker := sharedMarker{s.positions, s.log}
	looked := make(chan struct{})
	first := true
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		s.awaitStarter(t.Context(), markerOf(func() (string, error) {
			version, err := marker.Load(t.Context())
			if first {
				first = false
				close(looked)
			}
			return version, err
		}))
	}()
	<-looked
	if s.starterSeen.Load() {
		t.Error("it is seen before it is there")
	}
	brands := starterBrands{s.brands, commands.Request{ID: uuid.NewString(), Actor: "system:starter"}}
	var one starter.Brand
	if err := starter.Each(func(b starter.Brand) error { one = b; return io.EOF }); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if _, err := brands.ImportBrand(t.Context(), starter.Version, one); err != nil {
		t.Fatal(err)
	}
	if err := marker.Save(t.Context(), starter.Version); err != nil {
		t.Fatal(err)
	}
	<-waited
	if _, err := s.brandReader.Get(t.Context(), one.Domain); err != nil || !s.starterSeen.Load() {
		t.Errorf("seen %v, and %s is found: %v", s.starterSeen.Load(), one.Domain, err)
	}
}

func TestAStarterIndexThatNobodyLoadsIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	for name, marker := range map[string]markerOf{
		"nobody loads it":      func() (string, error) { return "", nil },
		"the database is away": func() (string, error) { return "", errors.New("away") },
		"of another release":   func() (string, error) { return "older", nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{logger: slog.New(slog.DiscardHandler)}
			go s.awaitStarter(t.Context(), marker)
			for _, seen := range []bool{false, true} {
				time.Sleep(starterPatience - time.Millisecond)
				synctest.Wait()
				if s.starterSeen.Load() != seen {
					t.Errorf("%s: seen %v, want %v", name, !seen, seen)
				}
			}
		})
	}
}
