// Package safehttp is the HTTP client for all requests to the public internet.
//
// All its input is untrusted: the domain, the links on its pages, the redirects of its server and the
// responses of its name server. On every hop it rejects everything except public web servers:
//
//   - A URL is checked before anything is sent (CheckURL): http or https, port 80 or 443, a host name of
//     at least two labels; no user info, no IP address in any notation, no name of a local network.
//   - The client resolves the host, and the guard checks each address before it is dialed. In
//     production the guard is also in net.Dialer.Control, where it checks the actual address to which
//     the socket connects. There is no second lookup between check and use, so DNS rebinding has no
//     effect.
//   - The package follows redirects itself and checks each target in full. It never uses a proxy.
//
// Everything is limited: redirects, header bytes, body bytes after decompression, bytes and fetches of
// a whole crawl, and the time of every phase. Errors are typed, so that a crawl can distinguish a
// domain that does not exist from a server that refuses connections or never responds.
//
// Each crawl has a Session, with its own cookies and budget.
//
// Tests replace the parts below the guard: Config.Resolver resolves names, and Config.Dial receives an
// address that the guard has already approved. The guard cannot be disabled.
package safehttp

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

// Limits of every fetch.
const (
	MaxRedirects   = 5
	MaxHeaderBytes = 64 << 10

	tlsTimeout    = 5 * time.Second
	headerTimeout = 8 * time.Second
	// MaxFetchTime limits a fetch from the first lookup to the last byte, including redirects.
	MaxFetchTime = 8 * time.Second

	maxConnsPerHost = 4
	maxIdleConns    = 64
	// idleTimeout is short because a crawl returns to a host within seconds or not at all.
	idleTimeout = 10 * time.Second
)

// Body limits per kind of file, in bytes after decompression.
const (
	MaxHTMLBytes  = 3 << 20
	MaxCSSBytes   = 1 << 20
	MaxImageBytes = 5 << 20

	maxBodyBytes = MaxImageBytes // no kind may use more
)

// Budget of a session: calls of Get, and bytes of decompressed bodies.
const (
	sessionFetches = 80
	sessionBytes   = 20 << 20
)

const defaultUserAgent = "Mozilla/5.0 (compatible; LetterheadBot/1.0)"

// Config configures a Client. The zero Config is valid.
type Config struct {
	// UserAgent is sent with every request. Default: one without a URL that describes the crawler.
	UserAgent string
	// Denied lists networks that are blocked in addition to all non-public ones, such as the operator's own
	// public addresses behind a gateway, or a NAT64 prefix of the local network.
	Denied []netip.Prefix

	// Resolver resolves names. Default: the machine's name servers, without its search list.
	Resolver Resolver
	// Dial connects to an IP address that the guard has approved. Tests replace it. Default: a net.Dialer
	// whose Control is also the guard.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// OwnAddrs returns the addresses of this machine, which are blocked. Default: those of its
	// interfaces except the loopback device.
	OwnAddrs func() ([]netip.Addr, error)
	// RootCAs are the trusted certificate authorities. Default: the machine's.
	RootCAs *x509.CertPool

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Validate reports all errors of the configuration.
func (c Config) Validate() error {
	var errs []error
	if strings.ContainsFunc(c.UserAgent, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		errs = append(errs, errors.New("safehttp: UserAgent must be printable ASCII"))
	}
	for _, p := range c.Denied {
		if !p.IsValid() {
			errs = append(errs, errors.New("safehttp: Denied contains an invalid prefix"))
		}
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.UserAgent = cmp.Or(c.UserAgent, defaultUserAgent)
	if c.Resolver == nil {
		// PreferGo: use only the DNS and the hosts file.
		c.Resolver = rootedResolver{&net.Resolver{PreferGo: true}}
	}
	if c.OwnAddrs == nil {
		c.OwnAddrs = interfaceAddrs
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Client fetches from the public internet only. It is safe for concurrent use.
type Client struct {
	cfg       Config
	guard     *guard
	dial      func(ctx context.Context, network, addr string) (net.Conn, error)
	transport *http.Transport
	metrics   *metrics
}

// New returns a client, or all errors of its configuration.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Client{cfg: cfg, guard: newGuard(cfg.Denied, cfg.OwnAddrs, cfg.Now), dial: cfg.Dial}
	if c.dial == nil {
		dialer := &net.Dialer{Timeout: connectTimeout, Control: c.guard.control}
		c.dial = dialer.DialContext
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	c.metrics = m
	c.transport = &http.Transport{
		Proxy:                  nil, // a proxy would bypass the guard
		DialContext:            c.dialContext,
		TLSClientConfig:        &tls.Config{RootCAs: cfg.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: MaxHeaderBytes,
		DisableCompression:     true, // readBody decompresses, within the limits
		ForceAttemptHTTP2:      true,
		MaxConnsPerHost:        maxConnsPerHost,
		MaxIdleConnsPerHost:    maxConnsPerHost,
		MaxIdleConns:           maxIdleConns,
		IdleConnTimeout:        idleTimeout,
	}
	return c, nil
}

// Close closes idle connections. Running fetches are not affected.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

type metrics struct {
	fetches  *prometheus.CounterVec
	bytes    prometheus.Counter
	duration prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		fetches: telemetry.Counters("letterhead_fetches_total", "Fetches by outcome.", "outcome"),
		bytes:   telemetry.Counter("letterhead_fetch_bytes_total", "Bytes of fetched bodies after decompression."),
		duration: telemetry.Histogram("letterhead_fetch_duration_seconds",
			"Duration of a fetch, including redirects.", []float64{.05, .1, .25, .5, 1, 2, 4, 8}),
	}
	if err := telemetry.Register(r, m.fetches, m.bytes, m.duration); err != nil {
		return nil, fmt.Errorf("safehttp: register metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) observe(took time.Duration, bytes int, err error) {
	m.fetches.WithLabelValues(Reason(err)).Inc()
	m.bytes.Add(float64(bytes))
	m.duration.Observe(took.Seconds())
}
