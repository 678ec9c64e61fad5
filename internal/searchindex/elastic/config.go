package elastic

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/searchindex"
)

// Defaults and limits of a Config.
const (
	defaultAlias    = "brands" // the prefix of all names in the cluster
	defaultReplicas = 1
	// maxHosts limits the hosts of one cluster.
	maxHosts = 64
	// maxReplicas is far more than one index of brands can use.
	maxReplicas = 20
)

// Config configures an Index.
type Config struct {
	// URL is the URL of the cluster:
	//
	//	http[s]://[user:password@]host:port[,host:port…][/path][?setting=value&…]
	//
	// with a percent-encoded password, and the settings alias (the prefix of all names in the cluster, of which two
	// installations need different ones; "brands" by default), replicas (1 by default), api_key (the base64 form,
	// instead of user and password) and ca (a file of PEM certificates that are trusted in addition to the system's).
	URL string
	// Analyzer analyzes documents and queries, the current one by default. Each version has a separate index.
	Analyzer searchindex.Analyzer
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer registers the metrics; it may be nil.
	Registerer prometheus.Registerer
}

type settings struct {
	addresses              []string
	user, password, apiKey string
	alias                  string
	replicas               int
	analyzer               searchindex.Analyzer
	transport              *http.Transport
	logger                 *slog.Logger
}

// aliasForm is a subset of the names that Elasticsearch allows, with room for our suffixes.
var aliasForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,99}$`)

// read reports all errors of the configuration. It never quotes the URL, which may contain a password.
func (c Config) read() (settings, error) {
	s := settings{alias: defaultAlias, replicas: defaultReplicas, analyzer: c.Analyzer, transport: newTransport()}
	if s.analyzer.Version == 0 {
		s.analyzer = searchindex.Analyzers()[0]
	}
	s.logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	var wrong []error
	found := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf("search: "+format, args...)) }
	if query, ok := s.readURL(c.URL, found); ok {
		s.readSettings(query, found)
	}
	if !aliasForm.MatchString(s.alias) {
		found("alias %q is not of 1 to 100 small letters, digits, _ and -, beginning with a letter or digit", s.alias)
	}
	if s.replicas < 0 || s.replicas > maxReplicas {
		found("%d replicas, want 0 to %d", s.replicas, maxReplicas)
	}
	return s, errors.Join(wrong...)
}

// readURL parses everything except the settings, which it returns. The standard parser supports only
// one host, and its errors quote their input.
func (s *settings) readURL(text string, found func(string, ...any)) (url.Values, bool) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "http" && scheme != "https" {
		found("URL does not begin with http:// or https://")
		return nil, false
	}
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	authority, tail := rest[:end], rest[end:]
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, _ := strings.Cut(authority[:i], ":")
		var errUser, errPassword error
		s.user, errUser = url.PathUnescape(user)
		s.password, errPassword = url.PathUnescape(password)
		if errUser != nil || errPassword != nil {
			found("URL: user or password is not percent-encoded")
		}
		authority = authority[i+1:]
	}
	path, err := url.Parse(tail)
	if err != nil {
		found("URL: what follows the hosts cannot be read")
		return nil, false
	}
	query, err := url.ParseQuery(path.RawQuery)
	if err != nil {
		found("URL: the settings cannot be read")
		return nil, false
	}
	hosts := strings.Split(authority, ",")
	if len(hosts) > maxHosts {
		found("URL: %d hosts, want %d at most", len(hosts), maxHosts)
	}
	for i, h := range hosts {
		u, err := url.Parse(scheme + "://" + h)
		if err != nil || u.Hostname() == "" || u.Host != h {
			found("URL: host %d of %d is not host or host:port", i+1, len(hosts))
			continue
		}
		s.addresses = append(s.addresses, scheme+"://"+h+strings.TrimSuffix(path.EscapedPath(), "/"))
	}
	return query, true
}

func (s *settings) readSettings(query url.Values, found func(string, ...any)) {
	for name, values := range query {
		value := values[len(values)-1]
		switch name {
		case "alias":
			s.alias = value
		case "api_key":
			s.apiKey = value
		case "replicas":
			n, err := strconv.Atoi(value)
			if err != nil {
				found("URL: replicas is not a number")
			}
			s.replicas = n
		case "ca":
			s.trust(value, found)
		default:
			found("URL has an unknown setting; known are alias, api_key, ca and replicas")
		}
	}
	if s.apiKey != "" && s.user != "" {
		found("URL has both a user and an api_key")
	}
}

// trust trusts the certificates in a file, in addition to the system's.
func (s *settings) trust(file string, found func(string, ...any)) {
	pem, err := os.ReadFile(file)
	if err != nil {
		found("URL: ca: %w", err)
		return
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		found("the CA holds no PEM certificate")
	}
	s.transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext,
		ForceAttemptHTTP2:     false, // Elasticsearch supports HTTP/1.1 only
		MaxIdleConnsPerHost:   maxIdleConns,
		IdleConnTimeout:       idleTimeout,
		TLSHandshakeTimeout:   dialTimeout,
		ExpectContinueTimeout: time.Second,
	}
}
