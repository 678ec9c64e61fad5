//go:build logobench

// Package logobench compares the logo endpoint with ipx, an image server from npm that uses sharp. Both serve the same
// images in the same run. `make bench-logos` runs it.
//
// Both servers listen on 127.0.0.1 with their default settings, read the same files, and serve WebP of the same sizes
// over the same number of connections. The load alternates between them. They differ in three ways:
//
//   - Letterhead caches rendered variants. If a large raster has no small form, Letterhead stores one and renders
//     further small sizes from it. ipx renders every variant from the file; sharp caches open files and operations.
//   - Letterhead writes lossless WebP. ipx uses sharp's default, lossy WebP of quality 80.
//   - Letterhead limits the request rate of each IP address, so X-Forwarded-For names many addresses.
//
// LETTERHEAD_BINARY names the binary. npm installs ipx in a temporary folder, unless LOGOBENCH_IPX names a folder where
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
	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/imaging"
	"letterhead/internal/resvg"
	"letterhead/internal/testmust"
	"letterhead/internal/testprocess"
	"letterhead/readapi/logo"
	"letterhead/starter"
	"letterhead/tools/e2e/program"
	"letterhead/workers/crawl/logofinder"
)

const (
	ipxPackage = "ipx@3.1.1"

	startTimeout = 2 * time.Minute
	npmTimeout   = 5 * time.Minute
	stopTimeout  = 30 * time.Second

	// logosPerKind is how many logos of the starter index each kind of source has.
	logosPerKind = 24
	// sizesPerRound is how many sizes of each logo a cold round requests. The largest of all rounds is warmSize.
	sizesPerRound = 12
	warmSize      = 128
)

// kind is a kind of source files.
type kind struct {
	name string
	side int // longest side of a PNG in pixels; 0 for an SVG
	// fileOnly means that Letterhead, like ipx, has only the file. Otherwise it has the assets that a crawl stores: a
	// raster in its own and in a small size, each as PNG and WebP.
	fileOnly bool
}

var kinds = []kind{{"png-256", 256, false}, {"png-512", 512, false}, {"png-1024", 1024, false}, {"png-1024-alone", 1024, true}, {"svg", 0, true}}

// server is Letterhead or ipx.
type server struct {
	name string
	url  string
	pid  int
	// path returns the URL path of a variant of a logo.
	path func(k kind, logo, size int) string
}

