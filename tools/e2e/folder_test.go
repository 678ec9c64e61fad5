package e2e

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"letterhead/internal/testmust"
)

// The first start on a folder imports the starter index and compiles the renderer of vectors, which takes seven
// seconds of processor time. Tests of anything else begin with a copy of a folder that was used before.
var (
	templates     string // the folder of both templates; TestMain removes it
	withStarter   = template{name: "starter"}
	withoutBrands = template{name: "empty", env: []string{"LETTERHEAD_STARTER=off"}}
)

// folder returns a data folder with the starter index, on which a server was started and stopped.
func folder(t testing.TB) string { return withStarter.copy(t) }

// folderWithoutStarter returns a data folder without brands, on which a server was started and stopped.
func folderWithoutStarter(t testing.TB) string { return withoutBrands.copy(t) }

// template is a data folder that the first test to use it makes.
type template struct {
	name string
	env  []string
	mu   sync.Mutex
	data string
}

func (m *template) copy(t testing.TB) string {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data == "" {
		made := filepath.Join(templates, m.name)
		start(t, made, m.env...).stop()
		m.data = made
	}
	data := t.TempDir()
	testmust.Succeed(t, os.CopyFS(data, os.DirFS(m.data)))
	return data
}
