package crawl_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/http"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"letterhead/internal/race"
	"letterhead/internal/testmust"
	"letterhead/internal/testprocess"
	"letterhead/workers/crawl"
)

// watchMemory samples the live and dead objects of the heap. stop returns the maximum above the initial value.
func watchMemory() (stop func() uint64) {
	runtime.GC()
	read := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	before := read()
	done, most := make(chan struct{}), make(chan uint64)
	go func() {
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		var top uint64
		for {
			select {
			case <-ticker.C:
				top = max(top, read())
			case <-done:
				most <- top
				return
			}
		}
	}()
	return func() uint64 {
		close(done)
		return max(<-most, before) - before
	}
}

// hugePNG returns a PNG whose header declares 900 million pixels.
func hugePNG() []byte {
	out := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, data []byte) {
		out = binary.BigEndian.AppendUint32(out, uint32(len(data)))
		out = append(append(out, kind...), data...)
		out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(append([]byte(kind), data...)))
	}
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 30000), 30000)
	chunk("IHDR", append(header, 1, 0, 0, 0, 0))
	chunk("IDAT", []byte("\x78\x9c\x63\x00\x00\x00\x01\x00\x01"))
	chunk("IEND", nil)
	return out
}

// zeros10GB is a body of ten gigabytes, as gzip members of 64 MB one after the other.
func zeros10GB(w http.ResponseWriter, _ *http.Request) {
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	for range 64 {
		z.Write(make([]byte, 1<<20))
	}
	z.Close()
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Content-Encoding", "gzip")
	for range 160 {
		if _, err := w.Write(member.Bytes()); err != nil {
			return
		}
	}
}

// many returns a list of distinct words.
func many(word string, count int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "%s%d ", word, i)
	}
	return b.String()
}

