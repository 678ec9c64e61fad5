package resvg_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/imaging"
	"letterhead/internal/resvg"
	"letterhead/internal/testmust"
	"letterhead/internal/variants"
)

// largePicture is an image that, at resvg.MaxSide, needs more memory than two images may have together.
const largePicture = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100"><rect width="90" height="90" fill="#0b5fff"/></svg>`

// waiting returns a renderer whose large memory is in use by another image. Drawing takes no time of
// the bubble's clock.
func waiting(t *testing.T, cfg resvg.Config) (r *resvg.Renderer, release func()) {
	t.Helper()
	cfg.CacheDir = cacheDir
	r, err := resvg.New(t.Context(), cfg)
	testmust.Succeed(t, err)
	t.Cleanup(func() { testmust.Succeed(t, r.Close(context.Background())) })
	return r, r.TakeLarge()
}

func TestRender_WaitingForMemory_DoesNotCountAsDrawing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, release := waiting(t, resvg.Config{Timeout: time.Second, Wait: time.Hour})
		time.AfterFunc(time.Hour-time.Second, release)
		began := time.Now()
		img, err := r.Render(t.Context(), []byte(largePicture), resvg.MaxSide)
		if err != nil || img.Rect.Dx() != resvg.MaxSide {
			t.Errorf("Render of an image that waits for memory failed or has another size: %v", err)
		}
		if waited := time.Since(began); waited != time.Hour-time.Second {
			t.Errorf("Render waited %v, want %v", waited, time.Hour-time.Second)
		}
	})
}

func TestRender_MemoryNeverFree_IsBusyAfterItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, release := waiting(t, resvg.Config{Timeout: time.Hour, Wait: time.Minute})
		for range 2 {
			began := time.Now()
			_, err := r.Render(t.Context(), []byte(largePicture), resvg.MaxSide)
			if !errors.Is(err, resvg.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) || picture(err) {
				t.Errorf("error = %v, want ErrBusy with DeadlineExceeded", err)
			}
			if waited := time.Since(began); waited != time.Minute {
				t.Errorf("Render waited %v, want %v", waited, time.Minute)
			}
		}
		// Small images are drawn anyway, and the large image as soon as the memory is free.
		if _, err := r.Render(t.Context(), []byte(largePicture), 64); err != nil {
			t.Error(err)
		}
		release()
		if _, err := r.Render(t.Context(), []byte(largePicture), resvg.MaxSide); err != nil {
			t.Error(err)
		}
	})
}

func TestRender_CallerLeavesWhileWaitingForMemory_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, release := waiting(t, resvg.Config{Wait: time.Hour})
		defer release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.Render(ctx, []byte(largePicture), resvg.MaxSide); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, resvg.ErrBusy) || errors.Is(err, imaging.ErrTooLarge) {
			t.Error(err)
		}
	})
}

// The caller's time limit must be longer than that of the renderer.
func TestDefaults_WaitAndDrawing_FitMakeTimeout(t *testing.T) {
	if all := resvg.DefaultWait + resvg.DefaultTimeout; all > variants.DefaultMakeTimeout {
		t.Errorf("waiting and drawing may take %v, but a variant only %v", all, variants.DefaultMakeTimeout)
	}
}
