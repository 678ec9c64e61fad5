package safehttp

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
