package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"letterhead/internal/config"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// given are the secrets that an operator gives to both deployments: keys of the chart's Secret, variables of the
// compose file.
var given = map[string]string{
	"LETTERHEAD_EVENTSTORE":            "esdb://events:2113?tls=false",
	"LETTERHEAD_DATABASE":              "postgres://letterhead:secret@database/letterhead",
	"LETTERHEAD_SEARCH":                "http://search:9200",
	"LETTERHEAD_BROKER":                "kafka://kafka:9092",
	"LETTERHEAD_ASSETS":                "s3://logos?region=eu-central-1",
	"LETTERHEAD_LEDGER_KEY":            "PRIVATE+KEY+example.com+5d35b89b+AUNcSncL/WVdfoahYlVQQWa7qghMnmoSmqlFCIr/ZtgQ",
	"LETTERHEAD_NOTICES_KEY":           "whsk_QhT9vtFZM7AyLpEvgRTkxHHVZIfphadriovSOC/qkz+XuAvqJBq6lwAEzuzFvEJLrprpS6+nZJKOMXxOAImdlQ==",
	"LETTERHEAD_STRIPE_KEY":            "sk_test_1",
	"LETTERHEAD_STRIPE_WEBHOOK_SECRET": "whsec_1",
	"LETTERHEAD_SMTP_URL":              "smtps://letterhead:secret@mail.example.com:465",
	"LETTERHEAD_MAIL_FROM":             "Example <billing@example.com>",
	"LETTERHEAD_BILLING_FILE":          "./billing.yaml",
}

// chartEnvironments returns the environment of each role in the rendered chart, with every feature, and the file of
// prices.
func chartEnvironments(t *testing.T) (all map[string]map[string]string, prices string) {
	t.Helper()
	type object struct {
		Kind     string
		Metadata struct{ Name string }
		Data     map[string]string
		Spec     struct {
			Template struct {
				Spec struct {
					Containers []struct {
						Env []struct {
							Name, Value string
							ValueFrom   struct {
								SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
							} `yaml:"valueFrom"`
						}
					}
				}
			}
		}
	}
	all = map[string]map[string]string{}
	text := rendered(t, "full.yaml")
	for _, secret := range []string{"LETTERHEAD_LEDGER_KEY", "LETTERHEAD_STRIPE_KEY", "LETTERHEAD_DATABASE"} {
		if strings.Contains(text, "name: "+secret+", value:") {
			t.Errorf("the chart has %s in clear text", secret)
		}
	}
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		if err := decoder.Decode(&o); err == io.EOF {
			return all, prices
		} else if err != nil {
			t.Fatal(err)
		}
		if o.Metadata.Name == "lint-letterhead-billing" {
			prices = o.Data["billing.yaml"]
		}
		role, ok := strings.CutPrefix(o.Metadata.Name, "lint-letterhead-")
		if !ok || o.Kind != "Deployment" || role == "proxy" {
			continue
		}
		all[role] = map[string]string{}
		for _, e := range o.Spec.Template.Spec.Containers[0].Env {
			if ref := e.ValueFrom.SecretKeyRef; ref.Key != "" {
				if e.Value = given[ref.Key]; e.Value == "" || ref.Name != "letterhead" {
					t.Errorf("the chart takes %s from the key %s of the Secret %s, which the test does not know",
						e.Name, ref.Key, ref.Name)
				}
			}
			all[role][e.Name] = e.Value
		}
	}
}

// composeEnvironments returns the environment of each role in the compose file, with every feature.
func composeEnvironments(t *testing.T) map[string]map[string]string {
	t.Helper()
	compose, all := readCompose(t, given), map[string]map[string]string{}
	for _, role := range config.AllRoles() {
		all[string(role)] = compose.Services[string(role)].Environment
	}
	return all
}

// Only the nodes that sign, sell and send have the keys for it, and all of them have all of these.
func TestRenderedDeployments_Keys_ReachTheNodesThatNeedThem(t *testing.T) {
	chart, _ := chartEnvironments(t)
	for name, all := range map[string]map[string]map[string]string{
		"the chart":          chart,
		"docker-compose.yml": composeEnvironments(t),
	} {
		for _, role := range config.AllRoles() {
			env := all[string(role)]
			c, err := config.Load(func(name string) (string, bool) { v, ok := env[name]; return v, ok },
				map[string]string{"LETTERHEAD_ROLES": string(role)})
			if err == nil {
				err = c.CheckServe()
			}
			if err != nil {
				t.Errorf("%s: %s does not start: %v", name, role, err)
			}
			acts, api := role == config.RoleAPI || role == config.RoleSweeper, role == config.RoleAPI
			for feature, has := range map[string][2]bool{
				"the ledger key":   {c.LedgerKey != "", acts},
				"the notices key":  {!c.NoticesKey.IsZero(), acts},
				"mail":             {c.SMTP.IsSet(), acts},
				"prices":           {c.BillingFile != "", acts},
				"Stripe":           {c.StripeKey != "" && len(c.StripeSecrets) > 0, api},
				"an admin address": {c.AdminListen != "", api},
				"a limit of pools": {strings.Contains(c.Database, "pool_max_conns="), true},
			} {
				if has[0] != has[1] {
					t.Errorf("%s: %s has %s: %t, want %t", name, role, feature, has[0], has[1])
				}
			}
		}
	}
}

