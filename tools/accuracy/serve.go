package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/html"

	"letterhead/internal/testcert"
	"letterhead/internal/testnet"
	"letterhead/internal/testprocess"
	"letterhead/workers/crawl"
	"letterhead/workers/crawl/logofinder"
)

// Limits of one crawl here.
const (
	// crawlTime is long, for a busy machine: quality is measured here, not speed.
	crawlTime = time.Minute
	// maxFile limits a saved page or recording, unpacked.
	maxFile = 16 << 20
)

// crawled is the result of crawling one label's page.
type crawled struct {
	label   Label
	result  *crawl.Result // nil on failure
	outcome string
	stats   crawl.Stats
	took    time.Duration
	cpu     time.Duration     // of the whole process meanwhile: of this crawl if it ran alone
	files   *shelf            // of the stored images
	page    *html.Node        // the document served at the final URL; nil on failure
	sums    map[string]string // of the files of the logos, by URL, as in a label
}

// stage crawls labels, each on a separate internet.
type stage struct {
	files     fs.FS // the folder of this command
	data      fs.FS // saved pages and recordings; nil if they are missing
	authority *testcert.Authority
	renderer  logofinder.Renderer
}

// crawl serves a label's page and crawls it. Errors: if it cannot be served.
func (s *stage) crawl(ctx context.Context, l Label) (crawled, error) {
	out := crawled{label: l, files: &shelf{held: map[string][]byte{}}}
	n, err := testnet.New(s.authority)
	if err != nil {
		return out, err
	}
	defer n.Close()
	target := crawl.Target{Domain: l.Domain}
	if l.URL != "" {
		if target.Start, err = url.Parse(l.URL); err != nil {
			return out, err
		}
	}
	if err := s.serve(n, l, target.Start); err != nil {
		return out, fmt.Errorf("%s/%s: %w", l.Group, l.ID, err)
	}
	client, err := n.Client()
	if err != nil {
		return out, err
	}
	defer client.Close()
	crawler, err := crawl.New(crawl.Config{Renderer: s.renderer}, client, out.files)
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, crawlTime)
	defer cancel()
	begun, computed := time.Now(), testprocess.CPUTime()
	out.result, out.stats, err = crawler.Crawl(ctx, target)
	out.took, out.cpu = time.Since(begun), testprocess.CPUTime()-computed
	var failure *crawl.Failure
	switch {
	case err == nil:
		out.outcome = outcomeOK
		out.page, _ = html.Parse(bytes.NewReader(served(n, out.result.FinalURL))) // nil if it cannot be read
		out.sums = map[string]string{}
		for _, logo := range out.chosenLogos() {
			out.sums[logo.source] = sumOf(served(n, logo.source))
		}
	case errors.As(err, &failure):
		out.outcome, out.result = failure.Outcome, nil
	case errors.Is(ctx.Err(), context.Canceled):
		return out, ctx.Err()
	default:
		out.outcome, out.result = "error: "+err.Error(), nil
	}
	return out, nil
}

// served returns the body of the response at a URL, or nil.
func served(n *testnet.Internet, address string) []byte {
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return nil
	}
	if r.URL.Scheme == "https" {
		r.TLS = &tls.ConnectionState{}
	}
	w := httptest.NewRecorder()
	n.ServeHTTP(w, r)
	return w.Body.Bytes()
}

// serve serves a label's page.
func (s *stage) serve(n *testnet.Internet, l Label, at *url.URL) error {
	switch {
	case l.site != nil:
		err := n.ServeFolder(l.site)
		if errors.Is(err, fs.ErrNotExist) { // the folder of one host needs no description
			n.Serve(l.Domain, http.FileServerFS(l.site))
			return nil
		}
		return err
	case l.Group == saved:
		body, err := s.unzip(path.Join("pages", l.ID+".html.gz"))
		if err != nil {
			return err
		}
		n.ServeSaved(testnet.Saved{URL: at, Body: body, Marks: l.isMark})
		return nil
	case l.Group == recorded:
		recording, err := s.unzip(path.Join("recordings", l.ID+".vcr.gz"))
		if err != nil {
			return err
		}
		return n.Play(recording)
	case !slices.Contains(siteGroups, l.Group):
		l.serveWritten(n, at)
		return nil
	}
	folder, err := fs.Sub(s.files, path.Join("sites", l.ID))
	if err != nil {
		return err
	}
	return n.ServeFolder(folder)
}

// serveWritten serves the label's own content: its response at its URL, and its
// files by path, or by host and path for those of another host.
func (l *Label) serveWritten(n *testnet.Internet, at *url.URL) {
	host, home := l.Domain, "/"
	if at != nil {
		host, home = at.Host, at.RequestURI()
	}
	files := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		if r.Host != host {
			name = r.Host + name
		}
		if body, ok := l.Files[name]; ok {
			io.WriteString(w, body)
			return
		}
		http.NotFound(w, r)
	})
	for name := range l.Files {
		if other, _, _ := strings.Cut(name, "/"); other != "" {
			n.Serve(other, files)
		}
	}
	n.Serve(host, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != home {
			files(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		for k, v := range l.Headers {
			w.Header().Set(k, v)
		}
		w.WriteHeader(cmp.Or(l.Status, http.StatusOK))
		io.WriteString(w, l.Body)
	}))
}

// isMark reports whether the label lists a URL as a logo.
func (l *Label) isMark(address string) bool {
	return l.Logo != nil && slices.ContainsFunc(slices.Concat(l.Logo.Accept, l.Logo.Other, l.Logo.Wrong),
		func(pattern string) bool { return matches(pattern, address) })
}

// unzip reads a saved page or a recording.
func (s *stage) unzip(name string) ([]byte, error) {
	packed, err := fs.ReadFile(s.data, name)
	if err != nil {
		return nil, err
	}
	return gunzip(packed)
}

func gunzip(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(z, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("more than %d bytes", maxFile)
	}
	return data, err
}

// shelf keeps stored files in memory, for the contact sheet. It is safe for concurrent use.
type shelf struct {
	mu   sync.Mutex
	held map[string][]byte
}

// Put stores a file under the hash of its content.
func (s *shelf) Put(_ context.Context, data []byte, _ string) (string, error) {
	sum := sha256.Sum256(data)
	id := hex.EncodeToString(sum[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[id] = data
	return id, nil
}

func (s *shelf) get(id string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[id]
}
