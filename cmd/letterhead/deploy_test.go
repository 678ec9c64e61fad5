package main

import (
	"encoding/json"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"letterhead/internal/config"
	"letterhead/internal/testmust"
)

// The files in deploy must match the binary: its settings, its roles, its metrics. These tests need no other programs
// and no network; `make lint-deploy` runs the linters.

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, name)), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// deployed returns the names of the files below a folder of the repository.
func deployed(t *testing.T, folder string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(filepath.ToSlash(path), "../../"))
		}
		return err
	})
	testmust.Succeed(t, err)
	return names
}

// alert is a rule of deploy/prometheus/alerts.yml.
type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	readYAML(t, "deploy/prometheus/alerts.yml", &file)
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("deploy/prometheus/alerts.yml contains no alerts")
	}
	return all
}

// dashboard contains the tested fields of a file in deploy/grafana/dashboards.
type dashboard struct {
	UID, Title string
	Panels     []struct {
		Title      string
		Datasource struct{ UID string }
		GridPos    struct{ X, Y, W, H int }
		Targets    []struct{ Expr string }
	}
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	all := map[string]dashboard{}
	for _, name := range deployed(t, "deploy/grafana/dashboards") {
		var d dashboard
		if err := json.Unmarshal([]byte(read(t, name)), &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = d
	}
	if len(all) == 0 {
		t.Fatal("deploy/grafana/dashboards contains no files")
	}
	return all
}

// metricDefined matches the definition of a metric and its kind: either options of prometheus.New…, or a package's own
// constructor.
var metricDefined = regexp.MustCompile(`(?:(\w*)Opts\{\s*Name:\s*|NewDesc\(|\b([Hh]istograms?|[Cc]ounters?|Gauge(?:s|Func)?)\()"(letterhead_\w+)"`)

// metricsOfCode returns the names of the metrics in the code. The value is true for a histogram.
func metricsOfCode(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, folder := range []string{"commands", "internal", "node", "projections", "readapi", "workers"} {
		for _, name := range deployed(t, folder) {
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, m := range metricDefined.FindAllStringSubmatch(read(t, name), -1) {
				found[m[3]] = strings.Contains(strings.ToLower(m[1]+m[2]), "histogram")
			}
		}
	}
	return found
}

func TestAlertsAndDashboards_Metrics_Exist(t *testing.T) {
	known := metricsOfCode(t)
	for _, must := range []string{"letterhead_http_requests_total", "letterhead_projection_set_aside", "letterhead_crawl_duration_seconds"} {
		if _, ok := known[must]; !ok {
			t.Fatalf("the test does not find the metric %s in the code", must)
		}
	}
	used := map[string][]string{}
	add := func(where, expr string) {
		for _, name := range regexp.MustCompile(`\bletterhead_\w+`).FindAllString(expr, -1) {
			used[name] = append(used[name], where)
		}
	}
	for _, a := range alerts(t) {
		add("alert "+a.Alert, a.Expr)
	}
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				add(file+", "+p.Title, target.Expr)
			}
		}
	}
	for _, file := range []string{"alerts_test.yml", "alerts_day_test.yml"} {
		var series struct {
			Tests []struct {
				Series []struct{ Series string } `yaml:"input_series"`
			}
		}
		readYAML(t, "deploy/prometheus/"+file, &series)
		for _, test := range series.Tests {
			for _, s := range test.Series {
				add(file, s.Series)
			}
		}
	}
	for name, where := range used {
		base, part := name, false
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if cut, ok := strings.CutSuffix(name, suffix); ok && known[cut] {
				base, part = cut, true
			}
		}
		histogram, exists := known[base]
		switch {
		case !exists:
			t.Errorf("no code registers %s, which %s uses", name, strings.Join(where, "; "))
		case histogram && !part:
			t.Errorf("%s is a histogram, so only its _bucket, _sum and _count exist (%s)", name, strings.Join(where, "; "))
		}
	}
}

// headings returns the anchors that renderers make of a document's headings.
func headings(t *testing.T, name string) map[string]bool {
	t.Helper()
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^##+ (.+)$`).FindAllStringSubmatch(read(t, name), -1) {
		anchor := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(m[1])), " ", "-")
		anchors[regexp.MustCompile(`[^a-z0-9-]`).ReplaceAllString(anchor, "")] = true
	}
	return anchors
}

