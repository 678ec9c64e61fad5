package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/internal/testmust"
)

func env(pairs ...string) func(string) (string, bool) {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
}

func TestLoad_NothingSet_DefaultsAreUsable(t *testing.T) {
	c := testmust.Get(Load(env(), nil))(t)
	if c.BaseURL != "http://127.0.0.1:8080" || !c.Starter || c.CrawlTimeout != 8500*time.Millisecond || c.PlanCrawls["growth"] != 60 {
		t.Fatalf("config = %+v, want the defaults", c)
	}
	if !strings.Contains(c.UserAgent, "+http://127.0.0.1:8080/bot") {
		t.Fatalf("user agent %q does not name its owner", c.UserAgent)
	}
	if !strings.HasPrefix(c.AssetsURL(), "file:///") {
		t.Fatalf("assets %q", c.AssetsURL())
	}
}

func TestLoad_ReportsAllInvalidSettings(t *testing.T) {
	_, err := Load(env(
		"LETTERHEAD_LISTEN", "8080",
		"LETTERHEAD_BASE_URL", "ftp://x",
		"LETTERHEAD_EVENTSTORE", "mysql://admin:letmein@somewhere",
		"LETTERHEAD_STRIPE_URL", "stripe.example.com",
		"LETTERHEAD_NOTICES_KEY", "whsk_letmein",
		"LETTERHEAD_SMTP_URL", "http://user:letmein@mail.example.com",
		"LETTERHEAD_MAIL_FROM", "billing",
		"LETTERHEAD_CRAWL_WORKERS", "-1",
		"LETTERHEAD_PLAN_CRAWLS", "free",
		"LETTERHEAD_LOG_LEVEL", "loud",
	), nil)
	if err == nil {
		t.Fatal("bad settings were accepted")
	}
	if strings.Contains(err.Error(), "letmein") {
		t.Errorf("the error contains a password: %v", err)
	}
	for _, name := range []string{"LISTEN", "BASE_URL", "EVENTSTORE", "STRIPE_URL", "NOTICES_KEY", "SMTP_URL", "MAIL_FROM", "CRAWL_WORKERS", "PLAN_CRAWLS", "LOG_LEVEL"} {
		if !strings.Contains(err.Error(), "LETTERHEAD_"+name) {
			t.Errorf("the error does not name LETTERHEAD_%s: %v", name, err)
		}
	}
}

func TestLoad_StripeSecrets_SeparatedByCommas(t *testing.T) {
	c, err := Load(env("LETTERHEAD_STRIPE_WEBHOOK_SECRET", "whsec_old, whsec_new,", "LETTERHEAD_STRIPE_URL", "http://10.0.0.1:12111/"), nil)
	if err != nil || !slices.Equal(c.StripeSecrets, []string{"whsec_old", "whsec_new"}) || c.StripeURL != "http://10.0.0.1:12111" {
		t.Errorf("secrets %q, URL %q, %v", c.StripeSecrets, c.StripeURL, err)
	}
}

