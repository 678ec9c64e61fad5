package readapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/imaging"
	"letterhead/internal/imaging/imagingtest"
	"letterhead/internal/race"
	"letterhead/internal/resvg"
	"letterhead/internal/svg"
	"letterhead/internal/svg/svgtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testprocess"
	"letterhead/internal/variants"
	"letterhead/readapi"
	"letterhead/readapi/logo"
)

// mostLogoMemory is the maximum memory of a process that serves every known hostile file, including
// the service around it and its databases.
const mostLogoMemory = 300 << 20

// TestLogo_HostileFiles_AreHarmless requests every hostile SVG and every raster bomb over /logo and /cdn, once
// as intake stores it, and once unchanged, as if intake had missed it. The serving process does
// nothing else, so its peak memory is the memory that all of it takes.
func TestLogo_HostileFiles_AreHarmless(t *testing.T) {
	const part, cache = "LETTERHEAD_TEST_SERVES_HOSTILE_LOGOS", "LETTERHEAD_TEST_RESVG_CACHE" // of the serving process
	const concurrent = "the largest concurrently, on eight processors"
	parts := map[string]func(*testing.T, string){"as intake stores them": serveSanitized, "unchanged": serveRaw, concurrent: serveConcurrent}
	if serve := parts[os.Getenv(part)]; serve != nil {
		serve(t, os.Getenv(cache))
		return
	}
	if testing.Short() {
		t.Skip("draws hostile logos for minutes")
	}
	t.Parallel()
	folder := t.TempDir()
	compiled, err := resvg.New(t.Context(), resvg.Config{CacheDir: folder}) // which takes memory that no server keeps
	testmust.Succeed(t, err)
	compiled.Close(t.Context())
	testmust.Succeed(t, os.WriteFile(filepath.Join(folder, noiseFile), imagingtest.NoisePNG(2048), 0o600))
	self, err := os.Executable()
	testmust.Succeed(t, err)
	for name := range parts {
		t.Run(name, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), self, "-test.run=^TestLogo_HostileFiles_AreHarmless$", "-test.v")
			child.Env = append(os.Environ(), part+"="+name, cache+"="+folder)
			if name == concurrent {
				child.Env = append(child.Env, "GOMAXPROCS=8")
			}
			out, err := child.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("--- PASS: TestLogo_HostileFiles_AreHarmless")) {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}

// hostileGallery is a service whose brands have hostile logos.
type hostileGallery struct {
	*service
	renderer *logo.Renderer
	client   *http.Client // without the checks of a service's own client, which take as much memory as the measured part
	asked    int
	busy     int           // requests answered with 503
	slowest  time.Duration // of one request, for the log
	worst    string        // which one
}

// hostileTimeout is the time limit of each drawing, variant and request, the largest that variants accept.
const hostileTimeout = time.Minute

// serveHostile starts a service whose vector drawings may take that many steps; 0 is the default of a server.
func serveHostile(t *testing.T, cache string, steps int64) *hostileGallery {
	vectors, err := resvg.New(t.Context(), resvg.Config{CacheDir: cache, Steps: steps, Timeout: hostileTimeout, Concurrent: 1})
	testmust.Succeed(t, err)
	t.Cleanup(func() { vectors.Close(context.Background()) })
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	g := &hostileGallery{client: client}
	g.service = start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			drawn, err := variants.New(variants.Config{MakeTimeout: hostileTimeout})
			testmust.Succeed(t, err)
			t.Cleanup(drawn.Close)
			if g.renderer, err = logo.NewRenderer(d.Assets.(logo.Files), vectors, drawn); err != nil {
				t.Fatal(err)
			}
			d.Logos = g.renderer
		}
	})
	return g
}

// serveSanitized uses the default steps of a server.
func serveSanitized(t *testing.T, cache string) {
	g := serveHostile(t, cache, 0)
	checkPeak(t)
	g.sanitized(t)
	g.logSummary(t)
}

// serveRaw uses fewer: no file may exceed the renderer's limit, so the limit changes which are drawn
// and how long this test takes, but not which answers are valid.
func serveRaw(t *testing.T, cache string) {
	g := serveHostile(t, cache, 10<<18)
	g.raw(t)
	g.bombs(t)
	g.logSummary(t)
}

