package mcp

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Protocol versions.
const (
	v20241105 = "2024-11-05"
	v20250326 = "2025-03-26"
	v20250618 = "2025-06-18"
	v20251125 = "2025-11-25"
	v20260728 = "2026-07-28"
)

// Versions are the supported versions, newest first.
var Versions = []string{v20260728, v20251125, v20250618, v20250326, v20241105}

// latestInitialize is the last version that has initialize, and so the newest that it can negotiate.
const latestInitialize = v20251125

// Names of HTTP headers, and the keys of params._meta from 2026-07-28 on.
const (
	headerVersion = "MCP-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"

	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaServer       = "io.modelcontextprotocol/serverInfo"
)

// hasBatches reports whether a version has batches. Without the header a client is of 2025-03-26 or before.
func hasBatches(version string) bool {
	return version == "" || version == v20250326 || version == v20241105
}

// negotiate returns the version that initialize agrees on: the client's own if possible.
func negotiate(asked string) string {
	if asked != v20260728 && slices.Contains(Versions, asked) {
		return asked
	}
	return latestInitialize
}

// headerValue returns the single value of a header; ok is false if it occurs more than once. Without
// the header the value is empty and present is false.
func headerValue(h http.Header, name string) (value string, present, ok bool) {
	values := h.Values(name)
	switch len(values) {
	case 0:
		return "", false, true
	case 1:
		return values[0], true, true
	default:
		return "", true, false
	}
}

// supported is the data of an unsupported-version error.
type supported struct {
	Supported []string `json:"supported"`
	Requested string   `json:"requested"`
}

// checkVersion returns the version in the POST's header, empty if there is none. The rejection of a message that
// contains the same version follows 2026-07-28, so that its client tries another; earlier versions have no such code.
func checkVersion(h http.Header, body any) (version string, rejection *Error) {
	version, present, ok := headerValue(h, headerVersion)
	if !present || ok && slices.Contains(Versions, version) {
		return version, nil
	}
	rejection = badRequest(CodeInvalidRequest, "%s must be one of %s.", headerVersion, strings.Join(Versions, ", "))
	rejection.Data = supported{Versions, version}
	object, _ := body.(map[string]any)
	params, _ := object["params"].(map[string]any)
	if declared, has := declaredVersion(params); has && declared == version {
		rejection.Code = CodeUnsupportedVersion
	}
	return version, rejection
}

// declaredVersion returns the version in params._meta, from 2026-07-28 on.
func declaredVersion(params map[string]any) (string, bool) {
	meta, _ := params["_meta"].(map[string]any)
	version, ok := meta[metaVersion].(string)
	return version, ok
}

// checkModern reports whether a request is of 2026-07-28, which contains all metadata, and rejects it
// if something is missing or headers and body differ: an intermediary may have acted on the headers.
func checkModern(h http.Header, version string, m *message) (modern bool, rejection *Error) {
	declared, has := declaredVersion(m.params)
	switch {
	case !has && (version != v20260728 || m.method == methodInitialize):
		return false, nil
	case !has:
		return false, badRequest(CodeInvalidParams, "params._meta lacks %q, which every request of %s must contain.",
			metaVersion, v20260728)
	case declared != version && declared != v20260728 && version != v20260728 && slices.Contains(Versions, declared):
		return false, nil // earlier versions had no such key, so it has no meaning
	case declared != version:
		return false, badRequest(CodeHeaderMismatch, "%s differs from the version in the body.", headerVersion)
	case version != v20260728:
		return false, nil
	}
	meta := m.params["_meta"].(map[string]any)
	if _, ok := meta[metaCapabilities].(map[string]any); !ok {
		return false, badRequest(CodeInvalidParams, "params._meta lacks the object %q.", metaCapabilities)
	}
	if client, has := meta[metaClient]; has {
		if _, ok := client.(map[string]any); !ok {
			return false, badRequest(CodeInvalidParams, "params._meta.%q is not an object.", metaClient)
		}
	}
	if method, present, ok := headerValue(h, headerMethod); !present || !ok || method != m.method {
		return false, badRequest(CodeHeaderMismatch, "%s differs from the method in the body.", headerMethod)
	}
	if name, isText := m.params["name"].(string); isText && m.method == methodCall {
		sent, present, ok := headerValue(h, headerName)
		if decoded, valid := decodeHeader(sent); !present || !ok || !valid || decoded != name {
			return false, badRequest(CodeHeaderMismatch, "%s differs from the tool in the body.", headerName)
		}
	}
	return true, nil
}

// decodeHeader decodes the Base64 form of names that are not plain ASCII.
func decodeHeader(value string) (string, bool) {
	encoded, ok := strings.CutPrefix(value, "=?base64?")
	if !ok {
		return value, true
	}
	if encoded, ok = strings.CutSuffix(encoded, "?="); !ok {
		return value, true
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	return string(decoded), err == nil
}

// badRequest returns the error of a POST that is answered with 400.
func badRequest(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), status: http.StatusBadRequest}
}
