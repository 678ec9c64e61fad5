package web

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gorilla/mux"
)

// NewMux returns a router without paths. Paths stay encoded, so that %2F in a segment separates nothing.
func NewMux() *mux.Router {
	return mux.NewRouter().UseEncodedPath().SkipClean(true)
}

// Route is a method of a path. GET answers HEAD as well.
type Route struct {
	Method string
	Path   string // wildcards such as {id} are path values of the request
	Serve  http.HandlerFunc
}

// NewRouter returns a router of a table of paths, of which the first that matches serves a request. other answers the
// other methods of a path, with those that it has in the header Allow; if it is nil, unknown answers them. unknown
// answers all other paths.
func NewRouter(routes []Route, other, unknown http.HandlerFunc) *mux.Router {
	r := NewMux()
	r.NotFoundHandler, r.MethodNotAllowedHandler = unknown, unknown
	r.Use(decodePath)
	methods := map[string][]string{}
	for _, route := range routes {
		all := []string{route.Method}
		if route.Method == http.MethodGet {
			all = append(all, http.MethodHead)
		}
		methods[route.Path] = append(methods[route.Path], all...)
		r.Handle(route.Path, route.Serve).Methods(all...)
	}
	for _, route := range routes {
		all := methods[route.Path]
		if delete(methods, route.Path); other == nil || all == nil {
			continue
		}
		slices.Sort(all)
		allow := strings.Join(all, ", ")
		r.HandleFunc(route.Path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", allow)
			other(w, r)
		})
	}
	return r
}

// decodePath makes the wildcards path values.
func decodePath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range mux.Vars(r) {
			if decoded, err := url.PathUnescape(value); err == nil { // it is: net/http has parsed the path
				r.SetPathValue(name, decoded)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Clean redirects requests with an unclean path, such as one with two slashes, to the clean one. It returns false if
// the path is clean.
func Clean(w http.ResponseWriter, r *http.Request) bool {
	sent := r.URL.EscapedPath()
	clean := path.Clean("/" + sent)
	if strings.HasSuffix(sent, "/") && clean != "/" {
		clean += "/"
	}
	if clean == sent {
		return false
	}
	http.Redirect(w, r, (&url.URL{Path: clean, RawQuery: r.URL.RawQuery}).String(), http.StatusMovedPermanently)
	return true
}

// Invalid returns a 400 of an API, whose text names the required change.
func Invalid(format string, args ...any) *Problem {
	return &Problem{Status: http.StatusBadRequest, Code: "invalid_request", Text: fmt.Sprintf(format, args...)}
}

// IsText reports whether a value can be part of a query of the database or of an event: PostgreSQL rejects other texts.
func IsText(value string) bool { return utf8.ValidString(value) && !strings.Contains(value, "\x00") }

// QueryValue returns the only value of a parameter, and whether it is present. It ignores all others, so that an
// invalid one that another party added (a campaign tag, for example) does no harm. The problem is about a parameter
// that is repeated or cannot be decoded.
func QueryValue(rawQuery, name string) (value string, present bool, problem *Problem) {
	for rawQuery != "" {
		var pair string
		pair, rawQuery, _ = strings.Cut(rawQuery, "&")
		rawKey, rawValue, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(rawKey)
		if err != nil || key != name {
			continue
		}
		if present {
			return "", true, Invalid("The parameter %s is given more than once. Send it once.", name)
		}
		if value, err = url.QueryUnescape(rawValue); err != nil {
			return "", true, Invalid("The parameter %s is not percent-encoded correctly.", name)
		}
		present = true
	}
	return value, present, nil
}
