package search_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/internal/testmust"
	"letterhead/projections/brands"
	"letterhead/projections/search"
)

// slowFor is a source that hangs for one caller, from its second call on. A rebuild then holds the right to write and
// does not end.
type slowFor struct {
	*table
	asked int
	holds chan struct{} // closed when it hangs
	until chan struct{}
}

type slowKey struct{}

func (s *slowFor) Changed(ctx context.Context, after eventlog.Position, limit int) ([]brands.Doc, eventlog.Position, error) {
	if ctx.Value(slowKey{}) != nil {
		if s.asked++; s.asked == 2 {
			close(s.holds)
			<-s.until
		}
	}
	return s.table.Changed(ctx, after, limit)
}

// whileRebuilding runs a test while a rebuild holds the right to write to the index.
func whileRebuilding(t *testing.T, lead leadership, test func(t *testing.T, p *search.Projection, stop func() error)) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		s := &slowFor{table: &table{}, holds: make(chan struct{}), until: make(chan struct{})}
		s.change("acme.com", "Acme")
		p := testmust.Get(search.New(t.Context(), search.Config{Lead: lead}, s, searchindex.Index(m.open())))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- p.Run(ctx) }()
		synctest.Wait()
		rebuilt := make(chan error, 1)
		go func() { rebuilt <- p.Rebuild(context.WithValue(t.Context(), slowKey{}, true)) }()
		<-s.holds
		test(t, p, func() error {
			cancel()
			return <-ran
		})
		close(s.until)
		if err := <-rebuilt; err != nil {
			t.Errorf("Rebuild = %v", err)
		}
		cancel()
		if got := first(t, p, "acme"); got != "Acme" {
			t.Errorf("found %q", got)
		}
	})
}

func TestWaitFor_DuringRebuild_EndsWithItsContext(t *testing.T) {
	whileRebuilding(t, follows, func(t *testing.T, p *search.Projection, stop func() error) {
		began := time.Now() // of the test's virtual clock
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Verify(ctx); !errors.Is(err, context.DeadlineExceeded) { // Verify feeds missing changes
			t.Errorf("verify: %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("Verify waited %s, want 1 s", took)
		}
		if err := stop(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func TestFeeder_WaitsForRebuild_CanStop(t *testing.T) {
	began := sync.OnceValue(func() chan struct{} { return make(chan struct{}) }) // must be created in the test's bubble
	waits := func(ctx context.Context, _ string, do func(context.Context) error) error {
		<-began()
		return do(ctx)
	}
	whileRebuilding(t, waits, func(t *testing.T, p *search.Projection, stop func() error) {
		close(began())
		synctest.Wait()
		if p.Feeding() {
			t.Error("the projection feeds while another process writes")
		}
		if err := stop(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func TestClose_DuringRebuild_WaitsWithinLimit(t *testing.T) {
	whileRebuilding(t, leads, func(t *testing.T, p *search.Projection, stop func() error) {
		began := time.Now() // of the test's virtual clock
		if err := stop(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("run: %v, want %v", err, context.DeadlineExceeded)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("Close waited %s, want 5 s", took)
		}
	})
}
