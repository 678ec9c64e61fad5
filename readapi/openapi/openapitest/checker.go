package openapitest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"letterhead/readapi/openapi"
)

// Answer is a response of the API with its request.
type Answer struct {
	Method string
	Path   string // escaped, without the query
	Status int
	Header http.Header
	Body   []byte // complete
}

// Row is what a response demonstrates: an operation's status, with or without an error code.
type Row struct {
	Method string
	Path   string // of the document, with its parameters in braces
	Status int
	Code   string // of an error of the JSON API, otherwise empty
}

func (r Row) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %d %s", r.Method, r.Path, r.Status, r.Code))
}

// undescribed are paths that the API serves to people and operators, which are not in the document.
var undescribed = []string{"/", "/suggest", "/favicon.ico", "/robots.txt", "/llms.txt", "/v1", "/v1/", "/docs", "/bot", "/healthz", "/readyz", "/metrics", "/dashboard", "/static/brand-logo.js"}

// always are the headers of every response, with their values; empty for any value.
var always = map[string]string{
	"X-Request-Id": "", "Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "", "X-Content-Type-Options": "nosniff",
}

// ofHTTP are headers of HTTP itself, of the host and of every page, which the document need not list.
var ofHTTP = []string{
	"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Cross-Origin-Opener-Policy", "Date",
	"Referrer-Policy", "Strict-Transport-Security", "Transfer-Encoding", "Vary",
}

// Checker checks responses against the document. It is safe for concurrent use.
type Checker struct {
	document *openapi.Document
	kin      *openapi3.T
	checked  sync.Map // [sha256.Size]byte of a checked body with its operation and status, to the error found
}

// New returns a checker of the document for a service with that base URL. It fails if the document is not valid.
func New(baseURL string) (*Checker, error) {
	source, err := openapi.JSON(baseURL)
	if err != nil {
		return nil, err
	}
	c := &Checker{}
	if c.document, err = openapi.Read(baseURL); err != nil {
		return nil, err
	}
	if c.kin, err = openapi3.NewLoader().LoadFromData(source); err != nil {
		return nil, fmt.Errorf("kin-openapi cannot read the document: %w", err)
	}
	if err := c.kin.Validate(context.Background()); err != nil {
		return nil, fmt.Errorf("kin-openapi rejects the document: %w", err)
	}
	return c, nil
}

// Document returns the document against which responses are checked.
func (c *Checker) Document() *openapi.Document { return c.document }

// Check reports all differences between a response and the document. row is what the response
// demonstrates; ok means that it belongs to an operation of the document.
func (c *Checker) Check(a Answer) (row Row, ok bool, err error) {
	decoded, _ := url.PathUnescape(a.Path)
	if slices.Contains(undescribed, a.Path) || strings.HasPrefix(a.Path, "/brands/") || strings.HasPrefix(a.Path, "/docs/") && a.Status != http.StatusNotFound || strings.HasPrefix(a.Path, "/static/") || strings.HasPrefix(decoded, "/dashboard/") {
		return Row{}, false, nil
	}
	var errs []error
	for name, value := range always {
		if have := a.Header.Get(name); have == "" || (value != "" && have != value) {
			errs = append(errs, fmt.Errorf("header %s is %q", name, have))
		}
	}
	path := PathOf(c.document, a.Path)
	o := Operation(c.document, a.Method, path)
	switch {
	case isRedirected(a):
		errs = append(errs, c.checkUnknown(a)...)
		return Row{}, false, c.found(a, errs)
	case a.Method == http.MethodOptions:
		errs = append(errs, c.checkOptions(a)...)
		return Row{}, false, c.found(a, errs)
	case path == "":
		errs = append(errs, c.checkUnknown(a)...)
		return Row{}, false, c.found(a, errs)
	case o == nil:
		// Any other method: its 405 is described with the methods that the path has.
		if a.Status != http.StatusMethodNotAllowed {
			return Row{}, false, c.found(a, append(errs, errors.New("the document does not have the method")))
		}
		o = Operation(c.document, Methods(c.document, path)[0], path)
		errs = append(errs, c.checkAllow(a, path))
	case a.Status == http.StatusMethodNotAllowed:
		errs = append(errs, errors.New("the document has the method"))
	}
	response := Response(o, a.Status)
	if response == nil {
		return Row{}, false, c.found(a, append(errs, errors.New("the document does not have the status")))
	}
	errs = append(errs, checkHeaders(response, a.Header)...)
	if a.Method == http.MethodHead {
		if len(a.Body) > 0 {
			errs = append(errs, errors.New("there is a body"))
		}
	} else {
		errs = append(errs, checkType(response, a)...)
		errs = append(errs, c.checkBody(o, a))
	}
	row = Row{Method: o.Method, Path: path, Status: a.Status, Code: codeOf(response, a)}
	return row, true, c.found(a, errs)
}

