//go:build lab

package lab

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// inhabitant is a line of `lab hosts`.
type inhabitant struct {
	hosts []string // the first is its name, the others lead there
	what  string
}

// inhabitants asks the lab itself, with the folders that it serves.
func inhabitants(t testing.TB) []inhabitant {
	t.Helper()
	cmd := exec.Command(os.Getenv("LETTERHEAD_LAB"), "hosts") // LAB_SITES says which folders
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var out []inhabitant
	for line := range strings.Lines(string(text)) {
		host, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		in := inhabitant{hosts: []string{host}, what: strings.TrimSpace(what)}
		if what, also, ok := strings.Cut(in.what, " (also "); ok {
			in.what = what
			in.hosts = append(in.hosts, strings.Split(strings.TrimSuffix(also, ")"), ", ")...)
		}
		out = append(out, in)
	}
	return out
}

// TestInventory_EveryHost_HasRow fails when a host of the lab is in no table and has no label.
func TestInventory_EveryHost_HasRow(t *testing.T) {
	told := map[string]string{} // host to where it is told of
	for host := range builtIn {
		told[host] = "builtIn"
	}
	for host := range sites {
		told[host] = "sites"
	}
	pages := labeled(t)
	for host, label := range pages {
		told[host] = label.Group + "/" + label.ID
	}
	troubles := 0
	there := map[string]bool{}
	for _, in := range inhabitants(t) {
		for _, host := range in.hosts {
			there[host] = true
		}
		if told[in.hosts[0]] == "" {
			t.Errorf("%s (%s) has no row", in.hosts[0], in.what)
		}
		if _, ok := builtIn[in.hosts[0]]; ok {
			troubles++
		}
	}
	if len(there) == 0 {
		t.Fatal("the lab lists no host")
	}
	for host, where := range told {
		if !there[host] {
			t.Errorf("%s has a row in %s and is not in the lab", host, where)
		}
	}
	t.Logf("%d hosts, %d of them built in", len(there), troubles)
}