func TestAlerts_Each_HasARunbook(t *testing.T) {
	const book = "docs/runbooks.md"
	known := headings(t, book)
	led := map[string]bool{}
	seen := map[string]bool{}
	for _, a := range alerts(t) {
		if seen[a.Alert] {
			t.Errorf("alert %s is defined twice", a.Alert)
		}
		seen[a.Alert] = true
		file, anchor, _ := strings.Cut(a.Annotations["runbook_url"], "#")
		if file != book || !known[anchor] {
			t.Errorf("%s links to %q, which is not a section of %s", a.Alert, a.Annotations["runbook_url"], book)
		}
		led[anchor] = true
		if a.Annotations["summary"] == "" || a.Labels["severity"] != "warning" && a.Labels["severity"] != "critical" {
			t.Errorf("%s lacks a summary, or its severity is neither warning nor critical", a.Alert)
		}
	}
	for anchor := range known {
		if !led[anchor] {
			t.Errorf("no alert links to section %s", anchor)
		}
	}
	for _, m := range regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(read(t, book), -1) {
		if !known[m[1]] {
			t.Errorf("%s links to its section %s, which does not exist", book, m[1])
		}
	}
}

func TestDeploy_Settings_Exist(t *testing.T) {
	named := 0
	for _, file := range append(deployed(t, "deploy"), "docker-compose.yml") {
		for _, name := range regexp.MustCompile(`\bLETTERHEAD_[A-Z_]*[A-Z]\b`).FindAllString(read(t, file), -1) {
			named++
			if len(config.UnknownSettings([]string{name + "=x"})) > 0 {
				t.Errorf("%s names %s, which is not a setting", file, name)
			}
		}
	}
	if named == 0 {
		t.Error("no file in deploy names a setting")
	}
}

// composeFile contains the tested fields of docker-compose.yml.
type composeFile struct {
	Services map[string]struct {
		Image       string
		Command     []string
		Networks    []string
		Environment map[string]string
		ReadOnly    bool `yaml:"read_only"`
		Healthcheck struct{ Test []string }
		Deploy      struct{ Replicas int }
	}
	Networks map[string]struct{ Internal bool }
}

// interpolated matches a variable in docker-compose.yml: ${NAME:-what replaces an empty one}, or ${NAME:+what replaces
// a set one}.
var interpolated = regexp.MustCompile(`\$\{(\w+):([-+])([^}]*)\}`)

// readCompose reads docker-compose.yml as Docker Compose does with some variables.
func readCompose(t *testing.T, variables map[string]string) composeFile {
	t.Helper()
	text := interpolated.ReplaceAllStringFunc(read(t, "docker-compose.yml"), func(whole string) string {
		m := interpolated.FindStringSubmatch(whole)
		if value := variables[m[1]]; (value != "") == (m[2] == "-") {
			return value
		}
		return m[3]
	})
	var compose composeFile
	if err := yaml.Unmarshal([]byte(text), &compose); err != nil {
		t.Fatalf("docker-compose.yml: %v", err)
	}
	return compose
}

func TestDeploy_Roles_AreAllDeployed(t *testing.T) {
	compose := readCompose(t, nil)
	var values struct {
		Roles map[string]struct{ Replicas int }
	}
	readYAML(t, "deploy/helm/letterhead/values.yaml", &values)
	policies := read(t, "deploy/helm/letterhead/templates/networkpolicies.yaml")
	scraped := read(t, "deploy/prometheus/prometheus.yml")
	for _, role := range config.AllRoles() {
		name := string(role)
		service, ok := compose.Services[name]
		if !ok || !slices.Equal(service.Command, []string{"serve", "--roles", name}) {
			t.Errorf("docker-compose.yml: the command of service %s is %v, want serve --roles %s", name, service.Command, name)
		}
		out := slices.ContainsFunc(service.Networks, func(n string) bool { return !compose.Networks[n].Internal })
		if out != (role == config.RoleCrawler || role == config.RoleSweeper) {
			t.Errorf("docker-compose.yml: %s has internet access: %t; only crawlers and sweepers must have it", name, out)
		}
		if !service.ReadOnly {
			t.Errorf("docker-compose.yml: the root file system of %s is writable", name)
		}
		for where, replicas := range map[string]int{"the chart": values.Roles[name].Replicas, "docker-compose.yml": service.Deploy.Replicas} {
			if replicas < 2 {
				t.Errorf("%s has %d replicas of %s, want at least 2", where, replicas, name)
			}
		}
		if !strings.Contains(policies, `"`+name+`" (list "eventstore"`) {
			t.Errorf("the chart's network policies do not list the services of %s", name)
		}
		if !regexp.MustCompile(`names: \[.*\b` + name + `\b.*\]`).MatchString(scraped) {
			t.Errorf("Prometheus does not scrape %s", name)
		}
	}
	if len(values.Roles) != len(config.AllRoles()) {
		t.Errorf("the chart has roles %v, the binary %v", slices.Sorted(maps.Keys(values.Roles)), config.AllRoles())
	}
	if deployments := read(t, "deploy/helm/letterhead/templates/deployments.yaml"); !strings.Contains(deployments, "range $role, $r := .Values.roles") ||
		!strings.Contains(deployments, "args: [serve, --roles, {{ $role }}]") {
		t.Error("the chart does not make a Deployment of each role")
	}
}

