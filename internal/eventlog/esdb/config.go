package esdb

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
)

// Defaults of Config.
const (
	defaultConnectTimeout = 10 * time.Second
	defaultConnectWait    = 2 * time.Second
	defaultCallTimeout    = 30 * time.Second
	defaultSilentFor      = 5 * time.Second
	defaultAdmitTimeout   = 30 * time.Second
	defaultCalls          = 512
)

// Config configures a Log. Zero values take the defaults.
type Config struct {
	// ConnectionString is esdb://user:password@host:2113?tls=true or esdb+discover://…, as documented by EventStoreDB,
	// with these settings: gossipTimeout (s), keepAliveInterval and keepAliveTimeout (ms), nodePreference, tls,
	// tlsCAFile, tlsVerifyCert, userCertFile, userKeyFile. The settings discoveryInterval, maxDiscoverAttempts and
	// defaultDeadline are rejected, because the fields below replace them.
	ConnectionString string
	// ConnectTimeout bounds the first contact in Open, without Admit.
	ConnectTimeout time.Duration
	// ConnectWait bounds how long a call waits for a connection. It is longer than a change of leader, and
	// leaves time for an answer within the caller's deadline.
	ConnectWait time.Duration
	// CallTimeout bounds each append and each page of a read, if the context does not end earlier.
	CallTimeout time.Duration
	// SilentFor is how long the server may be silent before the connection is tested by reading one event,
	// regardless of the connection string's keepalive. A lost connection is detected within twice this time
	// plus the three seconds that such a read may take.
	SilentFor time.Duration
	// Calls bounds the running calls; further calls wait.
	Calls int
	// Admit is called with each new connection before anything else uses it, also in Open, and with the
	// last event that the log has seen. Every call then uses an admitted connection: the client's own ways
	// of reconnecting are disabled.
	// Admit fails with eventlog.ErrLoss if the store is not the one that was used before: Open then returns
	// that error, and an open log stays disconnected, keeps retrying and reports why. Any other error is a
	// failed attempt to connect. It is limited by AdmitTimeout. nil admits every store.
	Admit func(ctx context.Context, store eventlog.Prober, seen eventlog.Mark) error
	// AdmitTimeout bounds one call of Admit.
	AdmitTimeout time.Duration
	// Logger receives faults of the store; nil discards them.
	Logger *slog.Logger
	// Registerer receives the metrics; nil means none.
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, defaultConnectTimeout)
	c.ConnectWait = cmp.Or(c.ConnectWait, defaultConnectWait)
	c.CallTimeout = cmp.Or(c.CallTimeout, defaultCallTimeout)
	c.SilentFor = cmp.Or(c.SilentFor, defaultSilentFor)
	c.AdmitTimeout = cmp.Or(c.AdmitTimeout, defaultAdmitTimeout)
	c.Calls = cmp.Or(c.Calls, defaultCalls)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// settings are the accepted query keys, in lower case.
var settings = []string{
	"gossiptimeout", "keepaliveinterval", "keepalivetimeout", "nodepreference", "tls", "tlscafile",
	"tlsverifycert", "usercertfile", "userkeyfile",
}

// overruled are query keys that the client knows but that would have no effect.
var overruled = []string{"defaultdeadline", "discoveryinterval", "maxdiscoverattempts"}

// leastKeepAlive is the interval below which the client complains, in milliseconds.
const leastKeepAlive = 10_000

// Errors of a connection string. The messages never contain a part of it, because it contains a password,
// and in an invalid string the end of the password is unknown.
var (
	errScheme   = errors.New("EventStoreDB: the connection string must begin with esdb:// or esdb+discover://")
	errEscape   = errors.New("EventStoreDB: the user name or the password in the connection string contains one of / ? # , which must be written %2F %3F %23 %2C there (and an @ in a setting is written %40)")
	errFragment = errors.New("EventStoreDB: the connection string contains a #, which must be written %23")
	errQuery    = errors.New("EventStoreDB: the settings after ? in the connection string cannot be read")
	errUnknown  = fmt.Errorf("EventStoreDB: the connection string contains an unknown setting; the known ones are: %s",
		strings.Join(settings, ", "))
	errOverruled = fmt.Errorf(
		"EventStoreDB: remove these settings from the connection string, they have no effect here: %s",
		strings.Join(overruled, ", "))
	errKeepAlive = fmt.Errorf(
		"EventStoreDB: keepAliveInterval is not a number of milliseconds of at least %d, or -1 for none",
		leastKeepAlive)
	errKeepWait = errors.New("EventStoreDB: keepAliveTimeout is not a number of milliseconds of at least 1")
	errGossip   = errors.New("EventStoreDB: gossipTimeout is not a number of seconds of at least 1")
	errParse    = errors.New("EventStoreDB: the connection string cannot be read")
	errPair     = errors.New("EventStoreDB: userCertFile and userKeyFile must be set together")
)