// A logo host that no Host header can contain would break every logo URL that the service returns.
func TestLoad_LogoHost_MustBeValidHostHeader(t *testing.T) {
	for setting, want := range map[string]string{
		"logos.example.com": "logos.example.com", "LOGOS.Example.com:8443": "logos.example.com:8443", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"localhost:8081": "localhost:8081", "127.0.0.2": "127.0.0.2", "[::1]:8081": "[::1]:8081", "none": "",
	} {
		if c, err := Load(env("LETTERHEAD_LOGO_HOST", setting), nil); err != nil || c.LogoHost != want {
			t.Errorf("%s: %q, %v", setting, c.LogoHost, err)
		}
	}
	for _, setting := range []string{"bücher.example", "*.example.com", "https://logos.example.com", "logos.example.com/x", "logos example.com", "me@example.com", ":8081", "logos.example.com:x"} {
		if _, err := Load(env("LETTERHEAD_LOGO_HOST", setting), nil); err == nil || !strings.Contains(err.Error(), "LETTERHEAD_LOGO_HOST") {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

func TestLoad_FlagsWin_BaseURLFollowsListen(t *testing.T) {
	c, err := Load(env("LETTERHEAD_LISTEN", "127.0.0.1:1"), map[string]string{"LETTERHEAD_LISTEN": "0.0.0.0:9090"})
	testmust.Succeed(t, err)
	if c.Listen != "0.0.0.0:9090" || c.BaseURL != "http://localhost:9090" {
		t.Fatalf("%s %s", c.Listen, c.BaseURL)
	}
	c, err = Load(env("LETTERHEAD_LISTEN", ":0"), nil)
	testmust.Succeed(t, err)
	if c = c.ListeningOn("[::]:9090"); c.BaseURL != "http://localhost:9090" || !strings.Contains(c.UserAgent, "+http://localhost:9090/") || !strings.HasPrefix(c.BillingURL, c.BaseURL) {
		t.Fatalf("listening on a port that the system chose: %s, %s, %s", c.BaseURL, c.UserAgent, c.BillingURL)
	}
	c, err = Load(env("LETTERHEAD_BASE_URL", "https://brands.example.com/", "LETTERHEAD_LISTEN", "127.0.0.1:0"), nil)
	if c = c.ListeningOn("127.0.0.1:9090"); err != nil || c.BaseURL != "https://brands.example.com" {
		t.Fatalf("%s %v", c.BaseURL, err)
	}
}

var distributed = []string{
	"LETTERHEAD_EVENTSTORE", "esdb://events:2113?tls=false",
	"LETTERHEAD_DATABASE", "postgres://letterhead:secret@database/letterhead",
	"LETTERHEAD_ASSETS", "s3://logos?region=eu-central-1",
	"LETTERHEAD_BASE_URL", "https://brands.example.com",
	"LETTERHEAD_SEARCH", "https://search:9200",
	"LETTERHEAD_BROKER", "kafka://one:9092,two:9092",
}

func TestLoad_SeparateRoles_NeedSharedStores(t *testing.T) {
	c := testmust.Get(Load(env(append(distributed, "LETTERHEAD_ROLES", "api, sweeper,api")...), nil))(t)
	if !c.Shared() || !c.Has(RoleAPI) || !c.Has(RoleSweeper) || c.Has(RoleCrawler) || len(c.Roles) != 2 {
		t.Fatalf("config = %+v, want a shared node with the roles api and sweeper", c)
	}
	if c.Node == "main" || c.Node == "" {
		t.Fatalf("node %q: processes that share a log need separate names", c.Node)
	}
}

func TestDatabaseConnections_LimitThePoolsInTheURL(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://database/letterhead":                  "postgres://database/letterhead?pool_max_conns=12",
		"postgres://one,two/letterhead?sslmode=verify-ca": "postgres://one,two/letterhead?sslmode=verify-ca&pool_max_conns=12",
		"sqlite": Embedded,
	} {
		c, err := Load(env("LETTERHEAD_DATABASE", url, "LETTERHEAD_DATABASE_CONNECTIONS", "12"), nil)
		if err != nil || c.Database != want {
			t.Errorf("the database %s with 12 connections is %s (%v), want %s", url, c.Database, err, want)
		}
	}
	if _, err := Load(env("LETTERHEAD_DATABASE_CONNECTIONS", "3"), nil); err == nil {
		t.Error("3 connections are accepted: they are not enough to read and to write")
	}
}

func TestMetricsListen_DefaultsByShape(t *testing.T) {
	for _, c := range []struct {
		pairs []string
		want  string
	}{
		{nil, MetricsWithAdmin},
		{[]string{"LETTERHEAD_ADMIN_LISTEN", "off"}, MetricsWithAPI},
		{[]string{"LETTERHEAD_LISTEN", "0.0.0.0:8080"}, MetricsWithAPI},
		{[]string{"LETTERHEAD_METRICS_LISTEN", "api"}, MetricsWithAPI},
		{distributed, ""},
		{append(distributed[:len(distributed):len(distributed)], "LETTERHEAD_ADMIN_LISTEN", ":8090"), ""},
		{append(distributed[:len(distributed):len(distributed)], "LETTERHEAD_METRICS_LISTEN", ":9091"), ":9091"},
		{append(distributed[:len(distributed):len(distributed)], "LETTERHEAD_METRICS_LISTEN", "api"), MetricsWithAPI},
		{[]string{"LETTERHEAD_METRICS_LISTEN", "off"}, ""},
	} {
		got, err := Load(env(c.pairs...), nil)
		if err != nil || got.MetricsListen != c.want {
			t.Errorf("%v: %q, %v; want %q", c.pairs, got.MetricsListen, err, c.want)
		}
	}
	if _, err := Load(env("LETTERHEAD_METRICS_LISTEN", "9091"), nil); err == nil {
		t.Error("a port without a colon was accepted")
	}
}

func TestAdminListen_DefaultsByShape(t *testing.T) {
	for _, c := range []struct {
		pairs     []string
		want      string
		isDefault bool
	}{
		{nil, DefaultAdminListen, true},
		{[]string{"LETTERHEAD_LISTEN", "[::1]:8080"}, DefaultAdminListen, true},
		{[]string{"LETTERHEAD_LISTEN", "localhost:8080"}, DefaultAdminListen, true},
		{[]string{"LETTERHEAD_LISTEN", "0.0.0.0:8080"}, "", false},
		{[]string{"LETTERHEAD_LISTEN", ":8080"}, "", false},
		{[]string{"LETTERHEAD_ADMIN_LISTEN", "off"}, "", false},
		{[]string{"LETTERHEAD_ADMIN_LISTEN", "127.0.0.1:8090"}, "127.0.0.1:8090", false},
		{distributed, "", false},
		{append(distributed[:len(distributed):len(distributed)], "LETTERHEAD_ADMIN_LISTEN", "10.0.0.7:8090"), "10.0.0.7:8090", false},
	} {
		got, err := Load(env(c.pairs...), nil)
		if err != nil || got.AdminListen != c.want || got.AdminDefault != c.isDefault {
			t.Errorf("%v: %q, default %t, %v; want %q, %t", c.pairs, got.AdminListen, got.AdminDefault, err, c.want, c.isDefault)
		}
	}
	for _, pair := range [][]string{{"LETTERHEAD_ADMIN_LISTEN", "8090"}, {"LETTERHEAD_ADMIN_HOSTS", "admin.example.com:8090"}, {"LETTERHEAD_ADMIN_HOSTS", "a,,b"}} {
		if _, err := Load(env(pair...), nil); err == nil {
			t.Errorf("%v was accepted", pair)
		}
	}
	for entry, want := range map[string]string{
		"Admin.Example.com": "admin.example.com", "203.0.113.7": "203.0.113.7", "203.0.113.7:8090": "203.0.113.7",
		"::1": "::1", "[::1]": "::1", "[2001:DB8:0::1]:8090": "2001:db8::1", "2001:db8::1": "2001:db8::1",
	} {
		if got, err := Load(env("LETTERHEAD_ADMIN_HOSTS", "a, "+entry), nil); err != nil || !slices.Equal(got.AdminHosts, []string{"a", want}) {
			t.Errorf("%s: %q, %v; want %s", entry, got.AdminHosts, err, want)
		}
	}
	for _, entry := range []string{"[::1", "::1]", "[::1]:x", "[fe80::1%eth0]", "2001:db8::1::2", "http://a", "[a]"} {
		if got, err := Load(env("LETTERHEAD_ADMIN_HOSTS", entry), nil); err == nil {
			t.Errorf("%s was accepted as %q", entry, got.AdminHosts)
		}
	}
	got, err := Load(env("LETTERHEAD_ADMIN_LISTEN", "off", "LETTERHEAD_METRICS_LISTEN", "admin"), nil)
	if err != nil || got.CheckServe() == nil {
		t.Errorf("metrics with an admin API that is off were accepted: %v", err)
	}
}

func TestLoad_NothingSet_HasAllRoles(t *testing.T) {
	c := testmust.Get(Load(env(), nil))(t)
	if c.Shared() || c.Node != "main" || len(c.Roles) != len(AllRoles()) {
		t.Fatalf("config = %+v, want node main with all roles", c)
	}
}

func TestLoad_ContradictingSettings_AreReported(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs []string
		want  []string
	}{
		{"some roles with embedded stores", []string{"LETTERHEAD_ROLES", "api"}, []string{"LETTERHEAD_EVENTSTORE"}},
		{"an unknown role", []string{"LETTERHEAD_ROLES", "api,cook"}, []string{"LETTERHEAD_ROLES", "cook"}},
		{"a shared log without a shared database", []string{"LETTERHEAD_EVENTSTORE", "esdb://events:2113"}, []string{"LETTERHEAD_DATABASE"}},
		{"some roles without a shared broker and search index", append(distributed[:8:8], "LETTERHEAD_ROLES", "crawler"),
			[]string{"LETTERHEAD_BROKER", "LETTERHEAD_SEARCH"}},
		{"a mail server without a sender", []string{"LETTERHEAD_SMTP_URL", "smtps://user:pw@mail.example.com"}, []string{"LETTERHEAD_MAIL_FROM"}},
		{"a sender without a mail server", []string{"LETTERHEAD_MAIL_FROM", "billing@example.com"}, []string{"LETTERHEAD_SMTP_URL"}},
		{"a shared log without a shared bucket", distributed[:4], []string{"LETTERHEAD_ASSETS"}},
	} {
		_, err := Load(env(c.pairs...), nil)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not name %s: %v", c.name, want, err)
			}
		}
	}
}

