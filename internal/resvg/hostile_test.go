package resvg_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"letterhead/internal/imaging"
	"letterhead/internal/race"
	"letterhead/internal/resvg"
	"letterhead/internal/svg"
	"letterhead/internal/svg/svgtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testprocess"
)

// TestHostileSVG passes every hostile file through the sanitizer and the renderer. The sanitizer must remove
// everything that could run or load, and the harmless rectangle must be drawn.
// Rule 12.
func TestHostileSVG(t *testing.T) {
	r, err := renderer()
	testmust.Succeed(t, err)
	for _, h := range svgtest.Hostile() {
		t.Run(h.Name, func(t *testing.T) {
			clean, _, err := svg.Sanitize([]byte(h.SVG))
			if h.Want != nil {
				if !errors.Is(err, h.Want) {
					t.Errorf("%v, want %v", err, h.Want)
				}
				return
			}
			testmust.Succeed(t, err)
			if found := svgtest.Residue(clean); len(found) > 0 {
				t.Errorf("the sanitized file contains %v", found)
			}
			img, err := r.Render(t.Context(), clean, 256)
			if err != nil {
				t.Fatalf("%v\n%.400s", err, clean)
			}
			if !bytes.Contains(img.Pix, []byte{0x0b, 0x5f, 0xff, 0xff}) {
				t.Error("the harmless rectangle was not drawn")
			}
		})
	}
}

const (
	// fewSteps is enough for a plain logo and not enough for a hostile file.
	fewSteps = 5 << 20
	// noTimeout never expires, even on a busy machine.
	noTimeout = time.Hour
)

// TestHostileSVG_Unsanitized passes the same files to the renderer unchanged, one after the other. Each
// must result in an image or in an error that identifies the cause. A separate process draws them, so
// that its peak memory shows the use of the code, the compiled module, the instance and the images.
// Rule 12.
func TestHostileSVG_Unsanitized(t *testing.T) {
	const inside = "LETTERHEAD_TEST_DRAWS_HOSTILE_FILES" // passes the cache's path to the process that draws
	if dir := os.Getenv(inside); dir != "" {
		drawHostile(t, dir)
		return
	}
	if _, err := renderer(); err != nil { // fills the cache
		t.Fatal(err)
	}
	self, err := os.Executable()
	testmust.Succeed(t, err)
	child := exec.CommandContext(t.Context(), self, "-test.run=^TestHostileSVG_Unsanitized$", "-test.v")
	child.Env = append(os.Environ(), inside+"="+cacheDir)
	out, err := child.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestHostileSVG_Unsanitized")) {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// drawHostile runs in the separate process.
func drawHostile(t *testing.T, dir string) {
	r, err := resvg.New(t.Context(), resvg.Config{CacheDir: dir, Steps: fewSteps, Timeout: noTimeout, Concurrent: 1})
	testmust.Succeed(t, err)
	defer r.Close(context.Background())
	tooLarge := 0
	for _, h := range svgtest.Hostile() {
		img, err := r.Render(t.Context(), []byte(h.SVG), 256)
		switch {
		case err == nil:
			if max(img.Rect.Dx(), img.Rect.Dy()) != 256 {
				t.Errorf("%s: bounds %v", h.Name, img.Rect)
			}
		case errors.Is(err, imaging.ErrTooLarge):
			tooLarge++
		case !errors.Is(err, imaging.ErrMalformed):
			t.Errorf("%s: %v", h.Name, err)
		}
	}
	if tooLarge == 0 {
		t.Error("no file exceeded a limit, so the files are not hostile enough")
	}
	// This is three times the memory limit of one instance and the process itself. A memory is copied
	// to a new one when it grows, and memory of previous images may not have been collected yet.
	const most = 300 << 20
	peak, err := testprocess.ID(os.Getpid()).Peak()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Log("this system does not report the peak memory of a process")
	case err != nil:
		t.Error(err)
	case race.Enabled:
		t.Logf("peak %d MiB, most of it used by the race detector", peak>>20)
	case peak > most:
		t.Errorf("peak %d MiB, limit %d", peak>>20, most>>20)
	default:
		t.Logf("peak %d MiB", peak>>20)
	}
}

