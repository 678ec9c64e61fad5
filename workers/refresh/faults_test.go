package refresh_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/workers/refresh"
)

func TestUnreadableEvent_IsSkipped(t *testing.T) {
	long := strings.Repeat("a", eventlog.MaxStreamName) + ".com" // too long for a stream name
	for name, c := range map[string]struct {
		broken func(w *world)
		logged string
	}{
		"a brand whose stream is damaged": {func(w *world) {
			w.raw("brand-bad.com", eventschemas.BrandImported{}, 1, `{"brand_id":7}`)
			w.charge("bad.com")
		}, "domain=bad.com"},
		"a brand of a newer release": {func(w *world) {
			w.raw("brand-newer.com", eventschemas.BrandImported{}, 1000, `{}`)
			w.charge("newer.com")
		}, "domain=newer.com"},
		"a brand that cannot be": {func(w *world) { w.charge(long) }, "domain=" + long},
		"a damaged charge": {func(w *world) {
			w.raw("account-bad", eventschemas.CreditsCharged{}, 1, `{"credits":"x"}`)
		}, "stream=account-bad"},
	} {
		t.Run(name, func(t *testing.T) {
			w, output := newWorld(t), testwait.NewLines()
			w.imported("fine.com")
			c.broken(w)
			w.charge("fine.com")
			w.run(refresh.Config{Logger: output.Logger()})
			if in := w.next(); in.Domain != "fine.com" {
				t.Errorf("got %s", in.Domain)
			}
			output.Wait(t, 1, c.logged)
		})
	}
}

func TestRefresh_PermanentRefusal_SkipsBrand(t *testing.T) {
	w := newWorld(t)
	w.imported("odd.com", "fine.com")
	w.fail = func(domain string) error {
		if domain == "odd.com" {
			return brand.ErrInvalidCrawl
		}
		return nil
	}
	w.charge("odd.com", "fine.com")
	w.run(refresh.Config{})
	if in := w.next(); in.Domain != "fine.com" {
		t.Errorf("got %s", in.Domain)
	}
}

func TestChargeOfNewerRelease_EndsTheRefresher(t *testing.T) {
	w := newWorld(t)
	w.raw("account-a", eventschemas.CreditsCharged{}, 1000, `{}`)
	r := testmust.Get(refresh.New(refresh.Config{}, w.log, w, w, w))(t)
	if err := r.Run(t.Context()); !errors.Is(err, eventschemas.ErrUnknownVersion) || !strings.Contains(err.Error(), "CreditsCharged") {
		t.Errorf("Run: %v, want eventschemas.ErrUnknownVersion of a CreditsCharged", err)
	}
}

func TestCheckpointPastTheLog_BeginsAtHead(t *testing.T) {
	w, output := newWorld(t), testwait.NewLines()
	testmust.Succeed(t, w.positions.Save(t.Context(), checkpoint, 1<<40))
	w.imported("old.com", "new.com")
	w.charge("old.com")
	w.run(refresh.Config{Logger: output.Logger()})
	output.Wait(t, 1, "past the log")
	w.charge("new.com")
	if in := w.next(); in.Domain != "new.com" {
		t.Errorf("got %s, want the brand charged after the start", in.Domain)
	}
	head := testmust.Get(w.log.Head(t.Context()))(t)
	if at, _, err := w.positions.Load(t.Context(), checkpoint); err != nil || at > head {
		t.Errorf("the checkpoint is still at %d (%v), past the log's head %d: the next start skips the events until then", at, err, head)
	}
}

func TestSaveFails_RefresherContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, output := newWorld(t), testwait.NewLines()
		w.unsaved = errors.New("disk is full")
		all := []string{"one.com", "two.com", "three.com"}
		w.imported(all...)
		stop := w.run(refresh.Config{Logger: output.Logger()})
		for _, domain := range all {
			w.charge(domain)
			if in := w.next(); in.Domain != domain {
				t.Errorf("got %s, want %s", in.Domain, domain)
			}
			time.Sleep(time.Minute) // of the bubble's clock: the next save is due
			synctest.Wait()
		}
		stop()
		close(output)
		failed := 0
		for line := range output {
			if strings.Contains(line, "could not be saved") {
				failed++
			}
			if strings.Contains(line, "starts again") {
				t.Errorf("a failed save must not count as a fault of the refresher: %s", line)
			}
		}
		if failed < len(all) {
			t.Errorf("a save was tried %d times, want it tried again after each failure", failed)
		}
	})
}
