package kurrent

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of Config.
const (
	defaultConnectTimeout = 10 * time.Second
	defaultCallTimeout    = 30 * time.Second
	defaultCalls          = 512
)

// Config says where the store is. Zero values take the defaults.
type Config struct {
	// ConnectionString is esdb://user:password@host:2113?tls=true or esdb+discover://…, as EventStoreDB
	// documents it.
	ConnectionString string
	// ConnectTimeout bounds the first contact in Open.
	ConnectTimeout time.Duration
	// CallTimeout bounds each append and each page that is read, if the context does not end earlier.
	CallTimeout time.Duration
	// Calls bounds the calls under way; the next one waits.
	Calls int
	// Logger is told about faults of the store; nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics; nil means none.
	Registerer prometheus.Registerer
}

// Validate reports all that is wrong with the configuration at once.
func (c Config) Validate() error {
	problems := []error{checkConnectionString(c.ConnectionString)}
	if c.ConnectTimeout < 0 || c.CallTimeout < 0 {
		problems = append(problems, errors.New("EventStoreDB: a timeout is negative"))
	}
	if c.Calls < 0 {
		problems = append(problems, fmt.Errorf("EventStoreDB: Calls is %d, it must not be negative", c.Calls))
	}
	return errors.Join(problems...)
}

func (c Config) withDefaults() Config {
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = defaultConnectTimeout
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = defaultCallTimeout
	}
	if c.Calls == 0 {
		c.Calls = defaultCalls
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// settings are the query keys that the client knows, in lower case.
var settings = []string{
	"defaultdeadline", "discoveryinterval", "gossiptimeout", "keepaliveinterval", "keepalivetimeout",
	"maxdiscoverattempts", "nodepreference", "tls", "tlscafile", "tlsverifycert", "usercertfile", "userkeyfile",
}

// leastKeepAlive is the interval below which the client complains, in milliseconds.
const leastKeepAlive = 10_000

// checkConnectionString refuses what the client's own parser would only complain about, because it does
// so on the console, before a logger can be set. The error never holds the string: there is a password
// in it.
func checkConnectionString(s string) error {
	scheme, rest, found := strings.Cut(s, "://")
	if !found || scheme != "esdb" && scheme != "esdb+discover" {
		return errors.New("EventStoreDB: the connection string must begin with esdb:// or esdb+discover://")
	}
	_, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("EventStoreDB: the settings after ? in the connection string cannot be read")
	}
	var problems []error
	for key, value := range values {
		lower := strings.ToLower(key)
		if !slices.Contains(settings, lower) {
			problems = append(problems, fmt.Errorf("EventStoreDB: unknown setting %q in the connection string, known are: %s",
				key, strings.Join(settings, ", ")))
		}
		if n, err := strconv.Atoi(value[0]); lower == "keepaliveinterval" && err == nil && n >= 0 && n < leastKeepAlive {
			problems = append(problems, fmt.Errorf("EventStoreDB: keepAliveInterval is %d ms, at least %d or -1", n, leastKeepAlive))
		}
	}
	return errors.Join(problems...)
}

// clientConfig makes the client's configuration of a checked connection string.
func (c Config) clientConfig() (*esdb.Configuration, error) {
	conf, err := esdb.ParseConnectionString(c.ConnectionString)
	if err != nil {
		// The client's error may quote the string and the password in it.
		return nil, errors.New("EventStoreDB: the connection string cannot be read")
	}
	conf.Logger = clientLogger(c.Logger)
	return conf, nil
}

// clientLogger leads the client's messages into ours, one level lower: it calls every refused append an
// error.
func clientLogger(log *slog.Logger) esdb.LoggingFunc {
	return func(level esdb.LogLevel, format string, args ...any) {
		if len(args) == 1 {
			if inner, ok := args[0].([]any); ok { // one of its two ways to log forgets to unpack
				args = inner
			}
		}
		message := fmt.Sprintf(format, args...)
		if level == esdb.LogError || level == esdb.LogWarn {
			log.Info("EventStoreDB client", "message", message)
			return
		}
		log.Debug("EventStoreDB client", "message", message)
	}
}
