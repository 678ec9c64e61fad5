package testnet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

// Limits of a site of files.
const (
	maxSiteFile   = 8 << 20 // bytes
	maxRouteDelay = 3 * time.Second
)

// siteFile is a folder's site.json.
type siteFile struct {
	What      string
	Hosts     []string
	Routes    map[string]route
	Redirects map[string]string // from host, or scheme://host, to scheme://host
	TXT       map[string]string
}

type route struct {
	File    string
	Body    string
	Status  int
	Headers map[string]string
	DelayMS int `json:"delay_ms"`
}

// ServeFolder serves the site that a folder describes in its site.json. Errors:
// those of reading the folder, or an invalid description.
func (n *Internet) ServeFolder(folder fs.FS) error {
	data, err := fs.ReadFile(folder, "site.json")
	if err != nil {
		return err
	}
	var d siteFile
	if err := json.Unmarshal(data, &d); err != nil {
		return fmt.Errorf("site.json: %w", err)
	}
	if len(d.Hosts) == 0 {
		return fmt.Errorf("site.json names no host")
	}
	s := &folderSite{files: folder, about: d}
	hosts := map[string]bool{}
	for _, host := range d.Hosts {
		hosts[host] = true
	}
	for from := range d.Redirects {
		if _, host, ok := strings.Cut(from, "://"); ok {
			from = host
		}
		hosts[from] = true
	}
	for host := range hosts {
		n.Serve(host, s)
	}
	for name, text := range d.TXT {
		n.Announce(name, text)
	}
	return nil
}

// folderSite serves routes and files of a folder.
type folderSite struct {
	files fs.FS
	about siteFile
}

func (s *folderSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := strings.ToLower(r.Host)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	for _, from := range []string{scheme + "://" + host, host} {
		if to, ok := s.about.Redirects[from]; ok {
			http.Redirect(w, r, strings.TrimSuffix(to, "/")+r.URL.RequestURI(), http.StatusMovedPermanently)
			return
		}
	}
	at, ok := s.about.Routes[r.URL.RequestURI()]
	if !ok {
		at, ok = s.about.Routes[r.URL.Path]
	}
	if !ok {
		at = route{File: strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")}
		if info, err := fs.Stat(s.files, cmp.Or(at.File, ".")); err == nil && info.IsDir() {
			at.File = path.Join(at.File, "index.html")
		}
		if at.File == "site.json" {
			http.NotFound(w, r)
			return
		}
	}
	s.answer(w, r, at)
}

func (s *folderSite) answer(w http.ResponseWriter, r *http.Request, at route) {
	if at.DelayMS > 0 {
		select {
		case <-time.After(min(time.Duration(at.DelayMS)*time.Millisecond, maxRouteDelay)):
		case <-r.Context().Done():
			return
		}
	}
	body := []byte(at.Body)
	kind := "text/html; charset=utf-8"
	if at.File != "" {
		data, err := fs.ReadFile(s.files, at.File)
		if err != nil || len(data) > maxSiteFile {
			http.NotFound(w, r)
			return
		}
		body, kind = data, contentType(at.File)
	}
	w.Header().Set("Content-Type", kind)
	for k, v := range at.Headers {
		w.Header().Set(k, v)
	}
	if at.Status != 0 {
		w.WriteHeader(at.Status)
	}
	w.Write(body)
}

// contentType returns the media type that web servers usually send for a file
// extension. Package mime is not used because its tables depend on the machine.
func contentType(file string) string {
	switch path.Ext(file) {
	case ".svg":
		return "image/svg+xml"
	case ".ico":
		return "image/x-icon"
	case ".webp":
		return "image/webp"
	case ".webmanifest":
		return "application/manifest+json"
	case ".html", ".htm":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	}
	if kind := mime.TypeByExtension(path.Ext(file)); kind != "" {
		return kind
	}
	return "application/octet-stream"
}
