package adminapi_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"letterhead/adminapi"
	"letterhead/internal/eventlog"
)

// failingLog is a log whose streams cannot be read.
type failingLog struct {
	eventlog.Log
	read func() error
}

func (l failingLog) ReadStream(context.Context, string, uint64, eventlog.Direction, int) ([]eventlog.Recorded, error) {
	return nil, l.read()
}

func TestRequest_LogHasLostEvents_SaysSoToPrograms(t *testing.T) {
	s := start(t)
	cfg, deps := s.fixed()
	deps.Log = failingLog{deps.Log, func() error { return &eventlog.LossError{Witness: "test", Remembered: 2, Head: 1} }}
	s.listen(cfg, deps)
	var body struct {
		Error struct{ Code, Message string }
	}
	s.get("/admin/brands/acme.com/history").want(http.StatusInternalServerError, &body)
	if body.Error.Code != adminapi.CodeLogLost {
		t.Errorf("the error is %+v", body.Error)
	}
}

func TestLocal_HandlerPanics_SendsNoStack(t *testing.T) {
	s := start(t)
	cfg, deps := s.fixed()
	var deep func(int) error
	deep = func(n int) error {
		if n == 0 {
			panic("test")
		}
		return deep(n - 1)
	}
	var logs bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&logs, nil))
	deps.Log = failingLog{deps.Log, func() error { return deep(200) }}
	api, err := adminapi.New(cfg, deps)
	s.must(err)
	w := httptest.NewRecorder()
	api.Local().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/admin/brands/acme.com/history", http.NoBody))
	if body := w.Body.String(); w.Code != 500 || !strings.Contains(body, `"message":"panic: test"`) {
		t.Errorf("the answer is %d %s", w.Code, body)
	}
	if logged := logs.Len(); !strings.Contains(logs.String(), "panic: test") || logged > 16<<10 {
		t.Errorf("%d bytes are logged: %s", logged, logs.String())
	}
}