// Commands such as restore serve no clients and run before there is a base URL.
func TestCheckServe_SharedLog_NeedsBaseURL(t *testing.T) {
	without := slices.Clone(distributed)
	i := slices.Index(without, "LETTERHEAD_BASE_URL")
	c, err := Load(env(slices.Delete(without, i, i+2)...), nil)
	if err != nil {
		t.Errorf("settings of a command: %v", err)
	}
	if err := c.CheckServe(); err == nil || !strings.Contains(err.Error(), "LETTERHEAD_BASE_URL") {
		t.Errorf("a node without a base URL: %v", err)
	}
	if c, err = Load(env(distributed...), nil); err != nil || c.CheckServe() != nil {
		t.Errorf("a node: %v, %v", err, c.CheckServe())
	}
}

func TestLoad_Witnesses_AreFilesAndHTTPSAddresses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "checkpoints.txt")
	c := testmust.Get(Load(env("LETTERHEAD_WITNESSES", file+",https://witness.example.net/brands"), nil))(t)
	if want := []string{file, "https://witness.example.net/brands"}; !slices.Equal(c.Witnesses, want) {
		t.Errorf("witnesses %q, want %q", c.Witnesses, want)
	}
	for _, wrong := range []string{"checkpoints.txt", "http://witness.example.net/", "https://10.0.0.1/", "https://witness.example.net/?key=secret", file + ",", strings.Repeat(file+",", 8) + file} {
		if _, err := Load(env("LETTERHEAD_WITNESSES", wrong), nil); err == nil || !strings.Contains(err.Error(), "want absolute paths, and https URLs") {
			t.Errorf("LETTERHEAD_WITNESSES=%s: %v, want an error that says what it takes", wrong, err)
		}
	}
}