// The binary must accept the settings in docker-compose.yml, for every role.
func TestCompose_Settings_AreAccepted(t *testing.T) {
	compose := readCompose(t, nil)
	for _, role := range config.AllRoles() {
		environment := compose.Services[string(role)].Environment
		_, err := config.Load(func(name string) (string, bool) {
			v, ok := environment[name]
			return v, ok
		}, map[string]string{"LETTERHEAD_ROLES": string(role)})
		if err != nil {
			t.Errorf("role %s: %v", role, err)
		}
	}
	for _, name := range []string{"eventstore", "kafka", "postgres", "elasticsearch", "prometheus", "grafana"} {
		if len(compose.Services[name].Healthcheck.Test) == 0 {
			t.Errorf("docker-compose.yml has no health check of %s", name)
		}
	}
	for name, service := range compose.Services {
		if _, tag, ok := strings.Cut(service.Image[strings.LastIndexByte(service.Image, '/')+1:], ":"); !ok || tag == "latest" {
			t.Errorf("the image %s of %s has no version tag", service.Image, name)
		}
	}
}

// Deployed nodes must serve /metrics on a port that only Prometheus can reach.
func TestDeploy_Metrics_AreNotOnPublicPort(t *testing.T) {
	compose := readCompose(t, nil)
	for _, role := range config.AllRoles() {
		if got := compose.Services[string(role)].Environment["LETTERHEAD_METRICS_LISTEN"]; got != ":9091" {
			t.Errorf("docker-compose.yml: LETTERHEAD_METRICS_LISTEN of %s = %q, want :9091", role, got)
		}
	}
	for file, want := range map[string]string{
		"deploy/prometheus/prometheus.yml":                      "port: 9091",
		"deploy/helm/letterhead/templates/deployments.yaml":     `{name: LETTERHEAD_METRICS_LISTEN, value: ":9091"}`,
		"deploy/helm/letterhead/templates/services.yaml":        "{name: metrics, port: 9091, targetPort: metrics}",
		"deploy/helm/letterhead/templates/servicemonitor.yaml":  "port: metrics",
		"deploy/helm/letterhead/templates/networkpolicies.yaml": "port: 9091",
	} {
		if !strings.Contains(read(t, file), want) {
			t.Errorf("%s does not contain %q", file, want)
		}
	}
	for _, file := range []string{"deploy/haproxy/haproxy.cfg", "deploy/helm/letterhead/files/haproxy.cfg", "deploy/helm/letterhead/templates/ingress.yaml"} {
		text := read(t, file)
		_, clients, _ := strings.Cut(text, "\nfrontend letterhead\n")
		if regexp.MustCompile(`server.*:9091|number: 9091`).MatchString(text) || strings.Contains(clients, "prometheus-exporter") {
			t.Errorf("%s exposes metrics to clients", file)
		}
	}
}

func TestDashboards_All_AreProvisioned(t *testing.T) {
	var sources struct {
		Datasources []struct{ UID string }
	}
	readYAML(t, "deploy/grafana/provisioning/datasources/prometheus.yml", &sources)
	if len(sources.Datasources) != 1 {
		t.Fatalf("%d data sources, want 1", len(sources.Datasources))
	}
	uids := map[string]string{}
	for file, d := range dashboards(t) {
		if other, twice := uids[d.UID]; twice || d.UID == "" || d.Title == "" {
			t.Errorf("%s has uid %q and title %q; %q has the same uid, or one is empty", file, d.UID, d.Title, other)
		}
		uids[d.UID] = file
		if strings.Contains(read(t, file), "://") {
			t.Errorf("%s contains a URL", file)
		}
		for _, p := range d.Panels {
			if p.Datasource.UID != sources.Datasources[0].UID {
				t.Errorf("%s, %s: data source %q is not provisioned", file, p.Title, p.Datasource.UID)
			}
			if len(p.Targets) == 0 || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s, %s has no query or is outside the grid", file, p.Title)
			}
		}
	}
}
