// Package config reads the settings of a node from its environment. Every setting has a name, a default and a
// description of one sentence; `letterhead serve --help` and docs/operations.md print this table.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"letterhead/internal/email"
	"letterhead/internal/eventlog/stores"
	"letterhead/internal/imaging"
	"letterhead/internal/webhook"
)

// Config is the configuration of a node. The zero value is not usable; see Load.
type Config struct {
	Data   string // folder of all embedded stores
	Listen string // host:port
	// MetricsListen is the host:port that serves only /metrics; MetricsWithAPI to serve it on Listen; MetricsWithAdmin
	// to serve it on AdminListen; "" = not served.
	MetricsListen string
	// AdminListen is the host:port of the admin API; "" = not served. If AdminDefault is true it was not set, and any
	// free port will do.
	AdminListen  string
	AdminDefault bool
	AdminHosts   []string // names of the admin API in requests, in addition to localhost and addresses
	Pprof        bool     // also serve profiles of the process at MetricsListen
	BaseURL      string   // URL of this service for clients, without a trailing slash
	baseURLSet   bool     // configured, not derived from Listen
	BillingURL   string
	Name         string // of the service, on its pages
	Accent       string // color of its pages, a hexadecimal triplet; "" = their own
	Contact      string // URL of who opens accounts; "" = none

	EventStore string // Embedded, or the connection string of EventStoreDB
	Database   string // Embedded, or the URL of PostgreSQL
	Search     string // Embedded, or the URL of Elasticsearch
	Broker     string // Embedded, or the URL of Kafka
	Assets     string // URL of a gocloud.dev bucket; empty = file:// in the data folder

	StripeSecrets []string // of webhooks
	StripeKey     string
	StripeURL     string
	BillingFile   string // plans and packs; "" = none

	Witnesses []string // files and https URLs that get each checkpoint of the ledger
	LedgerKey string   // private key that signs checkpoints of the ledger; "" = one in the data folder

	NoticesKey webhook.Key   // signs webhooks of notices; zero = one in the data folder
	SMTP       email.Server  // zero = no e-mail
	MailFrom   *mail.Address // set if SMTP is

	Roles []Role // roles of this process
	Node  string // name of this node, for its streams
	// ClockSkew is added to this machine's clock, before the database corrects it.
	ClockSkew time.Duration

	LogoHost        string         // host that serves logos at its root; "" = none
	LogoHosts       []LogoHost     // further ones, in the forms of other services
	LogosPerAddress int            // a minute, at those forms; 0 = no limit
	UnlimitedLogos  []netip.Prefix // addresses without that limit
	KeylessCrawls   int            // in a day, for requests without a key in those forms
	LogoTimeout     time.Duration  // how long a logo waits for a live crawl
	LogoCacheBytes  int64          // memory cache for drawn logos
	TrustedProxies  []netip.Prefix // proxies whose X-Forwarded-For is trusted

	BooksMetrics    bool          // export metrics of the books
	Starter         bool          // load the embedded starter index
	Refresh         bool          // crawl brands periodically in the background
	CrawlTimeout    time.Duration // of a crawl that a request waits for
	BatchTimeout    time.Duration // time during which a batch starts items
	CrawlWorkers    int           // concurrent live crawls
	RefreshWorkers  int           // concurrent background crawls
	WarmPerMinute   int           // background crawls for the lists of operators
	CrawlsPerMinute int           // limit of the whole service
	PlanCrawls      map[string]int
	BrandCacheBytes int64
	ScrubPercent    int // share of one core for comparing the read models with the log
	UserAgent       string
	CrawlDeny       []netip.Prefix // public networks that crawls must not connect to
	Renderer        string         // "off", or "chromium" for pages that are empty without their scripts

	LogLevel  string // debug, info, warn, error
	LogFormat string // text, json
}

// maxName limits the name of the service, in characters: it shares a line with the navigation.
const maxName = 40

// Values of MetricsListen.
const (
	MetricsWithAPI   = "api"   // /metrics is served on Listen
	MetricsWithAdmin = "admin" // /metrics is served on AdminListen, to callers with a token
)

// DefaultAdminListen is the AdminListen of a single process that serves clients on a loopback address.
const DefaultAdminListen = "127.0.0.1:8090"

