package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"letterhead/internal/config"
	"letterhead/internal/testmust"
)

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
		if name == "LETTERHEAD_MAIL_FROM" { // from the values, for some roles
			continue
		}
		if !strings.Contains(check, `"`+name+`"`) {
			t.Errorf("the chart sets %s and accepts it in the values too", name)
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
	entries := testmust.Get(os.ReadDir("../../deploy/helm/letterhead/files"))(t)
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
		t.Error("networkPolicy.services.assets.public is missing or true by default: only crawlers and sweepers may have internet access")
	}
	helpers, policies := read(t, "deploy/helm/letterhead/templates/_helpers.tpl"), read(t, "deploy/helm/letterhead/templates/networkpolicies.yaml")
	if !strings.Contains(helpers, `{{- else if $service.public }}`) || strings.Count(policies, `"letterhead.internet"`) != 1 {
		t.Error("the chart does not allow connections to public services, or allows internet access to more roles than crawlers and sweepers")
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
	out, err := renderChart(helm(t), values, sets...)
	if err != nil {
		t.Fatalf("helm: %v\n%s", err, out)
	}
	return out
}

func helm(t *testing.T) string {
	t.Helper()
	program := os.Getenv("HELM")
	if program == "" {
		t.Skip("HELM does not name a helm program: cannot render the chart (make lint-deploy does)")
	}
	return program
}

// renderChart renders the chart with values in the form name=value, and other arguments of helm after them.
func renderChart(helm, values string, sets ...string) (string, error) {
	arguments := []string{"template", "lint", "../../deploy/helm/letterhead", "-f", "../../deploy/helm/letterhead/ci/" + values, "--kube-version", "1.33.0"}
	for i, set := range sets {
		if strings.HasPrefix(set, "--") {
			arguments = append(arguments, sets[i:]...)
			break
		}
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
		"settings.LETTERHEAD_LEDGER_KEY=PRIVATE":                     "take LETTERHEAD_LEDGER_KEY out of settings: put it into the Secret that existingSecret names",
		"roles.api.autoscaling.maxReplicas=30":                       "the nodes may open 745 connections to PostgreSQL, and maxDatabaseConnections is 500: increase max_connections",
		"backup.enabled=true":                                        "backup.to is required",
		"settings.LETTERHEAD_DATABASE=postgres://letterhead@db/name": "take LETTERHEAD_DATABASE out of settings: put it into the Secret that existingSecret names",
	} {
		if out, err := renderChart(os.Getenv("HELM"), "least.yaml", set); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: error %v, output %s; want an error with %q", set, err, out, want)
		}
	}
}

// TestRenderedChart_Secret_RestartsNodesAndMustBeComplete renders the chart beside an API server that has the Secret.
func TestRenderedChart_Secret_RestartsNodesAndMustBeComplete(t *testing.T) {
	data := map[string]string{}
	for name := range given {
		data[name] = "eA==" // x
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secrets := map[string]any{"name": "secrets", "kind": "Secret", "namespaced": true, "verbs": []string{"get"}}
		answer := map[string]any{"kind": "APIResourceList", "groupVersion": "v1", "resources": []any{secrets}}
		if strings.HasSuffix(r.URL.Path, "/secrets/letterhead") {
			name := map[string]string{"name": "letterhead"}
			answer = map[string]any{"kind": "Secret", "apiVersion": "v1", "metadata": name, "data": data}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	render := func() (string, error) {
		return renderChart(helm(t), "full.yaml", "fullnameOverride=x", "--dry-run=server", "--kube-apiserver", server.URL)
	}
	checksums := func() []string {
		out, err := render()
		all := regexp.MustCompile(`checksum/secret: \w+`).FindAllString(out, -1)
		if err != nil || len(all) != len(config.AllRoles()) {
			t.Fatalf("%d checksums of the Secret (%v) in\n%s", len(all), err, out)
		}
		return all
	}
	before := checksums()
	data["LETTERHEAD_LEDGER_KEY"] = "eQ=="
	if after := checksums(); after[0] == before[0] {
		t.Error("another key in the Secret does not restart the nodes")
	}
	delete(data, "LETTERHEAD_STRIPE_KEY")
	const missing = "the Secret letterhead has no LETTERHEAD_STRIPE_KEY: add it"
	if out, err := render(); err == nil || !strings.Contains(out, missing) {
		t.Errorf("a Secret without a key that the values need: error %v, output %s", err, out)
	}
}

// Rule 11.
func TestRenderedChart_Settings_AreAccepted(t *testing.T) {
	type egress struct {
		Ports []struct{ Port int }
		To    []struct {
			IPBlock struct {
				CIDR   string
				Except []string
			} `yaml:"ipBlock"`
		}
	}
	type object struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			PublishNotReadyAddresses bool `yaml:"publishNotReadyAddresses"`
			Egress                   []egress
			Template                 struct {
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
	usual, s3 := objects("billing=null"), objects("billing=null", "networkPolicy.services.assets.public=true")
	bucket := objects("networkPolicy.services.assets.ports={9000}")
	sells, private := objects(), objects("networkPolicy.services.payments.public=false")
	for _, role := range config.AllRoles() {
		role := string(role)
		if got := out(usual, role); got != (role == "crawler" || role == "sweeper") {
			t.Errorf("%s has internet access: %t; only crawlers and sweepers must have it", role, got)
		}
		if got := out(s3, role); got != (role == "crawler" || role == "sweeper" || role == "api") {
			t.Errorf("with a bucket in S3, %s has internet access: %t; only crawlers, sweepers and API nodes must have it", role, got)
		}
		if got := out(sells, role); got != (role == "crawler" || role == "sweeper" || role == "api") {
			t.Errorf("with prices, %s has internet access: %t; only crawlers, sweepers and API nodes must have it", role, got)
		}
		if got := out(private, role); got != (role == "crawler" || role == "sweeper") {
			t.Errorf("with a private processor, %s has internet access: %t; only crawlers and sweepers must have it", role, got)
		}
		reaches := slices.ContainsFunc(bucket["NetworkPolicy lint-letterhead-"+role].Spec.Egress, func(rule egress) bool {
			return slices.ContainsFunc(rule.Ports, func(p struct{ Port int }) bool { return p.Port == 9000 })
		})
		if reaches != (role == "crawler" || role == "sweeper" || role == "api") {
			t.Errorf("%s has access to the bucket: %t; only crawlers, sweepers and API nodes must have it", role, reaches)
		}
		env := map[string]string{}
		for _, e := range usual["Deployment lint-letterhead-"+role].Spec.Template.Spec.Containers[0].Env {
			env[e.Name] = e.Value
		}
		if want := map[string]string{"api": "870MiB", "crawler": "1740MiB", "relay": "435MiB"}[role]; want != "" && env["GOMEMLIMIT"] != want {
			t.Errorf("GOMEMLIMIT of %s is %q, want %s", role, env["GOMEMLIMIT"], want)
		}
	}
	for _, name := range []string{"Service lint-letterhead-admin", "NetworkPolicy lint-letterhead-admin",
		"CronJob lint-letterhead-backup", "CronJob lint-letterhead-restore"} {
		if _, ok := usual[name]; !ok {
			t.Errorf("the chart has no %s", name)
		}
	}
	for name, want := range map[string]bool{"lint-letterhead-api": false, "lint-letterhead-api-any": true} {
		service, ok := usual["Service "+name]
		if !ok || service.Spec.PublishNotReadyAddresses != want {
			t.Errorf("Service %s exists: %t; it publishes nodes that are not ready: %t, want %t", name, ok, service.Spec.PublishNotReadyAddresses, want)
		}
	}
}
