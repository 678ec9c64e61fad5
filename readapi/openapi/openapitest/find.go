package openapitest

import (
	"slices"
	"strings"

	"letterhead/readapi/openapi"
)

// Response returns the operation's response with a status, nil if there is none.
func Response(o *openapi.Operation, status int) *openapi.Response {
	for _, r := range o.Responses {
		if r.Status == status {
			return r
		}
	}
	return nil
}

// Methods returns the methods of a path, as written in the document with braces.
func Methods(d *openapi.Document, path string) []string {
	var methods []string
	for _, o := range d.Operations {
		if o.Path == path {
			methods = append(methods, o.Method)
		}
	}
	return methods
}

// PathOf returns the path of the document that matches an escaped path, empty if there is none. A path without
// parameters takes precedence over one with them, and a segment that is the prefix of other paths (/v2/brands/id) fills
// none. Below /v2 a trailing slash is allowed. A logo's domain may follow any number of options, which OpenAPI paths
// cannot express: these match its second form, and paths without a domain match the first.
func PathOf(d *openapi.Document, escaped string) string {
	if escaped == "/logo" {
		return "/logo/{domain}"
	}
	if rest, ok := strings.CutPrefix(escaped, "/logo/"); ok {
		if _, options, _ := strings.Cut(rest, "/"); options != "" {
			return "/logo/{domain}/{type}"
		}
		return "/logo/{domain}"
	}
	if strings.HasPrefix(escaped, "/v2/") {
		escaped = strings.TrimSuffix(escaped, "/")
	}
	best, parameters := "", 0
	for _, o := range d.Operations {
		if n, ok := matches(o.Path, escaped); ok && (best == "" || n < parameters) {
			best, parameters = o.Path, n
		}
	}
	if parameters > 0 && slices.ContainsFunc(d.Operations, func(o *openapi.Operation) bool { return strings.HasPrefix(o.Path, escaped+"/") }) {
		return ""
	}
	return best
}

// matches reports whether an escaped path matches a template, and how many parameters it fills.
func matches(template, escaped string) (parameters int, ok bool) {
	want, have := strings.Split(template, "/"), strings.Split(escaped, "/")
	if len(want) != len(have) {
		return 0, false
	}
	for i, segment := range want {
		switch {
		case strings.HasPrefix(segment, "{"):
			if have[i] == "" {
				return 0, false
			}
			parameters++
		case segment != have[i]:
			return 0, false
		}
	}
	return parameters, true
}

// Operation returns the operation of a path of the document, nil if the path does not have the method.
func Operation(d *openapi.Document, method, path string) *openapi.Operation {
	for _, o := range d.Operations {
		if o.Method == method && o.Path == path {
			return o
		}
	}
	return nil
}
