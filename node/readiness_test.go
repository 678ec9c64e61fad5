package node

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReadiness_ListsWhatRemains(t *testing.T) {
	full := errors.New("no space is left for the event log")
	for _, c := range []struct {
		name       string
		state      readiness
		status     int
		body       string
		reason     string
		retryAfter string
	}{
		{"a node that starts", notStarted(), 503, "look_ups=false crawls=false logos=false reads=false", "", "1"},
		{"everything", whatRemains(nil, nil, false), 200, "look_ups=true crawls=true logos=true reads=true", "", ""},
		{"a full disk", whatRemains(nil, full, false), 503, "look_ups=false crawls=false logos=true reads=true",
			full.Error(), "5"},
		{"a full folder of assets", whatRemains(nil, nil, true), 200,
			"look_ups=true crawls=false logos=true reads=true", "no space is left for assets", ""},
		{"no event store", whatRemains([]string{serviceEventStore}, nil, false), 503,
			"look_ups=false crawls=false logos=true reads=false", "the event store does not answer", "5"},
		{"no database", whatRemains([]string{serviceDatabase, serviceRegistry}, nil, false), 503,
			"look_ups=false crawls=false logos=false reads=false",
			"the database does not answer; the registry of the read models does not answer", "5"},
		{"no object storage", whatRemains([]string{serviceAssets}, nil, false), 503,
			"look_ups=true crawls=false logos=false reads=true", "the object storage does not answer", "5"},
	} {
		w := httptest.NewRecorder()
		c.state.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		var body []string
		for _, word := range []string{"look_ups", "crawls", "logos", "reads"} {
			is, listed := got[word].(bool)
			if !listed {
				t.Errorf("with %s: %s is not listed", c.name, word)
			}
			body = append(body, word+map[bool]string{true: "=true", false: "=false"}[is])
		}
		reason, _ := got["reason"].(string)
		if text := strings.Join(body, " "); w.Code != c.status || text != c.body || reason != c.reason ||
			w.Header().Get("Retry-After") != c.retryAfter {
			t.Errorf("with %s: %d %s, reason %q, Retry-After %q; want %d %s, reason %q, Retry-After %q", c.name, w.Code,
				text, reason, w.Header().Get("Retry-After"), c.status, c.body, c.reason, c.retryAfter)
		}
	}
}
