package testnet

import (
	"html"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// Saved is a page that was saved without the files that it references.
type Saved struct {
	URL  *url.URL
	Body []byte
	// Marks reports whether a URL is a known logo. The page's other JPEGs are treated as photographs.
	Marks func(address string) bool
}

// ServeSaved serves the page at its URL, and generated images at the URLs of the images in the page. Each URL has a
// different image, so that a test can identify the image that a crawl chose. All other URLs, such as stylesheets,
// answer 404. Every host exists.
func (n *Internet) ServeSaved(s Saved) {
	n.ServeRest(&savedSite{Saved: s, named: unescaped(s.Body), sizes: declaredSizes(s.Body, s.URL)})
}

type savedSite struct {
	Saved
	named string // the page's text with unescaped URLs
	sizes map[string]size
}

func (s *savedSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := *r.URL
	at.Scheme, at.Host = "http", r.Host
	if r.TLS != nil {
		at.Scheme = "https"
	}
	switch {
	case strings.EqualFold(at.Host, s.URL.Host) && at.RequestURI() == s.URL.RequestURI():
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(s.Body)
	case s.names(&at):
		s.picture(w, &at)
	default:
		http.NotFound(w, r)
	}
}

// notPictures are file extensions of resources that are not images.
var notPictures = map[string]bool{
	".css": true, ".js": true, ".mjs": true, ".json": true, ".webmanifest": true, ".xml": true, ".txt": true, ".html": true, ".htm": true,
	".php": true, ".mp4": true, ".webm": true, ".mp3": true, ".woff": true, ".woff2": true, ".ttf": true,
}

// minNamed is the minimum length of a file name that is unlikely to occur in the page by chance.
const minNamed = 6

// names reports whether the page contains an image's URL. It may be complete, start at the host or, on the page's own
// host, at the root. Of a relative URL only the file name must occur.
func (s *savedSite) names(u *url.URL) bool {
	if notPictures[strings.ToLower(path.Ext(u.Path))] || u.Path == "/" || u.Path == "" {
		return false
	}
	for _, uri := range []string{u.RequestURI(), u.Path} {
		if plain, err := url.PathUnescape(uri); err == nil {
			uri = plain
		}
		if strings.Contains(s.named, u.Host+uri) {
			return true
		}
		if strings.EqualFold(u.Host, s.URL.Host) && (strings.Contains(s.named, `"`+uri) || strings.Contains(s.named, `'`+uri) || strings.Contains(s.named, `(`+uri)) {
			return true
		}
	}
	if known := u.Path == "/favicon.ico" || strings.HasPrefix(u.Path, "/apple-touch-icon"); known {
		return false // crawlers request it without a declaration
	}
	name := path.Base(u.Path)
	return strings.EqualFold(u.Host, s.URL.Host) && len(name) >= minNamed && strings.Contains(s.named, name)
}

// unescaped removes the escapes of HTML, JSON and URLs.
func unescaped(body []byte) string {
	text := html.UnescapeString(string(body))
	text = strings.NewReplacer(`\/`, "/", `\u002F`, "/", `\u0026`, "&").Replace(text)
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	var b strings.Builder // decode only valid escapes: a page may contain any other %
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if c, err := url.PathUnescape(text[i : i+3]); err == nil {
				b.WriteString(c)
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