// isLoopback reports whether only this machine can connect to an address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// IsLocal reports whether clients are on this machine.
func (c Config) IsLocal() bool {
	u, err := url.Parse(c.BaseURL)
	return err == nil && isLoopback(net.JoinHostPort(u.Hostname(), "0"))
}

// Setting is one row of the table of settings.
type Setting struct {
	Name    string
	Default string // "" if the default depends on other settings
	// DefaultText describes a default that depends on other settings.
	DefaultText string
	Help        string
	apply       func(*Config, string) error // gets "" where the default depends on other settings
}

// ShownDefault returns the default as documented.
func (s Setting) ShownDefault() string { return cmp.Or(s.Default, s.DefaultText) }

// Settings returns the table, in the documented order.
func Settings() []Setting {
	return []Setting{
		{"LETTERHEAD_DATA", "./data", "", "folder for all data that is not kept in other services",
			set(func(c *Config) *string { return &c.Data }, filepath.Abs)},
		{"LETTERHEAD_LISTEN", "127.0.0.1:8080", "", "address to serve HTTP on", set(func(c *Config) *string { return &c.Listen }, func(v string) (string, error) {
			return hostPort(v, "is not host:port")
		})},
		{
			"LETTERHEAD_BASE_URL", "", "http:// + listen",
			"URL under which clients reach this service; used in asset, docs and logo URLs",
			func(c *Config, v string) (err error) {
				if c.BaseURL = baseURLOf(c.Listen); v != "" {
					c.baseURLSet = true
					c.BaseURL, err = webURL(v)
				}
				return err
			},
		},
		{"LETTERHEAD_BILLING_URL", "", "base URL + /dashboard/credits",
			"URL for adding credits, in 402 and quota answers", func(c *Config, v string) error {
				c.BillingURL = cmp.Or(v, c.BaseURL+"/dashboard/credits")
				return nil
			}},
		{"LETTERHEAD_NAME", "Letterhead", "", "name of this service on its pages, at most 40 characters",
			func(c *Config, v string) error {
				if c.Name = strings.TrimSpace(v); c.Name == "" || utf8.RuneCountInString(c.Name) > maxName {
					return fmt.Errorf("it must have 1 to %d characters", maxName)
				}
				return nil
			}},
		{"LETTERHEAD_ACCENT", "none", "", "color of links and buttons on its pages, such as #0b57d0; darkened or lightened where it could not be read",
			set(func(c *Config) *string { return &c.Accent }, func(v string) (string, error) {
				color, alpha, ok := imaging.ParseColor(v)
				if !ok || alpha < 1 {
					return "", fmt.Errorf("%q is not a color such as #0b57d0", v)
				}
				return color.Hex(), nil
			})},
		{"LETTERHEAD_CONTACT", "none", "", "e-mail address or URL of a page at which visitors get an account; the first page links to it", set(func(c *Config) *string { return &c.Contact }, contact)},
		{
			"LETTERHEAD_EVENTSTORE", "sqlite", "",
			"event store: sqlite (a file in the data folder), or an EventStoreDB as esdb:// or esdb+discover://",
			set(func(c *Config) *string { return &c.EventStore }, embeddedOr("sqlite", stores.Schemes()...)),
		},
		{
			"LETTERHEAD_DATABASE", "sqlite", "",
			"database of the read models: sqlite (a file in the data folder), or a PostgreSQL as postgres://",
			set(func(c *Config) *string { return &c.Database }, embeddedOr("sqlite", "postgres", "postgresql")),
		},
		{
			"LETTERHEAD_DATABASE_CONNECTIONS", "", "8, and 2 for each processor (4 to 32)",
			"limit of this process's pools of connections to PostgreSQL, at least 4; up to 6 more connections hold its name and its leaderships", databaseConnections,
		},
		{"LETTERHEAD_SEARCH", "bleve", "",
			"search index: bleve (a folder in the data folder), or an Elasticsearch as http:// or https://, with the settings alias, replicas, api_key and ca (docs/distributed.md)",
			set(func(c *Config) *string { return &c.Search }, embeddedOr("bleve", "http", "https"))},
		{"LETTERHEAD_BROKER", "inprocess", "", "broker of crawl work: inprocess, or a Kafka as kafka://, with the settings tls, sasl and others (docs/distributed.md)",
			set(func(c *Config) *string { return &c.Broker }, embeddedOr("inprocess", "kafka"))},
		{
			"LETTERHEAD_ASSETS", "", "file:// + data folder + /assets",
			"bucket for logos and images, as a file:/// or s3:// URL", func(c *Config, v string) error {
				if v != "" && !strings.HasPrefix(v, "file:///") && !strings.HasPrefix(v, "s3://") {
					return errors.New("a bucket is a file:/// or an s3:// URL")
				}
				c.Assets = v
				return nil
			},
		},
		{"LETTERHEAD_LEDGER_KEY", "", "a key in the data folder", "private key that signs checkpoints of the ledger, from \"letterhead ledger key --new\"; nodes that share an event store need it", func(c *Config, v string) error {
			if v != "" {
				if _, err := note.NewSigner(v); err != nil {
					return errors.New("it is not a private key like PRIVATE+KEY+…")
				}
			}
			c.LedgerKey = v
			return nil
		}},
		{"LETTERHEAD_WITNESSES", "none", "", "comma-separated witnesses that get each checkpoint of the ledger: files on another disk, as absolute paths, and https URLs (docs/proofs.md)", set(func(c *Config) *[]string { return &c.Witnesses }, witnesses)},
		{
			"LETTERHEAD_STRIPE_WEBHOOK_SECRET", "", "no webhooks",
			"signing secret of Stripe's webhook endpoint; during a rotation several, separated by commas",
			func(c *Config, v string) error {
				for secret := range strings.SplitSeq(v, ",") {
					if secret = strings.TrimSpace(secret); secret != "" {
						c.StripeSecrets = append(c.StripeSecrets, secret)
					}
				}
				return nil
			},
		},
		{"LETTERHEAD_STRIPE_KEY", "", "no checkout",
			"secret key of Stripe's API, for sessions of checkout and of the customer portal",
			set(func(c *Config) *string { return &c.StripeKey }, asIs)},
		{
			"LETTERHEAD_STRIPE_URL", "https://api.stripe.com", "", "address of Stripe's API; it may be private",
			set(func(c *Config) *string { return &c.StripeURL }, webURL),
		},
		{"LETTERHEAD_BILLING_FILE", "", "no plans and packs",
			"YAML file with the prices of plans and packs of credits (docs/billing.md)",
			set(func(c *Config) *string { return &c.BillingFile }, asIs)},
		{"LETTERHEAD_NOTICES_KEY", "", "a key in the data folder", "private key that signs webhooks of notices, from \"letterhead account notices --new-key\"; nodes that share an event store need it for webhooks", set(func(c *Config) *webhook.Key { return &c.NoticesKey }, webhook.ParseKey)},
		{"LETTERHEAD_SMTP_URL", "", "no e-mail", "mail server for notices and sign-in links: smtp://host:port (STARTTLS, port 587) or smtps://user:password@host:port (port 465); it may be private. TLS is required except on loopback and with ?tls=off", set(func(c *Config) *email.Server { return &c.SMTP }, email.ParseURL)},
		{"LETTERHEAD_MAIL_FROM", "", "no e-mail", "sender of e-mail, such as Example <billing@example.com>",
			set(func(c *Config) **mail.Address { return &c.MailFrom }, email.ParseSender)},
		{
			"LETTERHEAD_ROLES", "all", "",
			"roles of this process: all, or some of api, crawler, projector, relay, sweeper, refresher",
			set(func(c *Config) *[]Role { return &c.Roles }, parseRoles),
		},
		{
			"LETTERHEAD_NODE", "", "main; the host name with a shared event store",
			"name of this node (letters, digits, dashes), unique per process; it names the node's usage stream",
			func(c *Config, v string) error {
				if v == "" {
					v = "main"
					if c.Shared() {
						v = hostName()
					}
				}
				if len(v) > maxNode || strings.Trim(v, nodeLetters) != "" {
					return fmt.Errorf("%q is not a name of 1 to 63 letters, digits and dashes", v)
				}
				c.Node = v
				return nil
			},
		},
		{
			"LETTERHEAD_ADMIN_LISTEN", "",
			"127.0.0.1:8090, or another free port, for a single process whose LETTERHEAD_LISTEN is loopback; else off",
			"address to serve the admin API on: host:port, or off", func(c *Config, v string) (err error) {
				switch {
				case v == "" && !c.Shared() && isLoopback(c.Listen):
					c.AdminListen, c.AdminDefault = DefaultAdminListen, true
				case v != "" && v != "off":
					c.AdminListen, err = hostPort(v, "is neither host:port nor off")
				}
				return err
			},
		},
		{"LETTERHEAD_ADMIN_HOSTS", "none", "", "comma-separated hosts by which operators reach the admin API: names, such as the name of a proxy, and IP addresses, such as one that is translated; localhost and the address on which a request arrives need no entry", set(func(c *Config) *[]string { return &c.AdminHosts }, list(func(host string) (string, error) {
			host = strings.ToLower(host)
			if ip, ok := addressIn(host); ok {
				return ip.String(), nil
			}
			if host == "" || strings.Trim(host, hostBytes) != "" || strings.ContainsAny(host, ":[]") {
				return "", fmt.Errorf("%q is neither a host name without a port nor an IP address", host)
			}
			return host, nil
		}))},
		{
			"LETTERHEAD_METRICS_LISTEN", "",
			"with the admin API, or with the API if there is none; off with a shared event store",
			"address to serve /metrics on: host:port (with /healthz and /readyz), admin for LETTERHEAD_ADMIN_LISTEN (with a token), api for LETTERHEAD_LISTEN (public), or off",
			func(c *Config, v string) (err error) {
				switch {
				case v == "" && !c.Shared() && c.AdminListen != "", v == MetricsWithAdmin:
					c.MetricsListen = MetricsWithAdmin
				case v == "" && !c.Shared(), v == MetricsWithAPI:
					c.MetricsListen = MetricsWithAPI
				case v != "" && v != "off":
					c.MetricsListen, err = hostPort(v, "is neither host:port nor admin nor api nor off")
				}
				return err
			},
		},
		{"LETTERHEAD_PPROF", "off", "",
			"serve profiles of the process under /debug/pprof/ at LETTERHEAD_METRICS_LISTEN, which must be a separate address: on or off",
			set(func(c *Config) *bool { return &c.Pprof }, onOff)},
		{"LETTERHEAD_BOOKS_METRICS", "off", "", "export metrics of revenue, credits and accounts (for the dashboard business); at the start, one node with the role sweeper reads the events of all accounts for them: on or off", set(func(c *Config) *bool { return &c.BooksMetrics }, onOff)},
		{"LETTERHEAD_STARTER", "on", "",
			"load the embedded starter index at startup if it is missing or from an older release: on or off",
			set(func(c *Config) *bool { return &c.Starter }, onOff)},
		{"LETTERHEAD_REFRESH", "on", "",
			"crawl in the background: due records, and imported brands after their first look-up: on or off",
			set(func(c *Config) *bool { return &c.Refresh }, onOff)},
		{"LETTERHEAD_CRAWL_TIMEOUT", "8.5s", "", "how long a look-up waits for a live crawl",
			set(func(c *Config) *time.Duration { return &c.CrawlTimeout }, duration(time.Second, 60*time.Second))},
		{"LETTERHEAD_BATCH_TIMEOUT", "25s", "", "how long a batch starts items; items in progress still finish",
			set(func(c *Config) *time.Duration { return &c.BatchTimeout }, duration(time.Second, 40*time.Second))},
		{"LETTERHEAD_CRAWL_WORKERS", "32", "", "concurrent live crawls",
			set(func(c *Config) *int { return &c.CrawlWorkers }, number(1, 1000))},
		{"LETTERHEAD_REFRESH_WORKERS", "4", "", "concurrent background crawls",
			set(func(c *Config) *int { return &c.RefreshWorkers }, number(1, 1000))},
		{"LETTERHEAD_WARM_PER_MINUTE", "120", "",
			"maximum number of background crawls per minute for the lists of operators (letterhead warm)",
			set(func(c *Config) *int { return &c.WarmPerMinute }, number(1, 6000))},
		{"LETTERHEAD_CRAWLS_PER_MINUTE", "240", "", "maximum number of live crawls per minute, for the whole service",
			set(func(c *Config) *int { return &c.CrawlsPerMinute }, number(1, 1_000_000))},
		{
			"LETTERHEAD_PLAN_CRAWLS", "free=10,starter=30,growth=60,custom=300", "", "live crawls per minute, by plan",
			func(c *Config, v string) error {
				c.PlanCrawls = map[string]int{}
				for part := range strings.SplitSeq(v, ",") {
					name, n, ok := strings.Cut(strings.TrimSpace(part), "=")
					count, err := strconv.Atoi(n)
					if !ok || err != nil || count < 0 {
						return fmt.Errorf("%q is not plan=number", part)
					}
					c.PlanCrawls[name] = count
				}
				return nil
			},
		},
		{"LETTERHEAD_BRAND_CACHE_BYTES", "67108864", "", "memory for rendered brand records",
			set(func(c *Config) *int64 { return &c.BrandCacheBytes }, byteCount)},
		{"LETTERHEAD_SCRUB_PERCENT", "1", "",
			"share of one core, 1 to 50 percent, for comparing the read models with the event log while the server runs",
			set(func(c *Config) *int { return &c.ScrubPercent }, number(1, 50))},
		{
			"LETTERHEAD_LOGO_HOST", "none", "",
			"second host name that serves logos at its root: https://logos.example.com/acme.com",
			set(func(c *Config) *string { return &c.LogoHost }, hostWithPort),
		},
		{
			"LETTERHEAD_LOGO_HOSTS", "none", "",
			"hosts that serve logos in the forms of other services, host=profile[:publishable key], with semicolons between them: logos.example.com=clearbit;icons.example.com=google:lh_pk_…",
			set(func(c *Config) *[]LogoHost { return &c.LogoHosts }, logoHosts),
		},
		{"LETTERHEAD_LOGOS_PER_ADDRESS", "300", "",
			"logos in a minute of an address without a key, in the forms of other services; 0 = no limit",
			set(func(c *Config) *int { return &c.LogosPerAddress }, number(0, 1_000_000))},
		{"LETTERHEAD_UNLIMITED_LOGOS", "none", "",
			"comma-separated addresses or networks without LETTERHEAD_LOGOS_PER_ADDRESS, such as those of your own applications",
			set(func(c *Config) *[]netip.Prefix { return &c.UnlimitedLogos }, list(parseNetwork))},
		{
			"LETTERHEAD_KEYLESS_CRAWLS", "0", "",
			"crawls of unknown domains in a day (UTC) for all requests without a key together, in the forms of other services, at each node at most a quarter of them, but at least one, for one address, where those behind a proxy not in LETTERHEAD_TRUSTED_PROXIES count as one; 0 = none",
			set(func(c *Config) *int { return &c.KeylessCrawls }, number(0, 1_000_000)),
		},
		{
			"LETTERHEAD_LOGO_TIMEOUT", "4s", "",
			"how long a logo request with a key waits for the crawl of a new domain before it gets the fallback",
			set(func(c *Config) *time.Duration { return &c.LogoTimeout }, duration(100*time.Millisecond, 60*time.Second)),
		},
		{"LETTERHEAD_LOGO_CACHE_BYTES", "67108864", "", "memory for drawn logos",
			set(func(c *Config) *int64 { return &c.LogoCacheBytes }, byteCount)},
		{
			"LETTERHEAD_TRUSTED_PROXIES", "none", "",
			"comma-separated addresses or networks of proxies whose X-Forwarded-For identifies the client of a logo request, of a search on the first page, of a brand's page or of a failed sign-in, at LETTERHEAD_ADMIN_LISTEN too",
			set(func(c *Config) *[]netip.Prefix { return &c.TrustedProxies }, list(parseNetwork)),
		},
		{
			"LETTERHEAD_CRAWL_DENY", "none", "",
			"comma-separated addresses or networks that crawls must not connect to, in addition to all that are not public: this site's own public addresses, or a local NAT64 prefix",
			set(func(c *Config) *[]netip.Prefix { return &c.CrawlDeny }, list(parseNetwork)),
		},
		{
			"LETTERHEAD_USER_AGENT", "", "Mozilla/5.0 (compatible; LetterheadBot/1.0; +base URL/bot)",
			"User-Agent header of the crawler", func(c *Config, v string) error {
				c.UserAgent = cmp.Or(v, "Mozilla/5.0 (compatible; LetterheadBot/1.0; +"+c.BaseURL+"/bot)")
				return nil
			},
		},
		{
			"LETTERHEAD_RENDERER", "off", "",
			"browser for pages that are empty without their scripts: off, or chromium (installed on the machine; crawler role only)",
			set(func(c *Config) *string { return &c.Renderer }, oneOf("off", "chromium")),
		},
		{"LETTERHEAD_CLOCK_SKEW", "0s", "",
			"added to this machine's clock before the database corrects it; for tests of nodes with wrong clocks",
			set(func(c *Config) *time.Duration { return &c.ClockSkew }, duration(-time.Hour, time.Hour))},
		{"LETTERHEAD_LOG_LEVEL", "info", "", "minimum level of log messages: debug, info, warn or error",
			set(func(c *Config) *string { return &c.LogLevel }, oneOf("debug", "info", "warn", "error"))},
		{"LETTERHEAD_LOG_FORMAT", "text", "", "format of log messages: text or json",
			set(func(c *Config) *string { return &c.LogFormat }, oneOf("text", "json"))},
	}
}