func TestLogoEndpoint_ComparedWithIPX_ReportsRates(t *testing.T) {
	binary := os.Getenv("LETTERHEAD_BINARY")
	if binary == "" {
		t.Fatal("LETTERHEAD_BINARY is not set")
	}
	connections, rounds, warm := number(t, "LOGOBENCH_CONNECTIONS", 8), number(t, "LOGOBENCH_ROUNDS", 3), 3*time.Second
	if s := os.Getenv("LOGOBENCH_WARM"); s != "" {
		var err error
		if warm, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	if most := (warmSize/2 - 1) / sizesPerRound; rounds < 1 || rounds > most {
		t.Fatalf("LOGOBENCH_ROUNDS must be between 1 and %d", most)
	}
	folder := t.TempDir()
	renderer, err := resvg.New(t.Context(), resvg.Config{})
	testmust.Succeed(t, err)
	defer renderer.Close(context.Background())
	sources := writeSources(t, renderer, filepath.Join(folder, "images"))
	ours := startLetterhead(t, binary, filepath.Join(folder, "data"), sources)
	theirs := startIPX(t, filepath.Join(folder, "images"))
	servers := []*server{ours, theirs}
	results := map[string]*result{}
	resultOf := func(s *server, k kind, variants string) *result {
		key := k.name + " " + variants + " " + s.name
		if results[key] == nil {
			results[key] = &result{}
		}
		return results[key]
	}
	for _, s := range servers {
		for _, k := range kinds {
			// A new server must first compile code and open files. This size is not requested later. If fileOnly is
			// set, Letterhead now stores a small form of a large raster, so only these requests render the file itself.
			resultOf(s, k, "first").add(s.load(t, k, sizes(warmSize/2, 1), 1, connections, 0))
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
				resultOf(s, k, "cold").add(s.load(t, k, sizes(warmSize-sizesPerRound*round, sizesPerRound), 1, connections, 0))
			}
			for _, s := range order {
				s.load(t, k, sizes(warmSize, 1), 1, connections, 0)
				resultOf(s, k, "warm").add(s.load(t, k, sizes(warmSize, 1), 1, connections, warm))
			}
		}
	}
	var report strings.Builder
	w := tabwriter.NewWriter(&report, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "source\tvariants\tserver\trequests/s (min–max)\tCPU ms/request\tbytes/image\tletterhead : ipx")
	for _, k := range kinds {
		for _, variants := range []string{"first", "cold", "warm"} {
			if variants == "first" && !k.fileOnly { // these requests only warm up the server
				continue
			}
			a, b := resultOf(ours, k, variants), resultOf(theirs, k, variants)
			for _, s := range servers {
				r, ratio := resultOf(s, k, variants), ""
				if s == ours {
					ratio = fmt.Sprintf("%.2f× requests, %.2f× CPU", median(a.rates)/median(b.rates), median(a.cpu)/median(b.cpu))
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%.0f (%.0f–%.0f)\t%.2f\t%.0f\t%s\n", k.name, variants, s.name, median(r.rates), slices.Min(r.rates), slices.Max(r.rates), median(r.cpu), median(r.bytes), ratio)
			}
		}
	}
	w.Flush()
	t.Logf("%d connections, %d alternating rounds; first: %d logos at %d px, once, not rendered before; cold: the same logos × %d sizes up to %d px, each requested once (png-1024-alone: from the small form that Letterhead stored during first); warm: %d logos at %d px for %v.\n%s",
		connections, rounds, logosPerKind, warmSize/2, sizesPerRound, warmSize, logosPerKind, warmSize, warm, &report)
}

func number(t *testing.T, name string, defaultValue int) int {
	s := os.Getenv(name)
	if s == "" {
		return defaultValue
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s = %q, want a positive integer", name, s)
	}
	return n
}

// sizes returns last and the n-1 sizes below it.
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
	img  *image.NRGBA // of a raster; nil for an SVG
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

// writeSources writes evenly sampled SVG logos of the starter index, and PNG renderings of them, to a folder.
func writeSources(t *testing.T, renderer *resvg.Renderer, folder string) []source {
	type vector struct {
		svg  []byte
		size image.Point
	}
	var vectors []vector
	err := starter.Each(func(b starter.Brand) error {
		for i, svg := range b.SVG {
			// ipx never enlarges a vector beyond its own size, so small vectors cannot be compared.
			if f := b.Record.Logos[i].Formats[0]; f.Width != nil && f.Height != nil && max(*f.Width, *f.Height) >= warmSize {
				vectors = append(vectors, vector{svg, image.Pt(*f.Width, *f.Height)})
			}
		}
		return nil
	})
	testmust.Succeed(t, err)
	testmust.Succeed(t, os.Mkdir(folder, 0o700))
	var out []source
	for i := range logosPerKind {
		index := i * len(vectors) / logosPerKind
		var v vector
		// Skip vectors that are too expensive at the largest size: Letterhead renders them smaller, ipx does not.
		for ; ; index++ {
			v = vectors[index%len(vectors)]
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
			testmust.Succeed(t, os.WriteFile(filepath.Join(folder, s.file()), s.data, 0o600))
			out = append(out, s)
		}
	}
	return out
}

// store stores the assets of a source: those of a crawl for a raster, or only the file.
func (s source) store(t *testing.T, assetStore *assets.Store) eventschemas.Logo {
	if s.img != nil && !s.kind.fileOnly {
		p := logofinder.Image{Raster: s.img, Width: s.size.X, Height: s.size.Y, Clear: true}
		logo, err := p.Store(t.Context(), assetStore)
		testmust.Succeed(t, err)
		return logo
	}
	id, err := assetStore.Put(t.Context(), s.data, s.format())
	testmust.Succeed(t, err)
	asset := eventschemas.Asset{ID: id, Format: s.format(), Size: int64(len(s.data)), Width: &s.size.X, Height: &s.size.Y}
	return eventschemas.Logo{Type: "icon", Formats: []eventschemas.Asset{asset}, Tags: []string{}}
}

// startLetterhead starts a server on a folder with one brand for each source. The brands are imported like data sets:
// first the files are stored, then BrandImported is appended to the log.
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
	_, stop := serve() // creates the folder
	stop()
	importSources(t, data, sources)
	s, stop := serve()
	t.Cleanup(stop)
	return s
}

func importSources(t *testing.T, data string, sources []source) {
	ctx := t.Context()
	log, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(data, "events.db")})
	testmust.Succeed(t, err)
	defer log.Close()
	brands, err := commands.NewBrands(commands.BrandsConfig{}, log)
	testmust.Succeed(t, err)
	assetStore, err := assets.Open(ctx, "file://"+filepath.Join(data, "assets"))
	testmust.Succeed(t, err)
	defer assetStore.Close()
	for _, s := range sources {
		name := s.domain()
		record := eventschemas.Record{
			Name: &name, Links: []eventschemas.Link{}, Colors: []eventschemas.Color{}, Fonts: []eventschemas.Font{}, Images: []eventschemas.Image{},
			Logos:   []eventschemas.Logo{s.store(t, assetStore)},
			Company: &eventschemas.Company{Industries: []eventschemas.Industry{}, Tickers: []string{}},
		}
		request := commands.Request{ID: uuid.NewString(), Actor: "operator:logobench"}
		if _, err := brands.ImportBrand(ctx, commands.ImportBrand{Request: request, Domain: name, Source: "logobench 1", Record: record}); err != nil {
			t.Fatal(err)
		}
	}
}