// Rule 12.
func TestLimits(t *testing.T) {
	const (
		plain = open + `<rect width="100" height="50"/></svg>`
		// Many layers of blur over the whole image take seconds.
		slow = open + `<filter id="f"><feGaussianBlur stdDeviation="9"/><feGaussianBlur stdDeviation="9"/><feGaussianBlur stdDeviation="9"/></filter>` +
			`<g filter="url(#f)"><g filter="url(#f)"><g filter="url(#f)"><rect width="100" height="50"/></g></g></g></svg>`
	)
	for _, c := range []struct {
		name string
		cfg  resvg.Config
		svg  string
		side int
		want error
	}{
		{"within", resvg.Config{}, plain, 64, nil},
		{"memory", resvg.Config{Memory: 4 << 20}, plain, resvg.MaxSide, imaging.ErrTooLarge},
		{"steps", resvg.Config{Steps: fewSteps, Timeout: noTimeout}, slow, 1024, imaging.ErrTooLarge},
		{"steps, smaller", resvg.Config{Steps: fewSteps, Timeout: noTimeout}, slow, 64, nil},
		{"no steps", resvg.Config{Steps: 1, Timeout: noTimeout}, plain, 64, imaging.ErrTooLarge},
		{"time", resvg.Config{Steps: 1 << 60, Timeout: 1}, hostile(t, "use bomb"), 64, context.DeadlineExceeded},
		{"side", resvg.Config{}, plain, resvg.MaxSide + 1, imaging.ErrTooLarge},
		{"no side", resvg.Config{}, plain, 0, imaging.ErrTooLarge},
		{"bytes", resvg.Config{}, string(make([]byte, svg.MaxBytes+1)), 64, imaging.ErrTooLarge},
		{"nothing", resvg.Config{}, "", 64, imaging.ErrMalformed},
		{"no XML", resvg.Config{}, "\x89PNG", 64, imaging.ErrMalformed},
		{"no svg", resvg.Config{}, "<html/>", 64, imaging.ErrMalformed},
		{"without a namespace", resvg.Config{}, "<svg/>", 64, imaging.ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := renderer()
			if c.cfg != (resvg.Config{}) {
				c.cfg.CacheDir = cacheDir
				if r, err = resvg.New(t.Context(), c.cfg); err == nil {
					defer r.Close(context.Background())
				}
			}
			testmust.Succeed(t, err)
			for range 2 { // the memory of a failed image is reused
				img, err := r.Render(t.Context(), []byte(c.svg), c.side)
				if !errors.Is(err, c.want) || (img == nil) != (err != nil) {
					t.Errorf("%v, want %v", err, c.want)
				}
				if c.want == context.DeadlineExceeded && picture(err) {
					t.Errorf("a timeout is reported as an error of the file: %v", err)
				}
			}
		})
	}
}

// picture reports whether an error concerns the file, not the load.
func picture(err error) bool {
	return errors.Is(err, imaging.ErrTooLarge) || errors.Is(err, imaging.ErrMalformed)
}

// TestSteps_DependOnlyOnFile draws a file alone, after other files, and concurrently with them. The
// minimum number of steps must be the same each time.
func TestSteps_DependOnlyOnFile(t *testing.T) {
	const quantum = 1 << 18
	drawn := func(steps int64) bool {
		r, err := resvg.New(t.Context(), resvg.Config{CacheDir: cacheDir, Steps: steps, Timeout: noTimeout, Concurrent: 2})
		testmust.Succeed(t, err)
		defer r.Close(context.Background())
		var other sync.WaitGroup
		defer other.Wait()
		other.Go(func() {
			if _, err := r.Render(t.Context(), []byte(open+`<rect width="9" height="9"/></svg>`), 256); err != nil && !errors.Is(err, imaging.ErrTooLarge) {
				t.Error(err)
			}
		})
		_, err = r.Render(t.Context(), []byte(hostile(t, "groups of opacity in each other")), 256)
		if err != nil && !errors.Is(err, imaging.ErrTooLarge) {
			t.Fatal(err)
		}
		return err == nil
	}
	enough := int64(1)
	for !drawn(enough * quantum) {
		if enough++; enough > resvg.DefaultSteps/quantum {
			t.Fatal("the file was not drawn with DefaultSteps")
		}
	}
	for range 3 {
		if !drawn(enough*quantum) || drawn((enough-1)*quantum) {
			t.Errorf("%d quanta were the minimum at first, but not now", enough)
		}
	}
}