func TestLoad_SharedLog_SingleProcessMayEmbedRest(t *testing.T) {
	testmust.Succeed(t, testmust.Err(Load(env(distributed[:8]...), nil)))
}

func TestNetworks_CommaSeparated_MaskedAndChecked(t *testing.T) {
	c := testmust.Get(Load(env("LETTERHEAD_CRAWL_DENY", "203.0.113.7, 2001:db8::1/32", "LETTERHEAD_TRUSTED_PROXIES", "10.1.2.3/8"), nil))(t)
	if got := fmt.Sprint(c.CrawlDeny, c.TrustedProxies); got != "[203.0.113.7/32 2001:db8::/32] [10.0.0.0/8]" {
		t.Errorf("read as %s", got)
	}
	if _, err := Load(env("LETTERHEAD_CRAWL_DENY", "example.com"), nil); err == nil || !strings.Contains(err.Error(), "LETTERHEAD_CRAWL_DENY") {
		t.Errorf("a host name gave %v", err)
	}
}

// The documentation must show a default for every setting, and only derived ones have a description of it.
func TestSettings_EveryDefaultIsShown(t *testing.T) {
	for _, s := range Settings() {
		if (s.Default == "") == (s.DefaultText == "") {
			t.Errorf("%s has the default %q and the description %q, want one of them", s.Name, s.Default, s.DefaultText)
		}
		if _, err := Load(env(s.Name, s.DefaultText), nil); s.DefaultText != "" && err == nil {
			t.Errorf("%s accepts the description of its default as a value", s.Name)
		}
	}
}

func TestLoad_LogoHosts_AreParsed(t *testing.T) {
	c, err := Load(env("LETTERHEAD_LOGO_HOSTS", "Logos.example.com=Clearbit; icons.example.com:8443=google:lh_pk_x;", "LETTERHEAD_LOGOS_PER_ADDRESS", "0",
		"LETTERHEAD_UNLIMITED_LOGOS", "10.0.0.0/8"), nil)
	want := []LogoHost{{"logos.example.com", "clearbit", ""}, {"icons.example.com:8443", "google", "lh_pk_x"}}
	if err != nil || !slices.Equal(c.LogoHosts, want) || c.LogosPerAddress != 0 || len(c.UnlimitedLogos) != 1 {
		t.Errorf("%v, %d, %v, %v; want %v", c.LogoHosts, c.LogosPerAddress, c.UnlimitedLogos, err, want)
	}
	for _, setting := range []string{"logos.example.com", "logos.example.com:lh_pk_secret", "logos.example.com=", "=clearbit", "a b=clearbit", "https://a.example=clearbit", ";"} {
		if _, err := Load(env("LETTERHEAD_LOGO_HOSTS", setting), nil); err == nil || strings.Contains(err.Error(), "lh_pk_secret") {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

func FuzzLogoHosts(f *testing.F) {
	for _, seed := range []string{"a.example=clearbit", "a.example=google:lh_pk_x;b.example=logodev", "=;:", "[::1]:80=x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, setting string) {
		hosts, err := logoHosts(setting)
		if err != nil {
			return
		}
		for _, h := range hosts {
			if h.Host == "" || h.Profile == "" || h.Host != strings.ToLower(h.Host) {
				t.Errorf("%q is %+v", setting, h)
			}
		}
	})
}