// noiseFile is the file that serveConcurrent draws, stored next to the renderer's cache because creating it
// takes memory, too.
const noiseFile = "noise.png"

// serveConcurrent draws the largest allowed raster, of noise, in eight sizes concurrently. A server with
// eight processors could draw them all at the same time; the memory must not grow accordingly. On a slow
// machine some get no turn within hostileTimeout.
func serveConcurrent(t *testing.T, cache string) {
	if runtime.GOMAXPROCS(0) != 8 {
		t.Fatalf("%d processors, want 8", runtime.GOMAXPROCS(0))
	}
	g := serveHostile(t, cache, 0)
	checkPeak(t)
	noise, err := os.ReadFile(filepath.Join(cache, noiseFile))
	testmust.Succeed(t, err)
	id, err := g.assets.Put(t.Context(), noise, "png")
	testmust.Succeed(t, err)
	asset := eventschemas.Asset{ID: id, Format: "png", Size: int64(len(noise))}
	b := logo.Brand{Domain: "noise.com", Logos: []eventschemas.Logo{{Type: "icon", Formats: []eventschemas.Asset{asset}}}}
	noise = nil
	var all sync.WaitGroup
	var drawn atomic.Int64
	for i := range 8 {
		all.Go(func() {
			o := logo.Options{Type: logo.Icon, Size: 512 - i, Format: imaging.WebP, Fallback: logo.Monogram}
			switch p, err := g.renderer.Draw(t.Context(), b, o); {
			case errors.Is(err, variants.ErrBusy):
				t.Logf("%d pixels: %v", o.Size, err)
			case err != nil || p.ContentType != logo.ContentTypeWebP || p.Fallback != "":
				t.Errorf("%d pixels: %v, %+v", o.Size, err, p)
			default:
				drawn.Add(1)
			}
		})
	}
	all.Wait()
	if drawn.Load() == 0 {
		t.Error("no image was drawn")
	}
	checkPeak(t)
}

// checkPeak compares the peak resident memory of this process with mostLogoMemory.
func checkPeak(t *testing.T) {
	peak, err := testprocess.ID(os.Getpid()).Peak()
	if errors.Is(err, fs.ErrNotExist) {
		t.Log("this system does not report the peak of a process's memory")
		return
	}
	testmust.Succeed(t, err)
	t.Logf("peak %d MiB", peak>>20)
	if peak > mostLogoMemory && !race.Enabled { // the detector needs memory itself
		t.Errorf("peak %d MiB, limit %d", peak>>20, mostLogoMemory>>20)
	}
}

func (g *hostileGallery) logSummary(t *testing.T) {
	checkPeak(t)
	t.Logf("%d requests, %d of them answered 503; the longest took %v: %s", g.asked, g.busy, g.slowest, g.worst)
}

// store makes a file the only format of a brand's only logo. The brand is in the index after catchUp.
func (g *hostileGallery) store(t *testing.T, domain, format string, data []byte) (id string) {
	t.Helper()
	id, err := g.assets.Put(t.Context(), data, format)
	testmust.Succeed(t, err)
	r := plainRecord(domain)
	r.Logos = []eventschemas.Logo{{Type: "icon", Formats: []eventschemas.Asset{{ID: id, Format: format, Size: int64(len(data))}}, Tags: []string{}}}
	testmust.Succeed(t, testmust.Err(g.brands.ImportBrand(t.Context(), commands.ImportBrand{Request: operator(), Domain: domain, Source: "test 1", Record: r})))
	return id
}

// ask requests one image, occasionally advancing the clock by a minute: an address has 300 requests a minute. If the
// machine is too busy to draw it within a request's time, it retries, as the answer says.
func (g *hostileGallery) ask(t *testing.T, path string) answer {
	t.Helper()
	for {
		if g.asked++; g.asked%200 == 0 {
			g.clock.add(time.Minute)
		}
		began := time.Now()
		resp, err := g.client.Get(g.url + path)
		testmust.Succeed(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		testmust.Succeed(t, err)
		a := answer{status: resp.StatusCode, header: resp.Header, body: body}
		if took := time.Since(began); took > g.slowest {
			g.slowest, g.worst = took, path
		}
		if a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: X-Content-Type-Options is missing", path)
		}
		if a.header.Get("Content-Type") == "image/svg+xml" && a.header.Get("Content-Security-Policy") != "default-src 'none'; style-src 'unsafe-inline'; sandbox" {
			t.Errorf("%s: Content-Security-Policy %q", path, a.header.Get("Content-Security-Policy"))
		}
		if a.status != http.StatusServiceUnavailable {
			return a
		}
		g.busy++
		if a.header.Get("Cache-Control") != "no-store" || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: 503 %v", path, a.header)
		}
	}
}