func TestRender_CanceledContext_Ends(t *testing.T) {
	r, err := renderer()
	testmust.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Render(ctx, []byte(open+`</svg>`), 64); !errors.Is(err, context.Canceled) || errors.Is(err, imaging.ErrTooLarge) {
		t.Error(err)
	}
	// A caller whose time is up gets context.DeadlineExceeded, not ErrTooLarge.
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.Render(ctx, []byte(hostile(t, "use bomb")), 64); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want DeadlineExceeded", err)
	}
}

func TestRender_Closed_Fails(t *testing.T) {
	r, err := resvg.New(t.Context(), resvg.Config{CacheDir: cacheDir})
	testmust.Succeed(t, err)
	for range 2 {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.Render(t.Context(), []byte(open+`</svg>`), 64); !errors.Is(err, resvg.ErrClosed) {
		t.Errorf("error = %v, want ErrClosed", err)
	}
}

// TestClose_SecondCallContinuesWaiting calls Close twice while an image is being drawn, first with a short timeout.
func TestClose_SecondCallContinuesWaiting(t *testing.T) {
	for _, concurrent := range []int{1, 3} {
		r, err := resvg.New(t.Context(), resvg.Config{CacheDir: cacheDir, Steps: 1 << 60, Timeout: noTimeout, Concurrent: concurrent})
		testmust.Succeed(t, err)
		drawn := make(chan error, 1)
		wanted, leave := context.WithCancel(context.Background())
		defer leave()
		drawing, begins := context.WithCancel(context.Background())
		go func() {
			_, err := r.Render(begun{wanted, begins}, []byte(hostile(t, "use bomb")), 64)
			drawn <- err
		}()
		<-drawing.Done()
		short, cancel := context.WithCancel(t.Context())
		cancel()
		for range 3 {
			if err := r.Close(short); !errors.Is(err, context.Canceled) {
				t.Fatalf("Close while an image is being drawn: %v, want Canceled", err)
			}
		}
		if _, err := r.Render(t.Context(), []byte(open+`</svg>`), 64); !errors.Is(err, resvg.ErrClosed) {
			t.Errorf("Render after the first Close: %v, want ErrClosed", err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := r.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		leave()
		wg.Wait()
		select {
		case err := <-drawn:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Render during Close: %v, want Canceled", err)
			}
		case <-t.Context().Done():
			t.Fatal("the image did not end")
		}
	}
}

// begun is a context that reports when another context is derived from it. This happens when Render gets its turn.
type begun struct {
	context.Context
	report func()
}

func (b begun) Value(key any) any {
	b.report()
	return b.Context.Value(key)
}

// hostile returns one of the hostile files.
func hostile(t testing.TB, name string) string {
	t.Helper()
	for _, h := range svgtest.Hostile() {
		if h.Name == name {
			return h.SVG
		}
	}
	t.Fatalf("no file %q", name)
	return ""
}

func FuzzRender(f *testing.F) {
	for _, h := range svgtest.Hostile() {
		if len(h.SVG) < 4<<10 {
			f.Add([]byte(h.SVG))
		}
	}
	r, err := resvg.New(context.Background(), resvg.Config{CacheDir: cacheDir, Steps: fewSteps, Timeout: noTimeout})
	testmust.Succeed(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		const side = 48
		check := func(img *image.NRGBA, err error) {
			switch {
			case err == nil && max(img.Rect.Dx(), img.Rect.Dy()) != side:
				t.Errorf("bounds %v", img.Rect)
			case err != nil && !errors.Is(err, imaging.ErrMalformed) && !errors.Is(err, imaging.ErrTooLarge):
				t.Error(err)
			}
		}
		check(r.Render(t.Context(), data, side))
		if clean, _, err := svg.Sanitize(data); err == nil {
			check(r.Render(t.Context(), clean, side))
		}
	})
}
