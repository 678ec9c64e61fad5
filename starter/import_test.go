package starter_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
	"letterhead/starter"
)

// service implements the stores of an import.
type service struct {
	mu     sync.Mutex
	files  map[string]bool
	brands map[string]starter.Brand
	asked  int   // calls of ImportBrand
	failAt int   // this call fails
	failed error // with this error
	wrong  bool  // Put returns another id
}

func newService() *service {
	return &service{files: map[string]bool{}, brands: map[string]starter.Brand{}}
}

func (s *service) Put(_ context.Context, data []byte, ext string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256(data)
	id := hex.EncodeToString(sum[:])
	s.files[id+"."+ext] = true
	if s.wrong {
		return "0000", nil
	}
	return id, nil
}

func (s *service) ImportBrand(ctx context.Context, source string, b starter.Brand) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.asked == s.failAt {
		return false, s.failed
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if source != starter.Version {
		return false, errors.New("unknown source " + source)
	}
	for _, l := range b.Record.Logos {
		if !s.files[l.Formats[0].ID+".svg"] {
			return false, errors.New("the event was appended before its file was stored")
		}
	}
	_, there := s.brands[b.Domain]
	s.brands[b.Domain] = b
	return !there, nil
}

func (s *service) deps(t *testing.T) starter.Deps {
	return starter.Deps{Assets: s, Brands: s, Marker: starter.FileMarker{Path: filepath.Join(t.TempDir(), "starter")}}
}

func TestImport_LoadsEverythingOnce(t *testing.T) {
	s := newService()
	deps := s.deps(t)
	last := 0
	progress := func(done, total int) {
		if done != last+1 || total != starter.Count {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
	}
	got, err := starter.Import(context.Background(), starter.Config{Progress: progress}, deps)
	if err != nil || got != (starter.Result{Imported: starter.Count}) {
		t.Fatalf("first import: %+v, %v", got, err)
	}
	if len(s.brands) != starter.Count || last != starter.Count {
		t.Errorf("%d brands were imported, the last progress is %d; want %d and %d", len(s.brands), last, starter.Count, starter.Count)
	}
	before := s.asked
	got, err = starter.Import(context.Background(), starter.Config{}, deps)
	if err != nil || got != (starter.Result{Finished: true}) || s.asked != before {
		t.Errorf("second import: %+v, %v, with %d calls of ImportBrand", got, err, s.asked-before)
	}
}

func TestImport_AfterInterruption_Continues(t *testing.T) {
	full := errors.New("disk is full")
	for name, stop := range map[string]func(*service, context.CancelFunc) error{
		"by an error":       func(s *service, _ context.CancelFunc) error { return full },
		"by an ended start": func(_ *service, cancel context.CancelFunc) error { cancel(); return context.Canceled },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			s := newService()
			deps := s.deps(t)
			var why error
			progress := func(done, _ int) {
				if done == 100 {
					why = stop(s, cancel)
					s.mu.Lock()
					s.failAt, s.failed = s.asked+1, why
					s.mu.Unlock()
				}
			}
			got, err := starter.Import(ctx, starter.Config{Progress: progress}, deps)
			if !errors.Is(err, why) || got.Imported < 100 || got.Imported > starter.Count/2 {
				t.Fatalf("interrupted import: %+v, %v", got, err)
			}
			if got.Imported != len(s.brands) {
				t.Errorf("the result has %d imported brands, the service %d", got.Imported, len(s.brands))
			}
			there := got.Imported
			s.failAt = 0
			got, err = starter.Import(context.Background(), starter.Config{}, deps)
			if err != nil || got != (starter.Result{Imported: starter.Count - there, Present: there}) {
				t.Errorf("next import: %+v, %v, with %d existing brands", got, err, there)
			}
		})
	}
}

func TestImport_WrongAssetID_Stops(t *testing.T) {
	s := newService()
	s.wrong = true
	_, err := starter.Import(context.Background(), starter.Config{}, s.deps(t))
	if err == nil || !strings.Contains(err.Error(), "the record says") || len(s.brands) != 0 {
		t.Errorf("error = %v, %d brands; want an error that contains %q and 0", err, len(s.brands), "the record says")
	}
}

func TestFileMarker_KeepsLastVersion(t *testing.T) {
	ctx := context.Background()
	m := starter.FileMarker{Path: filepath.Join(t.TempDir(), "starter")}
	if v, err := m.Load(ctx); v != "" || err != nil {
		t.Errorf("Load before Save = %q, %v; want %q", v, err, "")
	}
	for _, version := range []string{"one", "two"} {
		testmust.Succeed(t, m.Save(ctx, version))
		if v, err := m.Load(ctx); v != version || err != nil {
			t.Errorf("loaded %q, %v, want %q", v, err, version)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(m.Path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder contains %v, %v, want only the marker", entries, err)
	}
	missing := starter.FileMarker{Path: filepath.Join(t.TempDir(), "no", "such", "folder")}
	if err := missing.Save(ctx, "one"); err == nil {
		t.Error("Save succeeded in a missing folder")
	}
}

// BenchmarkImport loads the index into the embedded log and a folder of assets.
func BenchmarkImport(b *testing.B) {
	ctx := context.Background()
	for b.Loop() {
		dir := b.TempDir()
		log := testmust.Get(sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "events.db")}))(b)
		url := "file://" + filepath.Join(dir, "assets")
		store := testmust.Get(assets.Open(ctx, url))(b)
		deps := starter.Deps{Assets: store, Brands: appender{log}, Marker: starter.FileMarker{Path: filepath.Join(dir, "starter")}}
		got, err := starter.Import(ctx, starter.Config{}, deps)
		if err != nil || got.Imported != starter.Count {
			b.Fatal(got, err)
		}
		testmust.Succeed(b, errors.Join(log.Close(), store.Close()))
	}
	b.ReportMetric(float64(starter.Count), "brands/op")
}

// appender writes each brand's event like the command: one append to a new stream.
type appender struct{ log eventlog.Log }

func (a appender) ImportBrand(ctx context.Context, source string, b starter.Brand) (bool, error) {
	stream := "brand-" + b.Domain
	enc, err := eventschemas.Encode(eventschemas.BrandImported{
		BrandID: uuid.NewString(), Domain: b.Domain, Source: source, Record: b.Record, Evidence: b.Evidence,
	})
	if err != nil {
		return false, err
	}
	_, err = a.log.Append(ctx, stream, eventlog.NoStream(), []eventlog.Proposed{{
		ID: uuid.New(), Type: enc.Type, SchemaVersion: enc.SchemaVersion, Data: enc.Data,
		OccurredAt: time.Now().UTC().Truncate(time.Microsecond), Metadata: eventlog.Metadata{Actor: "system:starter"},
	}})
	return err == nil, err
}