// checkConnectionString rejects everything about which the client's own parser would only complain, because
// it does so on the console, before a logger can be set.
func checkConnectionString(s string) error {
	scheme, rest, found := strings.Cut(s, "://")
	if !found || scheme != "esdb" && scheme != "esdb+discover" {
		return errScheme
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	// After a misplaced @ comes the host: everything before it was the password.
	if strings.Contains(rest[len(authority):], "@") {
		return errEscape
	}
	// With several hosts the client may treat a comma in the password as a separator.
	user := authority[:max(strings.LastIndexByte(authority, '@'), 0)]
	if _, err := url.Parse(s); err != nil && strings.Contains(user, ",") {
		return errEscape
	}
	if strings.Contains(rest, "#") {
		return errFragment
	}
	_, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return errQuery
	}
	var problems []error
	for key, value := range values {
		if err := checkSetting(strings.ToLower(key), value[0]); err != nil && !slices.Contains(problems, err) {
			problems = append(problems, err)
		}
	}
	if (setting(values, "usercertfile") == "") != (setting(values, "userkeyfile") == "") {
		problems = append(problems, errPair)
	}
	return errors.Join(problems...)
}

// setting returns the value of a setting, ignoring the case of its name.
func setting(values url.Values, name string) string {
	for key, value := range values {
		if strings.ToLower(key) == name {
			return value[0]
		}
	}
	return ""
}

// checkSetting checks a setting, whose name is in lower case.
func checkSetting(name, value string) error {
	n, err := strconv.Atoi(value)
	number := err == nil
	switch {
	case slices.Contains(overruled, name):
		return errOverruled
	case !slices.Contains(settings, name):
		return errUnknown
	case name == "keepaliveinterval" && (!number || n < leastKeepAlive && n != -1):
		return errKeepAlive
	case name == "keepalivetimeout" && (!number || n < 1):
		return errKeepWait
	case name == "gossiptimeout" && (!number || n < 1):
		return errGossip
	}
	return nil
}

// clientConfig returns the client's configuration for a valid connection string.
func (c Config) clientConfig() (*esdb.Configuration, error) {
	if err := c.checkFiles(); err != nil {
		return nil, err
	}
	conf, err := esdb.ParseConnectionString(c.ConnectionString)
	if err != nil {
		return nil, errParse // the client's error may quote the string
	}
	conf.Logger = clientLogger(c.Logger)
	conf.DiscoveryInterval = discoveryInterval
	if len(conf.GossipSeeds) > 0 {
		// With esdb+discover:// and several seeds the client would contact an empty address and none of the seeds.
		conf.DnsDiscover = false
	}
	if conf.Username != "" && conf.DisableTLS {
		c.Logger.Warn("EventStoreDB: credentials are not sent without TLS")
	}
	return conf, nil
}

// checkFiles reads the certificates that the connection string names, to report which of them is invalid: the client's
// error must not be shown, and the client detects a bad user certificate only when it connects.
func (c Config) checkFiles() error {
	_, query, _ := strings.Cut(c.ConnectionString, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return errQuery
	}
	var problems []error
	if file := setting(values, "tlscafile"); file != "" {
		if pem, err := os.ReadFile(file); err != nil {
			problems = append(problems, fmt.Errorf("EventStoreDB: tlsCAFile: %w", err))
		} else if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			problems = append(problems, fmt.Errorf("EventStoreDB: tlsCAFile: there is no certificate in %s", file))
		}
	}
	if file := setting(values, "usercertfile"); file != "" {
		if _, err := tls.LoadX509KeyPair(file, setting(values, "userkeyfile")); err != nil {
			problems = append(problems, fmt.Errorf("EventStoreDB: userCertFile and userKeyFile: %w", err))
		}
	}
	return errors.Join(problems...)
}

// clientLogger logs the client's messages at debug level, because the client reports every rejected append
// and every moved subscription as an error. This package logs or counts the relevant ones.
func clientLogger(log *slog.Logger) esdb.LoggingFunc {
	return func(_ esdb.LogLevel, format string, args ...any) {
		if len(args) == 1 {
			if inner, ok := args[0].([]any); ok { // one of its two log functions does not unpack them
				args = inner
			}
		}
		log.Debug("EventStoreDB client", "message", fmt.Sprintf(format, args...))
	}
}