// TestRenderedDeployments_APIEnvironment_Starts serves with the environment of an API node. Only the addresses differ:
// the stores are in a folder, so that the process has all roles.
func TestRenderedDeployments_APIEnvironment_Starts(t *testing.T) {
	chart, prices := chartEnvironments(t)
	for name, env := range map[string]map[string]string{
		"chart":   chart["api"],
		"compose": composeEnvironments(t)["api"],
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			file, data := filepath.Join(folder, "billing.yaml"), filepath.Join(folder, "data")
			testmust.Succeed(t, os.WriteFile(file, []byte(prices), 0o600))
			testmust.Succeed(t, os.Mkdir(data, 0o700))
			resvgtest.Link(t, data)
			env["LETTERHEAD_BILLING_FILE"] = file
			env["LETTERHEAD_DATA"] = data
			for _, here := range []string{"LETTERHEAD_EVENTSTORE", "LETTERHEAD_DATABASE", "LETTERHEAD_SEARCH",
				"LETTERHEAD_BROKER", "LETTERHEAD_ASSETS", "LETTERHEAD_NODE"} {
				delete(env, here)
			}
			for _, listen := range []string{"LETTERHEAD_LISTEN", "LETTERHEAD_METRICS_LISTEN",
				"LETTERHEAD_ADMIN_LISTEN"} {
				env[listen] = freeAddress(t)
			}
			env["LETTERHEAD_STARTER"], env["LETTERHEAD_REFRESH"] = "off", "off" // no crawls
			for _, variable := range os.Environ() {                             // of the tests' own
				if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "LETTERHEAD_") {
					t.Setenv(name, "") // restores it
					os.Unsetenv(name)
				}
			}
			for name, value := range env {
				t.Setenv(name, value)
			}
			ctx, stop := context.WithCancel(t.Context())
			var logs bytes.Buffer
			ended := make(chan int, 1)
			go func() { ended <- (&environment{args: []string{"serve"}, stdout: io.Discard, stderr: &logs}).run(ctx) }()
			status := func(method, listen, path, host string) int {
				request := testmust.Get(http.NewRequestWithContext(ctx, method, "http://"+env[listen]+path, nil))(t)
				request.Host = host
				answer, err := http.DefaultClient.Do(request)
				if err != nil {
					return 0
				}
				answer.Body.Close()
				return answer.StatusCode
			}
			_, ready := testwait.Until(time.Minute, func() bool {
				// the last thing that a first start does
				_, greeted := os.Stat(filepath.Join(data, "operator-sign-in-link"))
				return len(ended) > 0 || greeted == nil &&
					status(http.MethodGet, "LETTERHEAD_METRICS_LISTEN", "/readyz", "") == http.StatusOK
			})
			ready = ready && len(ended) == 0
			if ready {
				if got := status(http.MethodPost, "LETTERHEAD_LISTEN", "/billing/stripe",
					""); got != http.StatusBadRequest {
					t.Errorf("a webhook without a signature gets %d, want 400", got)
				}
				host, _, _ := strings.Cut(env["LETTERHEAD_ADMIN_HOSTS"], ",")
				got := status(http.MethodGet, "LETTERHEAD_ADMIN_LISTEN", "/admin/accounts", host)
				if got != http.StatusUnauthorized {
					t.Errorf("the admin API answers %d to a request without a token for host %q, want 401", got, host)
				}
			}
			stop()
			code := testwait.Receive(t, ended, "the end of serve")
			if code != exitOK || !ready || strings.Contains(logs.String(), "WARN") {
				t.Errorf("the node was ready: %t, and ended with %d, with warnings or errors in\n%s",
					ready, code, logs.String())
			}
			if _, err := os.Stat(filepath.Join(data, "ledger.key")); err == nil {
				t.Error("the node made a ledger key of its own")
			}
		})
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener := testmust.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	return listener.Addr().String()
}

// The pools of all nodes together must fit into the server of the compose file.
func TestCompose_Connections_FitIntoMaxConnections(t *testing.T) {
	compose := readCompose(t, nil)
	sum := 0
	for _, role := range config.AllRoles() {
		service := compose.Services[string(role)]
		pools := testmust.Get(strconv.Atoi(service.Environment["LETTERHEAD_DATABASE_CONNECTIONS"]))(t)
		sum += service.Deploy.Replicas * (pools + 6) // with leaderships, as the setting's help says
	}
	command := compose.Services["postgres"].Command
	if sum == 0 || sum > 300-3 || !slices.Contains(command, "max_connections=300") {
		t.Errorf("the nodes open up to %d connections, and PostgreSQL runs with %v", sum, command)
	}
}