func TestDecode_Bomb_StaysWithinMemory(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector multiplies time and memory")
	}
	const maxMemory = 128 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // so that few dead objects are counted
	bomb := hugePNG()
	pngBomb := typed("image/png", string(bomb))
	hurt := func(body string) files { return files{"/": html(acmePage + body), "/icon.png": icon(64, blue)} }
	for name, site := range map[string]http.Handler{
		"a page of ten gigabytes":       files{"/": zeros10GB},
		"an icon of ten gigabytes":      files{"/": html(acmePage), "/icon.png": zeros10GB},
		"a sheet of ten gigabytes":      files{"/": html(acmePage + `<link rel=stylesheet href=/a.css>`), "/a.css": zeros10GB, "/icon.png": icon(64, blue)},
		"images of 900 megapixels":      files{"/": html(acmePage + `<meta property="og:image" content="/share.png"><img src="/photo.png" width=1200 height=800>`), "/icon.png": pngBomb, "/share.png": pngBomb, "/photo.png": pngBomb, "/favicon.ico": pngBomb, "/apple-touch-icon.png": pngBomb},
		"513 nested elements":           hurt(strings.Repeat("<div>", 513)),
		"100,000 nested elements":       hurt(strings.Repeat("<div>", 100_000)),
		"100,000 nested in svg":         hurt(`<header><a href="/"><svg>` + strings.Repeat("<g>", 100_000)),
		"an attribute of 3 MB":          hurt(`<div class="` + strings.Repeat("a ", 1_500_000) + `">`),
		"200,000 attributes":            hurt(`<div ` + strings.Repeat("a b c d ", 50_000) + `>`),
		"unclosed comments":             hurt(strings.Repeat("<!--", 500_000)),
		"an unclosed script":            hurt(`<script>` + strings.Repeat("a", 2_000_000)),
		"a table of cells":              hurt(`<table>` + strings.Repeat("<td>x<div>", 50_000)),
		"links":                         hurt(strings.Repeat(`<a href="/about">About</a>`, 80_000)),
		"a million braces":              hurt(`<style>` + strings.Repeat("{", 1_000_000) + `</style>`),
		"rules without end":             hurt(`<style>` + strings.Repeat(".a .b>.c~.d:not(.e){color:var(--x)}", 40_000) + `</style>` + strings.Repeat(`<div class="a b c d e">`, 300)),
		"variables in a circle":         hurt(`<style>:root{--a:var(--b);--b:var(--a) var(--a)}h1{color:var(--a)}</style><h1>x</h1>`),
		"an embedded image of 3 MB":     hurt(`<link rel=icon href="data:image/svg+xml,` + strings.Repeat("%3Cg%3E", 400_000) + `">`),
		"uses of one large symbol":      hurt(`<header><a class=logo href="/"><svg class=logo viewBox="0 0 10 10">` + strings.Repeat(`<use href="#u"/>`, 100_000) + `</svg></a><svg><g id=u>` + strings.Repeat(`<path d="M0 0h9v9z"/>`, 30_000) + `</g></svg>`),
		"uses of a long name":           hurt(`<header><a class=logo href="/"><svg>` + strings.Repeat(`<use href=#aa-bb-cc-dd-ee-ff-gg-hh-ii-jj-kk-ll-mm-nn-oo-pp />`, 15_000) + `</svg></a>`),
		"empty inline SVGs":             hurt(`<header><a href="/" class=logo>` + strings.Repeat(`<svg><use href=#a /></svg>`, 100_000)),
		"symbols, each used":            hurt(`<svg><symbol id=s viewBox="0 0 9 9">` + strings.Repeat(`<path d="M0 0h9v9z"/>`, 40_000) + `</symbol></svg><header>` + strings.Repeat(`<a href="/"><svg class=logo><use href="#s"/></svg></a>`, 20_000)),
		"images in one picture element": hurt(`<header><a href="/"><picture>` + strings.Repeat(`<source srcset=/a.png>`, 50_000) + strings.Repeat(`<img src=/b.png>`, 50_000)),
		"one element of many classes":   hurt(`<style>.a .b .c .d .e .f{color:red}</style><div class="` + many("c", 100_000) + `">` + strings.Repeat(`<div class="a b c d e">x</div>`, 60_000)),
		"inline SVGs with stylesheets":  hurt(`<header>` + strings.Repeat(`<a href="/"><svg class=logo viewBox="0 0 9 9"><style>`+strings.Repeat(`.a.b.c.d{fill:red}`, 4000)+`</style>`+strings.Repeat(`<path class="a b c d" d="M0 0h9v9z"/>`, 1500)+`</svg></a>`, 20)),
		"links with styles":             hurt(`<header>` + strings.Repeat(`<a class="logo" href="/" style="background:url(/a.png) no-repeat;color:red;fill:blue">x</a>`, 30_000)),
		"linked data of 2 MB":           hurt(`<script type="application/ld+json">[` + strings.Repeat(`{"@type":"Organization","name":"A"},`, 50_000) + `{}]</script>`),
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.serve("acme.com", site)
			crawler, err := crawl.New(config(t), n.client(), n.assets())
			testmust.Succeed(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // much longer than any of them takes
			defer cancel()
			stop, before := watchMemory(), testprocess.CPUTime()
			_, _, err = crawler.Crawl(ctx, crawl.Target{Domain: "acme.com"})
			took, memory := testprocess.CPUTime()-before, stop()
			t.Logf("%s of processor time, %d MB, %v", took.Round(time.Millisecond), memory>>20, err)
			if ctx.Err() != nil {
				t.Error("the crawl did not end")
			}
			if testing.CoverMode() == "" && memory > maxMemory {
				t.Errorf("%d MB; want at most %d MB", memory>>20, maxMemory>>20)
			}
		})
	}
}

// BenchmarkCrawl crawls the recorded sites, with this test's servers in the same process.
func BenchmarkCrawl(b *testing.B) {
	recordings, err := fs.Glob(testData(b), "recordings/*.vcr.gz")
	if err != nil || len(recordings) == 0 {
		b.Fatal("no recordings", err)
	}
	for _, file := range recordings {
		name := strings.TrimSuffix(path.Base(file), ".vcr.gz")
		b.Run(name, func(b *testing.B) {
			n := newInternet(b)
			n.play(name)
			crawler := testmust.Get(crawl.New(config(b), n.client(), n.assets()))(b)
			domain := name
			if strings.Count(name, ".") > 1 {
				domain = name[strings.Index(name, ".")+1:]
			}
			target := crawl.Target{Domain: domain}
			if domain != name {
				target.Start = mustURL(b, "https://"+name+"/")
			}
			var requests, bytes float64
			began := testprocess.CPUTime()
			for b.Loop() {
				_, stats, err := crawler.Crawl(b.Context(), target)
				testmust.Succeed(b, err)
				requests, bytes = requests+float64(stats.Requests), bytes+float64(stats.Bytes)
			}
			count := float64(b.N)
			b.ReportMetric(float64((testprocess.CPUTime()-began).Milliseconds())/count, "cpu-ms/op")
			b.ReportMetric(requests/count, "requests/op")
			b.ReportMetric(bytes/count/1000, "kB/op")
		})
	}
}
