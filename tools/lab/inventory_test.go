//go:build lab

package lab

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// labHost is a line of the output of `lab hosts`.
type labHost struct {
	hosts       []string // the name, then its aliases
	description string
}

// labHosts lists the hosts of the lab.
func labHosts(t testing.TB) []labHost {
	t.Helper()
	cmd := exec.Command(os.Getenv("LETTERHEAD_LAB"), "hosts") // reads the folders in LAB_SITES
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var out []labHost
	for line := range strings.Lines(string(text)) {
		host, description, _ := strings.Cut(strings.TrimSpace(line), " ")
		in := labHost{hosts: []string{host}, description: strings.TrimSpace(description)}
		if description, also, ok := strings.Cut(in.description, " (also "); ok {
			in.description = description
			in.hosts = append(in.hosts, strings.Split(strings.TrimSuffix(also, ")"), ", ")...)
		}
		out = append(out, in)
	}
	return out
}

// TestInventory_EveryHost_HasRow fails if a host of the lab has neither a row nor a label, or a row has no host.
func TestInventory_EveryHost_HasRow(t *testing.T) {
	source := map[string]string{} // where a host is described
	for host := range builtIn {
		source[host] = "builtIn"
	}
	for host := range sites {
		source[host] = "sites"
	}
	pages := labeled(t)
	for host, label := range pages {
		source[host] = label.Group + "/" + label.ID
	}
	troubles := 0
	inLab := map[string]bool{}
	for _, in := range labHosts(t) {
		for _, host := range in.hosts {
			inLab[host] = true
		}
		if source[in.hosts[0]] == "" {
			t.Errorf("%s (%s) has neither a row nor a label", in.hosts[0], in.description)
		}
		if _, ok := builtIn[in.hosts[0]]; ok {
			troubles++
		}
	}
	if len(inLab) == 0 {
		t.Fatal("the lab lists no hosts")
	}
	for host, where := range source {
		if !inLab[host] {
			t.Errorf("%s has a row in %s but is not in the lab", host, where)
		}
	}
	t.Logf("%d hosts, %d of them built in", len(inLab), troubles)
}