// Load builds a Config from a lookup of settings by name (os.LookupEnv), and reports all invalid settings together.
// A variable with the name of a setting and _FILE names a file with the value (see Value).
// overrides, by the same names, take precedence over the environment; flags use them.
func Load(lookup func(string) (string, bool), overrides map[string]string) (Config, error) {
	var c Config
	var errs []error
	for _, s := range Settings() {
		value := s.Default
		v, err := Value(lookup, s.Name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
			continue
		}
		value = cmp.Or(v, value)
		if v, ok := overrides[s.Name]; ok && v != "" {
			value = v
		}
		if value == none && s.Default == none {
			continue
		}
		if value != "" && value == s.DefaultText {
			errs = append(errs,
				fmt.Errorf("%s: %q only describes the default; leave the variable unset", s.Name, value))
			continue
		}
		if err := s.apply(&c, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
	errs = append(errs, c.check())
	return c, errors.Join(errs...)
}

// FromEnvironment is Load with the process's environment.
func FromEnvironment(overrides map[string]string) (Config, error) {
	return Load(os.LookupEnv, overrides)
}

// Paths inside the data folder.
func (c Config) EventsPath() string   { return filepath.Join(c.Data, "events.db") }
func (c Config) DatabasePath() string { return filepath.Join(c.Data, "letterhead.db") }
func (c Config) SearchPath() string   { return filepath.Join(c.Data, "search") }

// LedgerKeyPath is the file with the private key that signs checkpoints, unless that is a setting. LedgerKeysPath has
// the public keys, the current one first.
func (c Config) LedgerKeyPath() string  { return filepath.Join(c.Data, "ledger.key") }
func (c Config) LedgerKeysPath() string { return filepath.Join(c.Data, "ledger.pub") }

// NoticesKeyPath is the file with the private key that signs webhooks of notices, unless that is a setting.
func (c Config) NoticesKeyPath() string { return filepath.Join(c.Data, "notices.key") }

// CachePath is a folder whose content may be lost: results that are expensive to compute.
func (c Config) CachePath() string { return filepath.Join(c.Data, "cache") }

// AssetsURL returns the bucket of logos and images.
func (c Config) AssetsURL() string {
	if c.Assets != "" {
		return c.Assets
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(c.Data, "assets"))}).String()
}

