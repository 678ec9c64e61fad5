//go:build logobench

// Package logobench compares the logo endpoint with ipx, npm's image server on sharp, on the same pictures in the
// same run. `make bench-logos` runs it.
//
// What is alike: both servers listen on 127.0.0.1 with the settings that they come with, read the same files, and
// are asked for WebP of the same sizes over the same number of connections by turns, first one, then the other.
// What is not: Letterhead keeps what it drew, and of a large raster that has none a small form, from which all further
// small sizes are drawn; ipx draws each time from the file (sharp has a cache of opened files and of
// operations, which is left on). Letterhead writes lossless WebP, ipx what sharp does by itself, lossy at quality
// 80. Letterhead counts each request of an address, here one for each request, named by X-Forwarded-For.
//
// LETTERHEAD_BINARY is the binary. npm fetches ipx into a folder of its own, unless LOGOBENCH_IPX names one where
// it is installed. LOGOBENCH_CONNECTIONS (8), LOGOBENCH_ROUNDS (3) and LOGOBENCH_WARM (3s) change the load.
package logobench

import (
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/e2e/program"
	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/imaging"
	"letterhead/internal/process"
	"letterhead/internal/resvg"
	"letterhead/readapi/logo"
	"letterhead/starter"
	"letterhead/workers/crawl/logofinder"
)

const (
	ipxPackage = "ipx@3.1.1"

	startsWithin  = 2 * time.Minute
	npmWithin     = 5 * time.Minute
	answersWithin = 30 * time.Second

	// logosOfAKind is how many starter logos each kind of source is made of.
	logosOfAKind = 24
	// sizesARound is how many sizes each logo is asked for in a cold round. They end at warmSize.
	sizesARound = 12
	warmSize    = 128
)

// kind is what source files are.
type kind struct {
	name string
	side int // longest side of a PNG in pixels; 0 for an SVG
	// alone: Letterhead has nothing but the file, as ipx does. Otherwise it has what a crawl keeps of it: of a
	// raster its own size and a small one, each as PNG and WebP.
	alone bool
}

var kinds = []kind{{"png-256", 256, false}, {"png-512", 512, false}, {"png-1024", 1024, false}, {"png-1024-alone", 1024, true}, {"svg", 0, true}}

// server is one of the two.
type server struct {
	name string
	url  string
	pid  int
	// path is where a variant of a logo is.
	path func(k kind, logo, size int) string
}

