package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"letterhead/internal/testmust"
)

func newServer(t testing.TB) *Server {
	t.Helper()
	s := testmust.Get(New(Config{Name: "test", Title: "Test", Version: "1", BaseURL: "https://brands.example.com"}))(t)
	return s
}

func TestReadJSON_AcceptsUnambiguousInput(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, ` null `, `-0.5e+10`, `1e308`, `"\u00fc"`, "\"ü\"", `{"a":{"a":1},"b":[{"a":2}]}`,
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
	} {
		if _, err := readJSON([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		``, ` `, `{`, `{} {}`, `[1,]`, `{"a":1,}`, `{a:1}`, `'a'`, `01`, `+1`, `.5`, `NaN`, `1e309`, `-1e309`, `1e-9999`, `0e99999`,
		"\ufeff{}", `"\ud800"`, `{"\udc00":1}`, "\"\xc3\"", "\"\xed\xa0\x80\"", `{"a":1,"a":1}`, `{"a":1,"\u0061":1}`, `[{"a":{"b":1,"b":2}}]`, "\"\x00\"",
		strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1), strings.Repeat("[", 30_000), strings.Repeat(`{"a":`, 12_000),
	} {
		if value, err := readJSON([]byte(text)); err == nil {
			t.Errorf("readJSON(%.40q) = %v", text, value)
		}
	}
}

// Of ten calls in a batch, five run until one ends.
func TestAnswer_Batch_RunsFiveCallsConcurrently(t *testing.T) {
	s := newServer(t)
	synctest.Test(t, func(t *testing.T) {
		var messages []string
		for i := range MaxBatch {
			messages = append(messages, `{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+`,"method":"tools/call","params":{"name":"get_brand","arguments":{"identifier":"x"}}}`)
		}
		post, rejection := s.Read(http.Header{}, []byte("["+strings.Join(messages, ",")+"]"))
		if rejection != nil {
			t.Fatalf("body %s", rejection.Body)
		}
		var begun atomic.Int64
		turn := make(chan struct{})
		done := make(chan Reply)
		go func() {
			done <- s.Answer(t.Context(), post, nil, func(_ context.Context, c Call) (json.RawMessage, error) {
				begun.Add(1)
				<-turn
				return json.RawMessage(`{"index":` + strconv.Itoa(c.Index) + `}`), nil
			})
		}()
		for ended := range MaxBatch - maxConcurrentCalls {
			synctest.Wait()
			if n := begun.Load(); n != int64(maxConcurrentCalls+ended) {
				t.Fatalf("%d calls began after %d ended", n, ended)
			}
			turn <- struct{}{}
		}
		close(turn)
		reply := <-done
		for i := range MaxBatch {
			want := `"id":` + strconv.Itoa(i) + `,"result":{"content":[{"type":"text","text":"{\"index\":` + strconv.Itoa(i) + `}"}]`
			if !bytes.Contains(reply.Body, []byte(want)) {
				t.Errorf("body %s lacks %s", reply.Body, want)
			}
		}
	})
}

// The client sees neither the error nor the invalid result.
func TestAnswer_InvalidToolResult_IsInternalError(t *testing.T) {
	s := newServer(t)
	post, _ := s.Read(http.Header{}, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_brand","arguments":{"identifier":"x"}}}`))
	for _, handle := range []Handler{
		func(context.Context, Call) (json.RawMessage, error) { return nil, errors.New("secret of the house") },
		func(context.Context, Call) (json.RawMessage, error) {
			return json.RawMessage(`{"secret of the house`), nil
		},
		func(context.Context, Call) (json.RawMessage, error) { return nil, nil },
	} {
		reply := s.Answer(t.Context(), post, nil, handle)
		if reply.Status != http.StatusOK || reply.Code != CodeInternalError || bytes.Contains(reply.Body, []byte("secret")) {
			t.Errorf("status %d, body %s", reply.Status, reply.Body)
		}
	}
}

// FuzzRead parses any bodies and headers, and lets every tool call succeed. The reply always has a
// documented status and a JSON-RPC body, which is empty only with 202; a request is answered with its
// id; and no call runs that the schema does not allow.
func FuzzRead(f *testing.F) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
		`[{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"search_brands","arguments":{"query":"x","limit":1e1}}},{"jsonrpc":"2.0","method":"x"}]`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		`{"jsonrpc":"2.0","id":-0,"result":null}`, `[[]]`, `{"a":"\ud800"}`, "\xff", `[`,
	} {
		for _, version := range []string{"", "2025-06-18", "2026-07-28", "x"} {
			f.Add([]byte(body), version, "tools/list")
		}
	}
	s := newServer(f)
	f.Fuzz(func(t *testing.T, body []byte, version, method string) {
		h := http.Header{}
		if version != "" {
			h.Set(headerVersion, version)
		}
		h.Set(headerMethod, method)
		post, rejection := s.Read(h, body)
		if rejection != nil {
			check(t, *rejection, 400)
			return
		}
		reply := s.Answer(t.Context(), post, nil, func(_ context.Context, c Call) (json.RawMessage, error) {
			if err := checkArguments(s.inputs[c.Tool], c.Arguments); err != nil {
				t.Fatalf("%s was called with %v: %v", c.Tool, c.Arguments, err)
			}
			if n := c.Arguments.Int("limit", 10); n < 1 || n > 20 {
				t.Fatalf("limit %d of %v; want at least 1 and at most 20", n, c.Arguments)
			}
			return json.RawMessage(`{}`), nil
		})
		check(t, reply, 200, 202, 400, 404)
	})
}

func check(t *testing.T, reply Reply, statuses ...int) {
	t.Helper()
	known := false
	for _, status := range statuses {
		known = known || reply.Status == status
	}
	if !known || (reply.Body == nil) != (reply.Status == http.StatusAccepted) {
		t.Fatalf("status %d with %d bytes", reply.Status, len(reply.Body))
	}
	if reply.Body == nil {
		return
	}
	answers := []map[string]json.RawMessage{{}}
	if reply.Body[0] == '[' {
		if err := json.Unmarshal(reply.Body, &answers); err != nil || len(answers) == 0 || len(answers) > MaxBatch {
			t.Fatalf("%v: body %s", err, reply.Body)
		}
	} else if err := json.Unmarshal(reply.Body, &answers[0]); err != nil {
		t.Fatalf("%v: body %s", err, reply.Body)
	}
	for _, a := range answers {
		if string(a["jsonrpc"]) != `"2.0"` || a["id"] == nil || (a["result"] == nil) == (a["error"] == nil) || a["result"] != nil && string(a["id"]) == "null" {
			t.Fatalf("body %s", reply.Body)
		}
	}
}