// picture requests a raster and returns it, or nil for a plain rejection: an error about a file that
// cannot be drawn is text that reveals nothing of the file, and is not cached.
func (g *hostileGallery) picture(t *testing.T, domain string, size int, format imaging.Format) *image.NRGBA {
	t.Helper()
	path := fmt.Sprintf("/logo/%s?size=%d&format=%s", domain, size, format)
	a := g.ask(t, path)
	if a.status == http.StatusInternalServerError {
		if a.header.Get("Content-Type") != "text/plain; charset=utf-8" || len(a.body) > 200 || bytes.ContainsAny(a.body, "<>&") || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: header %v, body %q", path, a.header, a.body)
		}
		return nil
	}
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "image/"+string(format) {
		t.Errorf("%s: status %d, %s, body %.200s", path, a.status, a.header.Get("Content-Type"), a.body)
		return nil
	}
	img, info, err := imaging.Decode(a.body, imaging.Limits{Side: size})
	if err != nil || info.Format != format {
		t.Errorf("%s: %+v, %v", path, info, err)
		return nil
	}
	return img
}

var rasterFormats = []imaging.Format{imaging.PNG, imaging.WebP, imaging.JPEG}

// sanitized stores svg.Sanitize's result for each file. A rejected file never becomes a logo.
func (g *hostileGallery) sanitized(t *testing.T) {
	stored, rejected := map[string]string{}, 0
	for i, h := range svgtest.Hostile() {
		clean, _, err := svg.Sanitize([]byte(h.SVG))
		if !errors.Is(err, h.Want) {
			t.Errorf("%s: %v, want %v", h.Name, err, h.Want)
		}
		if err != nil {
			rejected++
			continue
		}
		domain := fmt.Sprintf("hostile-%d.com", i)
		id := g.store(t, domain, "svg", clean)
		stored[h.Name] = domain + " " + id
	}
	if rejected == 0 || len(stored) < 31 {
		t.Fatalf("%d files stored, %d rejected", len(stored), rejected)
	}
	g.catchUp()
	blue := []byte{0x0b, 0x5f, 0xff, 0xff} // of the honest rectangle
	turn := 0
	for name, where := range stored {
		turn++
		domain, id, _ := strings.Cut(where, " ")
		for _, path := range []string{"/logo/" + domain + "?format=svg", "/cdn/" + id + ".svg"} {
			a := g.ask(t, path)
			if a.status != http.StatusOK || a.header.Get("Content-Type") != "image/svg+xml" || !bytes.Contains(a.body, []byte(`fill="#0b5fff"`)) {
				t.Errorf("%s: %s: status %d, %s, body %.200s", name, path, a.status, a.header.Get("Content-Type"), a.body)
			}
			for _, found := range svgtest.Residue(a.body) {
				t.Errorf("%s: %s: residue: %s", name, path, found)
			}
		}
		for _, size := range []int{16, 128, 1024} {
			for i, format := range rasterFormats {
				if size == 1024 && i != turn%len(rasterFormats) { // these take longest, so the formats alternate
					continue
				}
				img := g.picture(t, domain, size, format)
				switch {
				case img == nil:
					t.Errorf("%s: not drawn as %s of %d pixels", name, format, size)
				case max(img.Rect.Dx(), img.Rect.Dy()) != size:
					t.Errorf("%s: %v, want %d", name, img.Rect, size)
				case format != imaging.JPEG && !bytes.Contains(img.Pix, blue):
					t.Errorf("%s: the harmless rectangle is not in the %s of %d pixels", name, format, size)
				}
			}
		}
	}
	t.Logf("%d files stored and drawn, %d rejected by intake", len(stored), rejected)
}

