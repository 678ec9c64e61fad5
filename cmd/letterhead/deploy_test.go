package main

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"letterhead/internal/config"
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
	if err != nil {
		t.Fatal(err)
	}
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
var metricDefined = regexp.MustCompile(`(?:(\w*)Opts\{\s*Name:\s*|NewDesc\(|\b(histogram|counters?)\()"(letterhead_\w+)"`)

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
	var series struct {
		Tests []struct {
			Series []struct{ Series string } `yaml:"input_series"`
		}
	}
	readYAML(t, "deploy/prometheus/alerts_test.yml", &series)
	for _, test := range series.Tests {
		for _, s := range test.Series {
			add("alerts_test.yml", s.Series)
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
	known := map[string]bool{}
	for _, s := range config.Settings() {
		known[s.Name] = true
	}
	named := 0
	for _, file := range append(deployed(t, "deploy"), "docker-compose.yml") {
		for _, name := range regexp.MustCompile(`\bLETTERHEAD_[A-Z_]*[A-Z]\b`).FindAllString(read(t, file), -1) {
			named++
			if !known[name] {
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

func TestDeploy_Roles_AreAllDeployed(t *testing.T) {
	var compose composeFile
	readYAML(t, "docker-compose.yml", &compose)
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
		if out != (role == config.RoleCrawler) {
			t.Errorf("docker-compose.yml: %s has internet access: %t; only crawlers must have it", name, out)
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
	var compose composeFile
	readYAML(t, "docker-compose.yml", &compose)
	for _, role := range config.AllRoles() {
		environment := compose.Services[string(role)].Environment
		environment["LETTERHEAD_BASE_URL"] = "http://127.0.0.1:8080" // Docker Compose interpolates it
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
	var compose composeFile
	readYAML(t, "docker-compose.yml", &compose)
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

// The chart must reject values for settings that it sets itself, because other parts of the chart depend on them.
func TestChart_OwnSettingInValues_IsRejected(t *testing.T) {
	_, check, _ := strings.Cut(read(t, "deploy/helm/letterhead/templates/_helpers.tpl"), `define "letterhead.checkSettings"`)
	check, _, _ = strings.Cut(check, "\n{{/*")
	deployments := read(t, "deploy/helm/letterhead/templates/deployments.yaml")
	own := regexp.MustCompile(`LETTERHEAD_[A-Z_]+`).FindAllString(deployments, -1)
	if !strings.Contains(deployments, `{{- include "letterhead.checkSettings" . }}`) || len(own) < 10 {
		t.Fatalf("the chart does not check its settings, or sets only %v", own)
	}
	for _, name := range own {
		if !strings.Contains(check, `"`+name+`"`) {
			t.Errorf("the chart sets %s and accepts it in the values too", name)
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

// A chart cannot read files outside its folder, so it contains copies.
func TestChart_CopiedFiles_EqualOriginals(t *testing.T) {
	if read(t, "deploy/prometheus/alerts.yml") != read(t, "deploy/helm/letterhead/files/alerts.yml") {
		t.Error("deploy/helm/letterhead/files/alerts.yml differs from deploy/prometheus/alerts.yml: copy it again")
	}
	const compose, chart = "deploy/haproxy/haproxy.cfg", "deploy/helm/letterhead/files/haproxy.cfg"
	configs := map[string]string{compose: read(t, compose), chart: chartConfig(t, chartDefaults(t))}
	section := func(name, from, to string) string {
		text := configs[name]
		begin, end := strings.Index(text, from), strings.Index(text, to)
		if begin < 0 || end < begin {
			t.Fatalf("%s has no section from %q to %q", name, from, to)
		}
		return text[begin:end]
	}
	for _, s := range [][2]string{{"global\n", "resolvers "}, {"# For Prometheus", "    default-server check"}} {
		if section(compose, s[0], s[1]) != section(chart, s[0], s[1]) {
			t.Errorf("%s and %s differ in the section from %q", compose, chart, s[0])
		}
	}
}

// Every file of the chart must be read by a template.
func TestChart_Files_AreAllUsed(t *testing.T) {
	var templates strings.Builder
	for _, name := range deployed(t, "deploy/helm/letterhead/templates") {
		templates.WriteString(read(t, name))
	}
	entries, err := os.ReadDir("../../deploy/helm/letterhead/files")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.Contains(templates.String(), `.Files.Get "files/`+e.Name()+`"`) {
			t.Errorf("no template reads files/%s", e.Name())
		}
	}
}

// chartValues contains the tested fields of the chart's values.
type chartValues struct {
	Roles map[string]struct {
		Resources struct {
			Limits struct{ Memory string }
		}
	}
	NetworkPolicy struct {
		DNS []struct {
			IPBlock struct{ CIDR string } `yaml:"ipBlock"`
		} `yaml:"dns"`
		Services map[string]struct {
			Ports  []int
			Peers  []any
			Public *bool
		}
	} `yaml:"networkPolicy"`
}

// The documented installation uses Amazon S3, which has public IP addresses. Its command must allow connections to S3,
// and only from nodes that use the bucket.
func TestDocumentedInstall_Bucket_IsReachable(t *testing.T) {
	for _, name := range []string{"docs/distributed.md", "deploy/helm/letterhead/README.md"} {
		text := read(t, name)
		install := text[strings.Index(text, "helm install brands"):]
		install = install[:strings.Index(install, "```")]
		if !strings.Contains(text, "LETTERHEAD_ASSETS='s3://") || !strings.Contains(install, "--set networkPolicy.services.assets.public=true") {
			t.Errorf("%s installs with a bucket in S3 but does not allow connections to it", name)
		}
	}
	var values chartValues
	readYAML(t, "deploy/helm/letterhead/values.yaml", &values)
	if public := values.NetworkPolicy.Services["assets"].Public; public == nil || *public {
		t.Error("networkPolicy.services.assets.public is missing or true by default: only crawlers may have internet access")
	}
	helpers, policies := read(t, "deploy/helm/letterhead/templates/_helpers.tpl"), read(t, "deploy/helm/letterhead/templates/networkpolicies.yaml")
	if !strings.Contains(helpers, `{{- else if $service.public }}`) || strings.Count(policies, `"letterhead.internet"`) != 1 {
		t.Error("the chart does not allow connections to public services, or allows internet access to more roles than crawlers")
	}
}

func TestChart_NodeLocalDNS_IsAllowed(t *testing.T) {
	var values chartValues
	readYAML(t, "deploy/helm/letterhead/values.yaml", &values)
	for _, peer := range values.NetworkPolicy.DNS {
		if peer.IPBlock.CIDR == "169.254.20.10/32" {
			return
		}
	}
	t.Errorf("the network policies do not allow NodeLocal DNSCache, only %v", values.NetworkPolicy.DNS)
}

func TestChart_MemoryLimit_SetsLowerGOMEMLIMIT(t *testing.T) {
	if !strings.Contains(read(t, "deploy/helm/letterhead/templates/deployments.yaml"), "{name: GOMEMLIMIT, value: {{ . }}}") {
		t.Error("the chart does not set GOMEMLIMIT")
	}
	var values chartValues
	readYAML(t, "deploy/helm/letterhead/values.yaml", &values)
	for role, r := range values.Roles {
		if limit := r.Resources.Limits.Memory; !strings.HasSuffix(limit, "Gi") && !strings.HasSuffix(limit, "Mi") {
			t.Errorf("the memory limit of %s is %q, want a number of Mi or Gi, which the chart can parse", role, limit)
		}
	}
}

// rendered returns the manifests of the chart for a file of values. It skips the test if there is no helm.
func rendered(t *testing.T, values string, sets ...string) string {
	t.Helper()
	helm := os.Getenv("HELM")
	if helm == "" {
		t.Skip("HELM does not name a helm program: cannot render the chart (make lint-deploy does)")
	}
	out, err := renderChart(helm, values, sets...)
	if err != nil {
		t.Fatalf("helm: %v\n%s", err, out)
	}
	return out
}

func renderChart(helm, values string, sets ...string) (string, error) {
	arguments := []string{"template", "lint", "../../deploy/helm/letterhead", "-f", "../../deploy/helm/letterhead/ci/" + values, "--kube-version", "1.33.0"}
	for _, set := range sets {
		arguments = append(arguments, "--set", set)
	}
	out, err := exec.Command(helm, arguments...).CombinedOutput()
	return string(out), err
}

func TestRenderedChart_OwnSettingInValues_FailsWithExplanation(t *testing.T) {
	rendered(t, "least.yaml", "settings.LETTERHEAD_LOG_LEVEL=debug")
	for set, want := range map[string]string{
		"settings.LETTERHEAD_METRICS_LISTEN=:9100":                   "take LETTERHEAD_METRICS_LISTEN out of settings: the chart's probes, Services and network policies depend on its port",
		"extraEnv[0].name=LETTERHEAD_METRICS_LISTEN":                 "take LETTERHEAD_METRICS_LISTEN out of extraEnv: the chart's probes",
		"settings.LETTERHEAD_DATABASE=postgres://letterhead@db/name": "take LETTERHEAD_DATABASE out of settings: put it into the Secret that existingSecret names",
	} {
		if out, err := renderChart(os.Getenv("HELM"), "least.yaml", set); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: error %v, output %s; want an error with %q", set, err, out, want)
		}
	}
}

func TestRenderedChart_Settings_AreAccepted(t *testing.T) {
	type object struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			PublishNotReadyAddresses bool `yaml:"publishNotReadyAddresses"`
			Egress                   []struct {
				Ports []struct{ Port int }
				To    []struct {
					IPBlock struct {
						CIDR   string
						Except []string
					} `yaml:"ipBlock"`
				}
			}
			Template struct {
				Spec struct {
					Containers []struct {
						Env []struct{ Name, Value string }
					}
				}
			}
		}
	}
	objects := func(sets ...string) map[string]object {
		all := map[string]object{}
		decoder := yaml.NewDecoder(strings.NewReader(rendered(t, "full.yaml", sets...)))
		for {
			var o object
			if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
				return all
			} else if err != nil {
				t.Fatal(err)
			}
			all[o.Kind+" "+o.Metadata.Name] = o
		}
	}
	// out reports whether a role has internet access: to port 443 of all but private IP addresses.
	out := func(all map[string]object, role string) bool {
		for _, rule := range all["NetworkPolicy lint-letterhead-"+role].Spec.Egress {
			for _, to := range rule.To {
				if to.IPBlock.CIDR == "0.0.0.0/0" && slices.Contains(to.IPBlock.Except, "10.0.0.0/8") && slices.ContainsFunc(rule.Ports, func(p struct{ Port int }) bool { return p.Port == 443 }) {
					return true
				}
			}
		}
		return false
	}
	usual, s3 := objects(), objects("networkPolicy.services.assets.public=true")
	for _, role := range config.AllRoles() {
		role := string(role)
		if got := out(usual, role); got != (role == "crawler") {
			t.Errorf("%s has internet access: %t; only crawlers must have it", role, got)
		}
		if got := out(s3, role); got != (role == "crawler" || role == "api") {
			t.Errorf("with a bucket in S3, %s has internet access: %t; only crawlers and API nodes must have it", role, got)
		}
		env := map[string]string{}
		for _, e := range usual["Deployment lint-letterhead-"+role].Spec.Template.Spec.Containers[0].Env {
			env[e.Name] = e.Value
		}
		if want := map[string]string{"api": "870MiB", "crawler": "1740MiB", "relay": "435MiB"}[role]; want != "" && env["GOMEMLIMIT"] != want {
			t.Errorf("GOMEMLIMIT of %s is %q, want %s", role, env["GOMEMLIMIT"], want)
		}
	}
	for name, want := range map[string]bool{"lint-letterhead-api": false, "lint-letterhead-api-any": true} {
		service, ok := usual["Service "+name]
		if !ok || service.Spec.PublishNotReadyAddresses != want {
			t.Errorf("Service %s exists: %t; it publishes nodes that are not ready: %t, want %t", name, ok, service.Spec.PublishNotReadyAddresses, want)
		}
	}
}