func (c *Checker) found(a Answer, errs []error) error {
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s %s: the answer %d contradicts the document: %w\nheader %v\nbody %.2000s", a.Method, a.Path, a.Status, err, a.Header, a.Body)
	}
	return nil
}

// checkAllow checks that the Allow header contains the document's methods for the path, and OPTIONS, in any order.
func (c *Checker) checkAllow(a Answer, path string) error {
	want := append(Methods(c.document, path), http.MethodOptions)
	have := strings.Split(a.Header.Get("Allow"), ", ")
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		return fmt.Errorf("header Allow names %v, the document has %v", have, want)
	}
	return nil
}

// checkOptions checks OPTIONS, which belongs to HTTP and CORS and is not in the document. A preflight
// is answered for every path, a plain OPTIONS with the methods of an existing one.
func (c *Checker) checkOptions(a Answer) []error {
	path := PathOf(c.document, a.Path)
	switch {
	case a.Header.Get("Access-Control-Allow-Methods") != "":
		if a.Status != http.StatusNoContent {
			return []error{errors.New("a preflight is answered with 204")}
		}
		return nil
	case path == "" && a.Path != "*": // which concerns the server
		return c.checkUnknown(a)
	case a.Status != http.StatusNoContent:
		return []error{errors.New("OPTIONS is answered with 204")}
	case path == "":
		return nil
	default:
		return []error{c.checkAllow(a, path)}
	}
}

// isRedirected reports whether a response redirects a path below /v1 whose dot segments are in the
// place of a parameter.
func isRedirected(a Answer) bool {
	moved := a.Status == http.StatusMovedPermanently || a.Status == http.StatusPermanentRedirect
	return moved && strings.HasPrefix(a.Path, "/v1/") && path.Clean(a.Path) != a.Path
}

// checkUnknown checks that a path that is not in the document is a 404, or a redirect to its clean form below /v1.
func (c *Checker) checkUnknown(a Answer) []error {
	switch a.Status {
	case http.StatusMovedPermanently, http.StatusPermanentRedirect:
		if to := a.Header.Get("Location"); !strings.HasPrefix(to, "/v1/") {
			return []error{fmt.Errorf("redirects to %q", to)}
		}
		return nil
	case http.StatusNotFound:
		if a.Method == http.MethodHead || strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") { // a page for browsers
			return nil
		}
		schema := "Error"
		if first, _, _ := strings.Cut(strings.TrimLeft(a.Path, "/."), "/"); first == "v2" {
			schema = "V2Error"
		}
		var body any
		if err := json.Unmarshal(a.Body, &body); err != nil {
			return []error{err}
		}
		return []error{c.kin.Components.Schemas[schema].Value.VisitJSON(body, openapi3.EnableJSONSchema2020())}
	default:
		return []error{errors.New("the document does not have the path")}
	}
}