func TestCompare(t *testing.T) {
	binary := os.Getenv("LETTERHEAD_BINARY")
	if binary == "" {
		t.Fatal("LETTERHEAD_BINARY names no binary")
	}
	connections, rounds, warm := number(t, "LOGOBENCH_CONNECTIONS", 8), number(t, "LOGOBENCH_ROUNDS", 3), 3*time.Second
	if s := os.Getenv("LOGOBENCH_WARM"); s != "" {
		var err error
		if warm, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	if most := (warmSize/2 - 1) / sizesARound; rounds < 1 || rounds > most {
		t.Fatalf("LOGOBENCH_ROUNDS is 1 to %d", most)
	}
	folder := t.TempDir()
	renderer, err := resvg.New(t.Context(), resvg.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer renderer.Close(context.Background())
	sources := drawSources(t, renderer, filepath.Join(folder, "images"))
	ours := startLetterhead(t, binary, filepath.Join(folder, "data"), sources)
	theirs := startIPX(t, filepath.Join(folder, "images"))
	servers := []*server{ours, theirs}
	results := map[string]*result{}
	of := func(s *server, k kind, what string) *result {
		key := k.name + " " + what + " " + s.name
		if results[key] == nil {
			results[key] = &result{}
		}
		return results[key]
	}
	for _, s := range servers {
		for _, k := range kinds {
			// A server that has just started compiles and opens what it needs. The size is asked for no more. Of a large
			// raster alone Letterhead keeps a small form now, so it is the only time that the file itself is drawn.
			of(s, k, "first").add(s.load(t, k, sizes(warmSize/2, 1), 1, connections, 0))
			s.check(t, k)
		}
	}
	for round := range rounds {
		for i, k := range kinds {
			order := servers
			if (round+i)%2 == 1 {
				order = []*server{theirs, ours}
			}
			for _, s := range order {
				of(s, k, "cold").add(s.load(t, k, sizes(warmSize-sizesARound*round, sizesARound), 1, connections, 0))
			}
			for _, s := range order {
				s.load(t, k, sizes(warmSize, 1), 1, connections, 0)
				of(s, k, "warm").add(s.load(t, k, sizes(warmSize, 1), 1, connections, warm))
			}
		}
	}
	var report strings.Builder
	w := tabwriter.NewWriter(&report, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "source\tvariants\tserver\trequests/s (least–most)\tCPU ms a request\tbytes a picture\tletterhead : ipx")
	for _, k := range kinds {
		for _, what := range []string{"first", "cold", "warm"} {
			if what == "first" && !k.alone { // those before have it warm up
				continue
			}
			a, b := of(ours, k, what), of(theirs, k, what)
			for _, s := range servers {
				r, ratio := of(s, k, what), ""
				if s == ours {
					ratio = fmt.Sprintf("%.2f× requests, %.2f× CPU", median(a.rates)/median(b.rates), median(a.cpu)/median(b.cpu))
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%.0f (%.0f–%.0f)\t%.2f\t%.0f\t%s\n", k.name, what, s.name, median(r.rates), slices.Min(r.rates), slices.Max(r.rates), median(r.cpu), median(r.bytes), ratio)
			}
		}
	}
	w.Flush()
	t.Logf("%d connections, %d rounds by turns; first: %d logos at %d px, once, nothing of them drawn before; cold: the same logos × %d sizes up to %d px, each asked for once a round (png-1024-alone: from the small form that Letterhead made with the first); warm: %d logos at %d px for %v.\n%s",
		connections, rounds, logosOfAKind, warmSize/2, sizesARound, warmSize, logosOfAKind, warmSize, warm, &report)
}

func number(t *testing.T, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q", name, s)
	}
	return n
}

// sizes are n sizes that end at last.
func sizes(last, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = last - i
	}
	return out
}

// source is a file that both servers read.
type source struct {
	kind kind
	logo int
	data []byte
	img  *image.NRGBA // of a raster
	size image.Point
}

func (s source) domain() string { return fmt.Sprintf("logo-%s-%d.com", s.kind.name, s.logo) }

func (s source) format() string {
	if s.kind.side == 0 {
		return "svg"
	}
	return "png"
}

func (s source) file() string {
	return fmt.Sprintf("logo-%s-%d.%s", s.kind.name, s.logo, s.format())
}

// drawSources writes the vectors of starter brands, evenly chosen, and what they look like as PNG.
func drawSources(t *testing.T, renderer *resvg.Renderer, folder string) []source {
	type vector struct {
		svg  []byte
		size image.Point
	}
	var vectors []vector
	err := starter.Each(func(b starter.Brand) error {
		for i, svg := range b.SVG {
			// ipx makes nothing of a vector that is larger than its own size, so small ones would not be compared.
			if f := b.Record.Logos[i].Formats[0]; f.Width != nil && f.Height != nil && max(*f.Width, *f.Height) >= warmSize {
				vectors = append(vectors, vector{svg, image.Pt(*f.Width, *f.Height)})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	var out []source
	for i := range logosOfAKind {
		place := i * len(vectors) / logosOfAKind
		var v vector
		for ; ; place++ { // the few that take too much at the largest size are drawn smaller, which ipx does not do
			v = vectors[place%len(vectors)]
			if _, err := renderer.Render(t.Context(), v.svg, logo.MaxSize); !errors.Is(err, imaging.ErrTooLarge) {
				break
			}
		}
		for _, k := range kinds {
			s := source{kind: k, logo: i, data: v.svg, size: v.size}
			if k.side > 0 {
				if s.img, err = renderer.Render(t.Context(), v.svg, k.side); err != nil {
					t.Fatal(err)
				}
				s.size = s.img.Rect.Max
				if s.data, err = imaging.EncodePNG(s.img); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(folder, s.file()), s.data, 0o600); err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		}
	}
	return out
}

// take stores a source: a raster as a crawl does, or alone; a vector as the starter index has it.
func (s source) take(t *testing.T, store *assets.Store) eventschemas.Logo {
	if s.img != nil && !s.kind.alone {
		p := logofinder.Image{Raster: s.img, Width: s.size.X, Height: s.size.Y, Clear: true}
		logo, err := p.Store(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		return logo
	}
	id, err := store.Put(t.Context(), s.data, s.format())
	if err != nil {
		t.Fatal(err)
	}
	asset := eventschemas.Asset{ID: id, Format: s.format(), Size: int64(len(s.data)), Width: &s.size.X, Height: &s.size.Y}
	return eventschemas.Logo{Type: "icon", Formats: []eventschemas.Asset{asset}, Tags: []string{}}
}

// startLetterhead serves a folder whose index holds one brand for each source, with the source as the one file of
// its logo. They come in as data sets do: the file into the store, then BrandImported onto the log.
func startLetterhead(t *testing.T, binary, data string, sources []source) *server {
	serve := func() (*server, func()) {
		listen := freeAddress(t)
		s := &server{name: "letterhead", url: "http://" + listen, path: func(k kind, logo, size int) string {
			return fmt.Sprintf("/logo/%s?size=%d&format=webp", source{kind: k, logo: logo}.domain(), size)
		}}
		cmd := exec.Command(binary, "serve", "--data", data, "--listen", listen)
		cmd.Env = append(os.Environ(), "LETTERHEAD_STARTER=off", "LETTERHEAD_REFRESH=off", "LETTERHEAD_TRUSTED_PROXIES=127.0.0.0/8")
		return s, s.start(t, cmd, "/readyz")
	}
	_, stop := serve() // makes the folder
	stop()
	importSources(t, data, sources)
	s, stop := serve()
	t.Cleanup(stop)
	return s
}

func importSources(t *testing.T, data string, sources []source) {
	ctx := t.Context()
	log, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(data, "events.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	brands, err := commands.NewBrands(commands.BrandsConfig{}, log)
	if err != nil {
		t.Fatal(err)
	}
	where, err := assets.FolderURL(filepath.Join(data, "assets"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := assets.Open(ctx, where)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, s := range sources {
		name := s.domain()
		record := eventschemas.Record{
			Name: &name, Links: []eventschemas.Link{}, Colors: []eventschemas.Color{}, Fonts: []eventschemas.Font{}, Images: []eventschemas.Image{},
			Logos:   []eventschemas.Logo{s.take(t, store)},
			Company: &eventschemas.Company{Industries: []eventschemas.Industry{}, Tickers: []string{}},
		}
		request := commands.Request{ID: uuid.NewString(), Actor: "operator:logobench"}
		if _, err := brands.ImportBrand(ctx, commands.ImportBrand{Request: request, Domain: name, Source: "logobench 1", Record: record}); err != nil {
			t.Fatal(err)
		}
	}
}

// startIPX serves a folder with ipx.
func startIPX(t *testing.T, images string) *server {
	home := os.Getenv("LOGOBENCH_IPX")
	if home == "" {
		home = t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), npmWithin)
		defer cancel()
		out, err := exec.CommandContext(ctx, "npm", "install", "--prefix", home, "--no-audit", "--no-fund", ipxPackage).CombinedOutput()
		if err != nil {
			t.Fatalf("npm install %s: %v\n%s", ipxPackage, err, out)
		}
	}
	host, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &server{name: "ipx", url: "http://" + net.JoinHostPort(host, port), path: func(k kind, logo, size int) string {
		// The longest side, as ours: inside a square, and never made larger.
		return fmt.Sprintf("/s_%dx%d,fit_inside,f_webp/%s", size, size, source{kind: k, logo: logo}.file())
	}}
	cmd := exec.Command("node", filepath.Join(home, "node_modules", "ipx", "bin", "ipx.mjs"), "serve", "--dir", images, "--host", host, "--port", port)
	cmd.Env = append(os.Environ(), "NODE_ENV=production", "PORT="+port)
	t.Cleanup(s.start(t, cmd, s.path(kinds[0], 0, warmSize/2)))
	return s
}

func freeAddress(t *testing.T) string {
	address, err := program.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// start runs a server until it answers a path with 200, and returns what ends it.
func (s *server) start(t *testing.T, cmd *exec.Cmd, ready string) (stop func()) {
	said, err := os.Create(filepath.Join(t.TempDir(), s.name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = said, said
	if err := errors.Join(cmd.Start(), said.Close()); err != nil { // the process has its own
		t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	ended := make(chan struct{})
	go func() { defer close(ended); cmd.Wait() }()
	stop = func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(answersWithin):
			cmd.Process.Kill()
			<-ended
		}
	}
	if err := program.AwaitServing(s.url+ready, startsWithin, ended); err != nil {
		stop()
		text, _ := os.ReadFile(said.Name())
		t.Fatalf("%s: %v:\n%s", s.name, err, text)
	}
	return stop
}

// check looks at one picture: it must be what was asked for.
func (s *server) check(t *testing.T, k kind) {
	resp, err := http.Get(s.url + s.path(k, 0, warmSize/2))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var img *image.NRGBA
	if img, _, err = imaging.Decode(body, imaging.Limits{}); err != nil {
		t.Fatalf("%s, %s: %v: %d %.200s", s.name, k.name, err, resp.StatusCode, body)
	}
	if max(img.Rect.Dx(), img.Rect.Dy()) != warmSize/2 || imaging.Sniff(body) != imaging.WebP {
		t.Errorf("%s, %s: a picture of %v as %s", s.name, k.name, img.Rect.Max, imaging.Sniff(body))
	}
}

// result is what was measured of one server in all rounds.
type result struct{ rates, cpu, bytes []float64 }

func (r *result) add(m measured) {
	r.rates = append(r.rates, float64(m.requests)/m.took.Seconds())
	r.cpu = append(r.cpu, m.cpu.Seconds()*1000/float64(m.requests))
	r.bytes = append(r.bytes, float64(m.bytes)/float64(m.requests))
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// measured is one turn of one server.
type measured struct {
	requests, bytes int64
	took, cpu       time.Duration
}

// asked counts requests. An address of its own for each would be more within a minute than Letterhead counts.
var asked atomic.Uint32

// askedByOne is how often one address asks: less than the 300 times a minute that it may.
const askedByOne = 200

// load asks for every logo of a kind in every size, times over, or again and again for a while.
func (s *server) load(t *testing.T, k kind, sizes []int, times, connections int, while time.Duration) measured {
	var paths []string
	for range times {
		for _, size := range sizes {
			for logo := range logosOfAKind {
				paths = append(paths, s.path(k, logo, size))
			}
		}
	}
	transport := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, DisableCompression: true}
	defer transport.CloseIdleConnections()
	var next, requests, bytesRead atomic.Int64
	var failed sync.Once
	var failure error
	began, cpu := time.Now(), s.cpu(t)
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			buffer := make([]byte, 64<<10)
			for {
				i := next.Add(1) - 1
				if while == 0 && i >= int64(len(paths)) || while > 0 && time.Since(began) >= while {
					return
				}
				n, err := s.get(transport, paths[i%int64(len(paths))], buffer)
				if err != nil {
					failed.Do(func() { failure = err })
					return
				}
				requests.Add(1)
				bytesRead.Add(n)
			}
		})
	}
	all.Wait()
	m := measured{requests: requests.Load(), bytes: bytesRead.Load(), took: time.Since(began), cpu: s.cpu(t) - cpu}
	if failure != nil {
		t.Fatalf("%s: %v", s.name, failure)
	}
	return m
}

func (s *server) get(transport *http.Transport, path string, buffer []byte) (n int64, err error) {
	req, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		return 0, err
	}
	a := asked.Add(1) / askedByOne
	req.Header["X-Forwarded-For"] = []string{net.IPv4(11+byte(a>>24), byte(a>>16), byte(a>>8), byte(a)).String()}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, buffer)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d", path, resp.StatusCode)
	}
	return n, err
}

// cpu is the processor time that the process has taken.
func (s *server) cpu(t *testing.T) time.Duration {
	took, err := process.ID(s.pid).CPUTime()
	if err != nil {
		t.Fatal(err)
	}
	return took
}
