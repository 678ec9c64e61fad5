package readapi_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"letterhead/domain/plan"
	"letterhead/readapi"
)

// TestBatch_PastItsDeadline_StartsNoItem runs in virtual time. No crawl ever ends, so that five items
// take more than eight seconds: the sixteenth would start after 25.
func TestBatch_PastItsDeadline_StartsNoItem(t *testing.T) {
	inBubble(t, func(s *service) {
		c := s.account(plan.Custom, 50)
		identifiers := numbered("unknown-%d.com", 22)
		for _, domain := range identifiers {
			s.crawler.does(domain, never)
		}
		began := time.Now()
		items, header := c.batch(identifiers...)
		if took := time.Since(began); took < 25*time.Second || took > 35*time.Second {
			t.Errorf("the batch took %s, want at least %v and at most %v", took, 25*time.Second, 35*time.Second)
		}
		for i, item := range items {
			tried := !strings.Contains(item.Error.Message, "before this item was tried")
			if item.said() != "504 timeout" || tried != (i < 15) || *item.Domain != identifiers[i] {
				t.Errorf("%s: %s, %q", identifiers[i], item.said(), item.Error.Message)
			}
		}
		if got := header.Get("X-Credits-Remaining"); got != "50" {
			t.Errorf("%s remaining, want %q", got, "50")
		}
		if b := c.books(); b.holds != 15 || len(b.openHolds) != 0 || len(b.charges) != 0 {
			t.Errorf("%d holds, %d of them open, %d charges; want 15, 0 and 0", b.holds, len(b.openHolds), len(b.charges))
		}
	})
}

// The server's own write deadline expires before the answer, as happens if a batch has used it up.
func TestBatch_LongRun_AnswerIsNotCutByWriteTimeout(t *testing.T) {
	s, c := startWith(t, plan.Custom, 10)
	s.known("acme.com", record("acme"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	server := readapi.NewServer(s.api.Handler())
	server.WriteTimeout = time.Nanosecond
	done := make(chan error, 1)
	go func() { done <- server.Serve(readapi.NewPlainListener(l)) }()
	t.Cleanup(func() {
		s.must(server.Close())
		<-done
	})
	ask := func(method, path, body string) (answer, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+l.Addr().String()+path, strings.NewReader(body))
		s.must(err)
		req.Header.Set("Authorization", "Bearer "+c.secret)
		resp, err := s.transport.RoundTrip(req)
		if err != nil {
			return answer{}, err
		}
		defer resp.Body.Close()
		read, err := io.ReadAll(resp.Body)
		return answer{status: resp.StatusCode, header: resp.Header, body: read}, err
	}
	if a, err := ask(http.MethodGet, "/v1/brands/acme.com", ""); err == nil {
		t.Errorf("the write timeout does not cut an answer: status %d, body %s", a.status, a.body)
	}
	a, err := ask(http.MethodPost, batchPath, `{"identifiers":["acme.com"]}`)
	s.must(err)
	a.items(t, []string{"acme.com"})
}
