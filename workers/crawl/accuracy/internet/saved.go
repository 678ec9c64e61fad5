package internet

import (
	"html"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// Saved is a page that was kept without the files that it points at.
type Saved struct {
	URL  *url.URL
	Body []byte
	// Marks are addresses of images that are known to be somebody's logo. The page's other JPEGs are
	// taken for photographs.
	Marks func(address string) bool
}

// ServeSaved answers at the page's address with the page, and at the addresses of images that the page
// names with drawn images in their place: each address has its own, so that what a crawl chose can be
// told. Everything else, such as stylesheets, is not there. It answers for every host.
func (n *Internet) ServeSaved(s Saved) {
	n.ServeRest(&savedSite{Saved: s, named: unescaped(s.Body), sizes: declaredSizes(s.Body, s.URL)})
}

type savedSite struct {
	Saved
	named string // the page's text with the ways to write an address undone
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

// notPictures are endings of files that the page may name and that are no images.
var notPictures = map[string]bool{
	".css": true, ".js": true, ".mjs": true, ".json": true, ".webmanifest": true, ".xml": true, ".txt": true, ".html": true, ".htm": true,
	".php": true, ".mp4": true, ".webm": true, ".mp3": true, ".woff": true, ".woff2": true, ".ttf": true,
}

// minNamed is the length from which the last part of an address is unlikely to stand on the page by chance.
const minNamed = 6

// names reports whether an image's address stands on the page: whole, from its host on, or from its root on
// when it is on the page's own host; or, for relative addresses, its file name.
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
		return false // probed, not declared
	}
	name := path.Base(u.Path)
	return strings.EqualFold(u.Host, s.URL.Host) && len(name) >= minNamed && strings.Contains(s.named, name)
}

// unescaped undoes what HTML, JSON and addresses do to an address.
func unescaped(body []byte) string {
	text := html.UnescapeString(string(body))
	text = strings.NewReplacer(`\/`, "/", `\u002F`, "/", `\u0026`, "&").Replace(text)
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	var b strings.Builder // some % of the page escapes nothing: undo what does
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