// raw stores each file unchanged. The answer is an image of the requested size, or of half or a
// quarter of it, or a rejection, and the same in another format; as an SVG it is sent with the headers
// that keep a browser from running or loading anything in it.
func (g *hostileGallery) raw(t *testing.T) {
	type file struct{ name, domain, id string }
	var stored []file
	for i, h := range svgtest.Hostile() {
		domain := fmt.Sprintf("raw-%d.com", i)
		stored = append(stored, file{h.Name, domain, g.store(t, domain, "svg", []byte(h.SVG))})
	}
	g.catchUp()
	drawn, halved := 0, 0
	for i, f := range stored {
		for _, path := range []string{"/logo/" + f.domain + "?format=svg", "/cdn/" + f.id + ".svg"} {
			a := g.ask(t, path)
			if a.status != http.StatusOK && a.status != http.StatusInternalServerError {
				t.Errorf("%s: %s: status %d, body %.200s", f.name, path, a.status, a.body)
			}
			// A logo is rebuilt once more before it is sent. The bytes of an asset are those of the store, because its name is
			// their hash; there the headers, which ask checks, must suffice.
			if a.header.Get("Content-Type") == "image/svg+xml" && strings.HasPrefix(path, "/logo/") {
				for _, found := range svgtest.Residue(a.body) {
					t.Errorf("%s: %s: residue: %s", f.name, path, found)
				}
			}
		}
		size := []int{16, 128, 1024}[i%3]
		if img := g.picture(t, f.domain, size, rasterFormats[i/3%3]); img != nil {
			drawn++
			side := max(img.Rect.Dx(), img.Rect.Dy())
			if side != size && (side < 256 || side != size/2 && side != size/4) {
				t.Errorf("%s: %v, want %d", f.name, img.Rect, size)
			}
			if side < size {
				halved++
				if again := g.picture(t, f.domain, size, rasterFormats[(i/3+1)%3]); again == nil || max(again.Rect.Dx(), again.Rect.Dy()) != side {
					t.Errorf("%s: drawn at %d pixels, but not in another format", f.name, side)
				}
			}
		}
	}
	if drawn == 0 || drawn == len(stored) {
		t.Errorf("%d of %d files were drawn: the files have changed", drawn, len(stored))
	}
	t.Logf("%d of %d files drawn as stored, %d of them smaller", drawn, len(stored), halved)
}

// storable reports whether a store may contain the file: larger or empty ones are never stored.
func storable(b imagingtest.Bomb) bool { return len(b.Data) > 0 && len(b.Data) <= assets.MaxBytes }

// bombs stores each raster bomb as PNG, WebP and JPEG, the raster formats that a store may contain.
func (g *hostileGallery) bombs(t *testing.T) {
	bombs := imagingtest.RasterBombs()
	for i, b := range bombs {
		for _, format := range []string{"png", "webp", "jpeg"} {
			if storable(b) {
				g.store(t, fmt.Sprintf("bomb-%d-%s.com", i, format), format, b.Data)
			}
		}
	}
	g.store(t, "largest.com", "png", imagingtest.LargestPNG())
	g.catchUp()
	for i, b := range bombs {
		if !storable(b) {
			continue
		}
		for j, format := range []string{"png", "webp", "jpeg"} {
			domain := fmt.Sprintf("bomb-%d-%s.com", i, format)
			if img := g.picture(t, domain, []int{16, 128, 1024}[j], rasterFormats[j]); img != nil {
				t.Errorf("%s was drawn as %s: %v", b.Name, format, img.Rect)
			}
			// Only vectors are sent as vectors, whatever their name. A PNG that is small enough by its header is sent unchanged.
			a := g.ask(t, "/logo/"+domain+"?format=svg")
			if kind := a.header.Get("Content-Type"); a.status != http.StatusInternalServerError && (kind != "image/png" || imaging.Sniff(a.body) != imaging.PNG) {
				t.Errorf("%s as %s is %d %s for svg", b.Name, format, a.status, kind)
			}
		}
	}
	if img := g.picture(t, "largest.com", 128, imaging.WebP); img != nil {
		t.Errorf("an image of 16 million pixels was drawn, which no crawl stores: %v", img.Rect)
	}
}