// startIPX starts ipx on a folder.
func startIPX(t *testing.T, images string) *server {
	folder := os.Getenv("LOGOBENCH_IPX")
	if folder == "" {
		folder = t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), npmTimeout)
		defer cancel()
		out, err := exec.CommandContext(ctx, "npm", "install", "--prefix", folder, "--no-audit", "--no-fund", ipxPackage).CombinedOutput()
		if err != nil {
			t.Fatalf("npm install %s: %v\n%s", ipxPackage, err, out)
		}
	}
	host, port, err := net.SplitHostPort(freeAddress(t))
	testmust.Succeed(t, err)
	s := &server{name: "ipx", url: "http://" + net.JoinHostPort(host, port), path: func(k kind, logo, size int) string {
		// Like Letterhead's size, this limits the longest side and never enlarges.
		return fmt.Sprintf("/s_%dx%d,fit_inside,f_webp/%s", size, size, source{kind: k, logo: logo}.file())
	}}
	cmd := exec.Command("node", filepath.Join(folder, "node_modules", "ipx", "bin", "ipx.mjs"), "serve", "--dir", images, "--host", host, "--port", port)
	cmd.Env = append(os.Environ(), "NODE_ENV=production", "PORT="+port)
	t.Cleanup(s.start(t, cmd, s.path(kinds[0], 0, warmSize/2)))
	return s
}

func freeAddress(t *testing.T) string {
	address, err := program.FreeAddress()
	testmust.Succeed(t, err)
	return address
}

// start starts a server and waits until it answers 200 at a path. It returns a function that stops the server.
func (s *server) start(t *testing.T, cmd *exec.Cmd, ready string) (stop func()) {
	logFile, err := os.Create(filepath.Join(t.TempDir(), s.name+".log"))
	testmust.Succeed(t, err)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if err := errors.Join(cmd.Start(), logFile.Close()); err != nil { // the process has its own descriptor
		t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	exited := make(chan struct{})
	go func() { defer close(exited); cmd.Wait() }()
	stop = func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(stopTimeout):
			cmd.Process.Kill()
			<-exited
		}
	}
	if err := program.AwaitServing(s.url+ready, startTimeout, exited); err != nil {
		stop()
		text, _ := os.ReadFile(logFile.Name())
		t.Fatalf("start %s: %v; its log:\n%s", s.name, err, text)
	}
	return stop
}

// check verifies size and format of one image.
func (s *server) check(t *testing.T, k kind) {
	resp, err := http.Get(s.url + s.path(k, 0, warmSize/2))
	testmust.Succeed(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testmust.Succeed(t, err)
	var img *image.NRGBA
	if img, _, err = imaging.Decode(body, imaging.Limits{}); err != nil {
		t.Fatalf("decode the image of %s, %s: %v: %d %.200s", s.name, k.name, err, resp.StatusCode, body)
	}
	if max(img.Rect.Dx(), img.Rect.Dy()) != warmSize/2 || imaging.Sniff(body) != imaging.WebP {
		t.Errorf("%s, %s: got an image of %v as %s, want WebP of the requested size", s.name, k.name, img.Rect.Max, imaging.Sniff(body))
	}
}

// result has the measurements of one server in all rounds.
type result struct{ rates, cpu, bytes []float64 }

func (r *result) add(m measurement) {
	r.rates = append(r.rates, float64(m.requests)/m.elapsed.Seconds())
	r.cpu = append(r.cpu, m.cpu.Seconds()*1000/float64(m.requests))
	r.bytes = append(r.bytes, float64(m.bytes)/float64(m.requests))
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// measurement is the result of one load on one server.
type measurement struct {
	requests, bytes int64
	elapsed, cpu    time.Duration
}

// requestCount counts the requests of all loads, to derive the client address of each.
var requestCount atomic.Uint32

// requestsPerAddress is how many requests one client address sends: fewer than its limit of 300 in a minute, but enough
// that Letterhead can count the requests of all addresses.
const requestsPerAddress = 200

// load requests every logo of a kind in every size. It does so the given number of times or, if duration is positive,
// for that duration.
func (s *server) load(t *testing.T, k kind, sizes []int, times, connections int, duration time.Duration) measurement {
	var paths []string
	for range times {
		for _, size := range sizes {
			for logo := range logosPerKind {
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
	var workers sync.WaitGroup
	for range connections {
		workers.Go(func() {
			buffer := make([]byte, 64<<10)
			for {
				i := next.Add(1) - 1
				if duration == 0 && i >= int64(len(paths)) || duration > 0 && time.Since(began) >= duration {
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
	workers.Wait()
	m := measurement{requests: requests.Load(), bytes: bytesRead.Load(), elapsed: time.Since(began), cpu: s.cpu(t) - cpu}
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
	a := requestCount.Add(1) / requestsPerAddress
	req.Header["X-Forwarded-For"] = []string{net.IPv4(11+byte(a>>24), byte(a>>16), byte(a>>8), byte(a)).String()}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, buffer)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %d", path, resp.StatusCode)
	}
	return n, err
}

// cpu returns the CPU time that the process has used.
func (s *server) cpu(t *testing.T) time.Duration {
	used, err := testprocess.ID(s.pid).CPUTime()
	testmust.Succeed(t, err)
	return used
}
