package readapi_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"letterhead/readapi"
)

// net/http rejects these requests itself.
func TestUnrouted_MalformedRequest_GetsErrorBody(t *testing.T) {
	t.Parallel()
	s := start(t)
	long := strings.Repeat("x", 40<<10)
	for _, c := range []struct {
		name, rest string
		status     int
	}{
		{"no Host", "HTTP/1.1\r\n\r\n", http.StatusBadRequest},
		{"two Hosts", "HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", http.StatusBadRequest},
		{"a header without a colon", "HTTP/1.1\r\nHost: x\r\nbroken\r\n\r\n", http.StatusBadRequest},
		{"no version", "\r\n\r\n", http.StatusBadRequest},
		{"long headers", "HTTP/1.1\r\nHost: x\r\nX: " + long + "\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
		{"an encoding", "HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", http.StatusNotImplemented},
		{"a version", "HTTP/4.0\r\nHost: x\r\n\r\n", http.StatusHTTPVersionNotSupported},
		{"an expectation", "HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\n\r\n", http.StatusExpectationFailed},
	} {
		for _, form := range unroutedForms {
			conn := s.dial("")
			go io.WriteString(conn, form.method+" "+form.path+" "+c.rest)
			t.Log(c.name)
			checkUnrouted(t, conn, form, c.status, "invalid_request")
			conn.Close()
		}
	}
	// Without a request line that can be read, the form is the error body.
	for _, sent := range []string{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "\r\n\r\n", "HEAD\r\n\r\n", "/v2/me\r\n\r\n"} {
		conn := s.dial("")
		go io.WriteString(conn, sent)
		checkUnrouted(t, conn, unroutedForm{method: "sent", path: sent}, http.StatusBadRequest, "invalid_request")
		conn.Close()
	}
}

func TestUnrouted_AfterAnAnswer_MalformedRequestGetsErrorBody(t *testing.T) {
	t.Parallel()
	s := start(t)
	conn := s.dial("")
	defer conn.Close()
	go io.WriteString(conn, whole+"GET /v1/me\r\n\r\n")
	text, _ := io.ReadAll(conn)
	second := string(text)[strings.LastIndex(string(text), "HTTP/1.1 "):]
	if !strings.HasPrefix(second, "HTTP/1.1 400 ") || !strings.Contains(second, `"code":"invalid_request"`) {
		t.Errorf("the answer to the second request is %q", second)
	}
}

func TestUnrouted_Starting_GetsErrorBody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(readapi.NewUnrouted(readapi.Config{BaseURL: "https://brands.example.com", LogoHost: "logos.example.com"}, slog.New(slog.DiscardHandler)))
	t.Cleanup(server.Close)
	s := &service{t: t, url: server.URL}
	for _, form := range unroutedForms {
		conn := s.dial("")
		_, err := io.WriteString(conn, form.method+" "+form.path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		s.must(err)
		checkUnrouted(t, conn, form, http.StatusServiceUnavailable, "upstream_failed")
		conn.Close()
	}
	for _, c := range []struct {
		method, path, host string
		status             int
		body               string
	}{
		{"GET", "/healthz", "x", http.StatusOK, "ok\n"},
		{"OPTIONS", "/v1/brands/acme.com", "x", http.StatusNoContent, ""},
		{"GET", "/acme.com", "logos.example.com", http.StatusServiceUnavailable, "The service is starting, so nothing ran and nothing was charged. Send the request again after Retry-After.\n"},
	} {
		req, err := http.NewRequest(c.method, server.URL+c.path, nil)
		s.must(err)
		req.Host = c.host
		req.Header.Set("Origin", "https://shop.example")
		req.Header.Set("Access-Control-Request-Method", "GET")
		resp, err := server.Client().Do(req)
		s.must(err)
		body, err := io.ReadAll(resp.Body)
		s.must(err)
		resp.Body.Close()
		if resp.StatusCode != c.status || string(body) != c.body || resp.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s: %d %q, header %v", c.method, c.path, resp.StatusCode, body, resp.Header)
		}
		if open := resp.Header.Get("Access-Control-Allow-Origin") == "*"; open != !strings.HasSuffix(c.path, "z") {
			t.Errorf("%s %s: pages of other sites may read it: %t", c.method, c.path, open)
		}
		if c.method == "OPTIONS" && !strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "X-Api-Key") {
			t.Errorf("the preflight gets %v", resp.Header)
		}
	}
}

func TestUnrouted_AdminStarting_HasItsCodeAndNoCORS(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	readapi.NewUnroutedAdmin("http://x", slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("GET", "/admin/accounts", nil))
	const want = `{"error":{"code":"unavailable","message":"The service is starting, so nothing ran and nothing was charged. Send the request again after Retry-After."}}` + "\n"
	if h := w.Header(); w.Code != http.StatusServiceUnavailable || w.Body.String() != want || h.Get("X-Request-Id") == "" || h.Get("Retry-After") == "" || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %s, header %v", w.Code, w.Body, h)
	}
}
