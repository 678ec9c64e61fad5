package node

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"letterhead/internal/config"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/testmust"
	"letterhead/node/admin"
)

func TestServe_NoAddressForAdminAPI_MetricsAreServedToClients(t *testing.T) {
	cfg, err := config.Load(func(string) (string, bool) { return "", false }, map[string]string{
		"LETTERHEAD_DATA": t.TempDir(), "LETTERHEAD_STARTER": "off", "LETTERHEAD_LISTEN": "127.0.0.1:0",
	})
	if err != nil || !cfg.AdminDefault {
		t.Fatalf("%+v, %v", cfg, err)
	}
	resvgtest.Link(t, cfg.Data)
	cfg.AdminListen = "192.0.2.1:8090" // for documentation (RFC 5737): no machine has it
	ctx, stop := context.WithCancel(t.Context())
	begun, ended := make(chan string, 1), make(chan error, 1)
	server := Server{
		Settings: cfg, Release: release, Logs: t.Output(),
		Runner: func(*Node) admin.Runner {
			return func(context.Context, []string, io.Writer, io.Writer) int { return 0 }
		},
		Begun: func(n *Node, _ Begun) error { begun <- n.Config.BaseURL; return nil },
	}
	go func() { ended <- server.Serve(ctx) }()
	// The renderer compiles before the start. Under the race detector on a busy machine that takes more than a minute.
	var url string
	select {
	case url = <-begun:
	case err := <-ended:
		t.Fatal("the server ended:", err)
	}
	req := testmust.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil))(t)
	resp := testmust.Get(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "letterhead_") {
		t.Errorf("/metrics: %d %.100s, %v", resp.StatusCode, body, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