// checkHeaders checks that required headers are present, that all headers are in the document, and
// that their values conform to it.
func checkHeaders(response *openapi.Response, have http.Header) []error {
	var errs []error
	known := slices.Clone(ofHTTP)
	for _, h := range response.Headers {
		name := http.CanonicalHeaderKey(h.Name)
		known = append(known, name)
		switch values := have[name]; {
		case len(values) == 0 && h.Required:
			errs = append(errs, fmt.Errorf("header %s is missing", h.Name))
		case len(values) > 1:
			errs = append(errs, fmt.Errorf("header %s occurs %d times", h.Name, len(values)))
		case len(values) == 1:
			if err := checkText(h.Schema, values[0]); err != nil {
				errs = append(errs, fmt.Errorf("header %s: %w", h.Name, err))
			}
		}
	}
	for name := range have {
		if _, common := always[name]; !common && !slices.Contains(known, http.CanonicalHeaderKey(name)) {
			errs = append(errs, fmt.Errorf("header %s is not in the document", name))
		}
	}
	return errs
}

// checkText compares a header's value with its schema, as far as the schemas of our headers require.
func checkText(s *openapi.Schema, value string) error {
	if s.Const != nil && value != s.Const {
		return fmt.Errorf("%q is not %q", value, s.Const)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, any(value)) {
		return fmt.Errorf("%q is not one of %v", value, s.Enum)
	}
	if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(value) {
		return fmt.Errorf("%q does not match %s", value, s.Pattern)
	}
	if s.MinLength != nil && len(value) < *s.MinLength {
		return fmt.Errorf("%q is too short", value)
	}
	if !slices.Contains(s.Types, "integer") {
		return nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a whole number", value)
	}
	if s.Minimum != nil && float64(n) < *s.Minimum {
		return fmt.Errorf("%d is below %g", n, *s.Minimum)
	}
	return nil
}

// checkType checks that a body has one of the media types of the document, and that there is no body if it has none.
func checkType(response *openapi.Response, a Answer) []error {
	if len(response.Contents) == 0 {
		if len(a.Body) > 0 {
			return []error{errors.New("there is a body")}
		}
		return nil
	}
	have, parameters, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || !slices.ContainsFunc(response.Contents, func(c *openapi.Content) bool { return c.Type == have }) {
		return []error{fmt.Errorf("header Content-Type is %q", a.Header.Get("Content-Type"))}
	}
	if strings.HasPrefix(have, "image/") {
		return nil
	}
	if parameters["charset"] != "utf-8" {
		return []error{fmt.Errorf("header Content-Type is %q, without charset=utf-8", a.Header.Get("Content-Type"))}
	}
	return nil
}

// checkBody runs the validator, once for each body of an operation and a status.
func (c *Checker) checkBody(o *openapi.Operation, a Answer) error {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %s\n", o.ID, a.Status, a.Header.Get("Content-Type"))
	h.Write(a.Body)
	key := [sha256.Size]byte(h.Sum(nil))
	if err, ok := c.checked.Load(key); ok {
		err, _ := err.(error)
		return err
	}
	err := c.validate(o, a)
	c.checked.Store(key, err)
	return err
}

func (c *Checker) validate(o *openapi.Operation, a Answer) error {
	item := c.kin.Paths.Value(o.Path)
	request, err := request(o, a)
	if err != nil {
		return err
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: request,
			Route:   &routers.Route{Spec: c.kin, Path: o.Path, PathItem: item, Method: o.Method, Operation: item.GetOperation(o.Method)},
		},
		Status: a.Status, Header: a.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	input.SetBodyBytes(a.Body)
	if err := openapi3filter.ValidateResponse(context.Background(), input); err != nil {
		return fmt.Errorf("kin-openapi: %w", err)
	}
	return nil
}

// request returns a request of the operation for the validator; for a method that the path does not
// have it uses one that it has.
func request(o *openapi.Operation, a Answer) (*http.Request, error) {
	u, err := url.ParseRequestURI(a.Path)
	if err != nil {
		return nil, err
	}
	return &http.Request{Method: o.Method, URL: u, Header: http.Header{}}, nil
}

// codeOf returns the error code of a response that is an error of the JSON API.
func codeOf(response *openapi.Response, a Answer) string {
	if len(response.Codes()) == 0 {
		return ""
	}
	var body struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(a.Body, &body) != nil {
		return "" // on HEAD, or reported by the validator
	}
	return body.Error.Code
}

// A page is compared as text.
func init() { openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.FileBodyDecoder) }
