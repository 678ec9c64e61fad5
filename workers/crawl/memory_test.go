package crawl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/internal/imaging/imagingtest"
	"letterhead/internal/race"
	"letterhead/internal/resvg"
	"letterhead/internal/svg/svgtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testprocess"
	"letterhead/workers/crawl"
)

// mostCrawlMemory is the memory limit, in bytes, of a process that crawls hostile sites and serves them to itself: the
// container size in the README. GOMEMLIMIT is eight tenths of it, as there.
const mostCrawlMemory = 512 << 20

// hostileFiles are created before the measurement.
var hostileFiles = map[string]func(*testing.T) []byte{
	"deep.png":    deepPNG,
	"tables.webp": func(*testing.T) []byte { return imagingtest.WebPTables(900) },
	"rgb.jpg":     func(*testing.T) []byte { return imagingtest.Claims()["jpeg, red green blue"](4096, 4096, true) },
	"noise.jpg":   func(t *testing.T) []byte { return noiseJPEG(t, 2600) },
	"page.html":   func(*testing.T) []byte { return []byte(hostilePage()) },
}

// deepPNG returns 16 million pixels of 16 bits per channel in about 140 kB.
// Decoded, it takes 128 MiB, and the same again for each converted form.
func deepPNG(t *testing.T) []byte {
	img := image.NewNRGBA64(image.Rect(0, 0, 4096, 4096))
	for y := 1000; y < 3000; y++ {
		for x := 1000; x < 3000; x++ {
			img.SetNRGBA64(x, y, color.NRGBA64{0xc000, 0x2000, 0x1000, 0xffff})
		}
	}
	var b bytes.Buffer
	testmust.Succeed(t, png.Encode(&b, img))
	return b.Bytes()
}

func noiseJPEG(t *testing.T, side int) []byte {
	img := image.NewRGBA(image.Rect(0, 0, side, side))
	rand.NewChaCha8([32]byte{}).Read(img.Pix)
	var b bytes.Buffer
	testmust.Succeed(t, jpeg.Encode(&b, img, &jpeg.Options{Quality: 60}))
	return b.Bytes()
}

// hostilePage refers to many images that are large in different ways, and has as many elements as fit.
func hostilePage() string {
	var b strings.Builder
	b.WriteString(`<!doctype html><title>Acme</title><meta property="og:site_name" content="Acme"><meta property="og:image" content="/deep.png?share">`)
	for i := range 6 {
		fmt.Fprintf(&b, `<link rel="icon" sizes="%dx%d" href="/deep.png?icon=%d">`, 512-i, 512-i, i)
	}
	b.WriteString(`<header><a href="/">`)
	for i := range 6 {
		fmt.Fprintf(&b, `<img class="logo" alt="Acme" src="/deep.png?logo=%d">`, i)
	}
	for i := range 4 {
		fmt.Fprintf(&b, `<img class="logo" alt="Acme" src="/hostile.svg?%d">`, i)
	}
	b.WriteString(`</a></header>`)
	for i := range 2 {
		fmt.Fprintf(&b, `<link rel="apple-touch-icon" href="/tables.webp?%d">`, i)
	}
	for _, name := range []string{"noise.jpg", "rgb.jpg", "noise.jpg"} {
		fmt.Fprintf(&b, `<img width="1200" height="800" src="/%s?%d">`, name, b.Len())
	}
	b.WriteString(strings.Repeat("<p>a<br>", 30_000))
	return b.String()
}

// TestHostileSites_Crawls_StayWithinMemory crawls sites concurrently, each of which would take a gigabyte. The crawling
// process does nothing else, so its peak is the memory of the crawls.
func TestHostileSites_Crawls_StayWithinMemory(t *testing.T) {
	const folderOf = "LETTERHEAD_TEST_CRAWLS_HOSTILE_SITES"
	if folder := os.Getenv(folderOf); folder != "" {
		crawlHostileSites(t, folder)
		return
	}
	if testing.Short() {
		t.Skip("draws hostile images for minutes")
	}
	folder := t.TempDir()
	for name, made := range hostileFiles {
		testmust.Succeed(t, os.WriteFile(filepath.Join(folder, name), made(t), 0o600))
	}
	compiled := testmust.Get(resvg.New(t.Context(), resvg.Config{CacheDir: folder}))(t)
	compiled.Close(t.Context())
	self := testmust.Get(os.Executable())(t)
	child := exec.CommandContext(t.Context(), self, "-test.run=^TestHostileSites_Crawls_StayWithinMemory$", "-test.v")
	child.Env = append(os.Environ(), folderOf+"="+folder, "GOMEMLIMIT=410MiB") // eight tenths of 512
	out, err := child.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestHostileSites_Crawls_StayWithinMemory")) {
		t.Fatalf("%v\n%.20000s", err, out)
	}
	t.Logf("%s", out)
}

// crawlHostileSites crawls three sites, or 32 if make verify requests it.
func crawlHostileSites(t *testing.T, folder string) {
	sites := 3
	if os.Getenv("LETTERHEAD_VERIFY") != "" {
		sites = 32
	}
	n := newInternet(t)
	site, fetched := files{}, atomic.Int64{}
	for name := range hostileFiles {
		data := testmust.Get(os.ReadFile(filepath.Join(folder, name)))(t)
		kind := map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp", ".html": "text/html"}[filepath.Ext(name)]
		site["/"+name] = func(w http.ResponseWriter, r *http.Request) {
			fetched.Add(1)
			w.Header().Set("Content-Type", kind)
			w.Write(data)
			io.WriteString(w, r.URL.RawQuery) // after the end of the image, so that no two files are equal
		}
	}
	site["/"] = site["/page.html"]
	var hostile string
	for _, h := range svgtest.Hostile() {
		if h.Name == "many masks in each other" {
			hostile = h.SVG
		}
	}
	site["/hostile.svg"] = typed("image/svg+xml", hostile)
	for i := range sites {
		n.serve(fmt.Sprintf("acme%d.com", i), site)
	}
	renderer := testmust.Get(resvg.New(t.Context(), resvg.Config{CacheDir: folder}))(t)
	defer renderer.Close(context.Background())
	crawler := testmust.Get(crawl.New(crawl.Config{Renderer: renderer}, n.client(), n.assets()))(t)
	var all sync.WaitGroup
	for i := range sites {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			// The result depends on time and memory, but a site with a title is a brand.
			result, _, err := crawler.Crawl(ctx, crawl.Target{Domain: fmt.Sprintf("acme%d.com", i)})
			if err != nil || text(result.Record.Name) != "Acme" {
				t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	peak, err := testprocess.ID(os.Getpid()).Peak()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Log("this system does not report the peak of a process's memory")
	case err != nil:
		t.Error(err)
	case race.Enabled:
		t.Logf("peak %d MiB, most of it the race detector's", peak>>20)
	case peak > mostCrawlMemory:
		t.Errorf("peak %d MiB, limit %d", peak>>20, mostCrawlMemory>>20)
	}
	t.Logf("%d sites, %d files fetched, peak %d MiB", sites, fetched.Load(), peak>>20)
}