// addressIn returns the IP address in the host of a URL, which may have a port.
func addressIn(host string) (netip.Addr, bool) {
	if with, err := netip.ParseAddrPort(host); err == nil {
		return with.Addr(), with.Addr().Zone() == ""
	}
	if within, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(within, "]"); !ok {
			return netip.Addr{}, false
		}
	}
	ip, err := netip.ParseAddr(host)
	return ip, err == nil && ip.Zone() == ""
}

// hostBytes are the bytes of a lower-case Host header: names, IP addresses and ports.
const hostBytes = "abcdefghijklmnopqrstuvwxyz0123456789-_.:[]"

// nodeLetters are the bytes of a node's name.
const nodeLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"

// ListeningOn returns the settings of a process that listens on an address (host:port). If the port in LISTEN is 0, the
// system chose another one, and URLs that derive from LISTEN get it.
func (c Config) ListeningOn(address string) Config {
	if _, port, err := net.SplitHostPort(c.Listen); err != nil || port != "0" {
		return c
	}
	for _, derived := range []*string{&c.BaseURL, &c.BillingURL, &c.UserAgent} {
		*derived = strings.Replace(*derived, baseURLOf(c.Listen), baseURLOf(address), 1)
	}
	c.Listen = address
	return c
}

func baseURLOf(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "http://" + listen
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}
