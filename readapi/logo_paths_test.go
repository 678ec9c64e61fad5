package readapi_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Both forms give the same answer with every possible status, on GET and on HEAD.
func TestLogoPaths_BothForms_AnswerAlike(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 64)))
	s.known("broken.com", s.withLogo("broken", "png", inked(t, 64)[:40]))
	both := func(status int, domain, query string, header http.Header) {
		t.Helper()
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			s.shows(method+" /logo/{domain}", status)
			s.shows(method+" /logo/{domain}/{type}", status)
			first := s.send(request{method: method, path: "/logo/" + domain + "?type=icon&" + query, header: header})
			second := s.send(request{method: method, path: "/logo/" + domain + "/icon?" + query, header: header})
			for _, a := range []answer{first, second} {
				if a.status != status || (method == http.MethodHead && len(a.body) > 0) {
					t.Errorf("%s %s?%s: status %d with %d bytes, want %d", method, domain, query, a.status, len(a.body), status)
				}
				a.header.Del("X-Request-Id")
				a.header.Del("Date")
			}
			if fmt.Sprint(first.header) != fmt.Sprint(second.header) || !bytes.Equal(first.body, second.body) {
				t.Errorf("%s %s?%s: the forms differ:\n%v\n%v", method, domain, query, first.header, second.header)
			}
		}
	}
	both(http.StatusOK, "acme.com", "size=32", nil)
	both(http.StatusNotModified, "acme.com", "size=32", http.Header{"If-None-Match": {"*"}})
	both(http.StatusBadRequest, "acme.com", "size=0", nil)
	both(http.StatusNotFound, "unknown.com", "fallback=404", nil)
	both(http.StatusInternalServerError, "broken.com", "size=32", nil)
	for _, path := range []string{"/logo/acme.com", "/logo/acme.com/icon"} {
		s.send(request{method: http.MethodDelete, path: path}).plainly(t, http.StatusMethodNotAllowed)
	}

	elsewhere := filepath.Join(filepath.Dir(s.assetFolder), "elsewhere")
	s.must(os.Rename(s.assetFolder, elsewhere))
	both(http.StatusServiceUnavailable, "acme.com", "size=33", nil)
	s.must(os.Rename(elsewhere, s.assetFolder))

	const minute = 300 // images for one address
	for sent := range minute + 1 {
		a := s.send(request{path: "/logo/unknown.com?fallback=transparent&size=16"})
		if a.status == http.StatusTooManyRequests {
			break
		}
		if sent == minute {
			t.Fatalf("no limit was reached after %d images", sent)
		}
	}
	both(http.StatusTooManyRequests, "acme.com", "size=32", nil)
}

// The URL of the compatible form shows the same image.
func TestLogoPaths_OptionsInPath_EqualThoseInQuery(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 300)))
	for _, domain := range []string{"acme.com", "unknown.com"} {
		want := s.send(request{path: "/logo/" + domain + "?type=icon&size=256&theme=dark&fallback=monogram&format=png"})
		want.ok(t)
		for _, path := range []string{
			"/fallback/lettermark/theme/dark/h/256/w/256/icon.png?c=x", "/icon.png/w/256/h/100/theme/dark/", "/type/icon/h/256/w/16?background=light&format=png",
			"?width=256&background=light&format=png", "/icon?size=256&w=3&width=4&theme=dark&background=dark&format=png",
		} {
			a := s.send(request{path: "/logo/" + domain + path})
			if a.ok(t); !bytes.Equal(a.body, want.body) || a.header.Get("ETag") != want.header.Get("ETag") {
				t.Errorf("%s%s served a different image", domain, path)
			}
		}
		for path, says := range map[string]string{
			"/w/0": "whole number", "/theme/blue": "light or dark", "/fallback": "has no value", "/icon//": "empty segment", "/icon/symbol": "more than once",
			"/icon.gif": "webp, png, svg or jpeg", "/icon?type=logo": "different values of type", "/w/64/banner": `"banner"`, "?size=64&w=": "parameter w",
		} {
			a := s.send(request{path: "/logo/" + domain + path})
			if a.plainly(t, http.StatusBadRequest); !strings.Contains(string(a.body), says) {
				t.Errorf("%s%s: body %s", domain, path, a.body)
			}
		}
	}
}
