package node

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/internal/config"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// A node of a cluster whose services are away cannot answer clients: it refuses them, and its health says why. A port
// that is taken is found at the start.
func TestServe_NodeOfClusterCannotAnswer_RefusesClients(t *testing.T) {
	free := func() string {
		l := testmust.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close()
		return l.Addr().String()
	}
	clients, health := free(), free()
	settings := map[string]string{
		"LETTERHEAD_DATA": filepath.Join(t.TempDir(), "data"), "LETTERHEAD_LISTEN": clients,
		"LETTERHEAD_METRICS_LISTEN": health, "LETTERHEAD_BASE_URL": "https://brands.example.com",
		"LETTERHEAD_EVENTSTORE": "esdb://127.0.0.1:1?tls=false", "LETTERHEAD_DATABASE": "postgres://a:b@127.0.0.1:1/c",
		"LETTERHEAD_ASSETS": "file://" + t.TempDir(),
	}
	cfg := testmust.Get(config.Load(func(string) (string, bool) { return "", false }, settings))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Server{Settings: cfg, Logs: io.Discard}.Serve(ctx) }()
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		resp, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	}); !ok {
		t.Error("the node does not say that it is not ready")
	}
	if _, err := net.Dial("tcp", clients); err == nil {
		t.Error("a client is connected to a node that cannot answer")
	}
	stop()
	testmust.Succeed(t, <-ended)

	taken := testmust.Get(net.Listen("tcp", clients))(t)
	defer taken.Close()
	if err := (Server{Settings: cfg, Logs: io.Discard}).Serve(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "choose another address with --listen") {
		t.Errorf("with a port that is taken: %v", err)
	}
}
