// Package stores opens event logs. The value of a setting chooses the kind of log; to add a kind, add it to kinds.
package stores

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/fanout"
	"letterhead/internal/eventlog/sqlite"
)

// Options say how a log is opened.
type Options struct {
	Address string // of a service
	Path    string // of a file in the data folder
	// Admit, unless it is nil, checks a service at each new connection.
	Admit      func(context.Context, eventlog.Prober, eventlog.Mark) error
	AcceptLoss bool                        // cuts off what cannot be read of a file
	KeepFormat bool                        // leaves a file in its format
	Pace       func(context.Context) error // called before each read of a file by Kind.OpenReading
	Timeout    time.Duration               // of the first contact with a service; 0 for the default
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil for no metrics
}

// Store is an open log.
type Store struct {
	Log  eventlog.Log
	File *sqlite.Log // nil if the log is not a file of this process
	// Server names the service and its version; nil for a file.
	Server func(context.Context) (string, error)
	// Answers reports whether a server of the service answers, if only that it cannot serve now; nil for a file.
	Answers func(context.Context) bool
	// Verify verifies everything that the log stores; nil if a service does so itself.
	Verify func(context.Context) error
	// Alone reports whether no other process can write the log that OpenReading has opened.
	Alone bool
}

// Kind is a kind of event log.
type Kind struct {
	schemes []string // of addresses; none for a file
	// Shared reports whether several processes can use a log at a time. The shape of a deployment follows from it.
	Shared bool
	Open   func(context.Context, Options) (*Store, error)
	// OpenReading opens a log without writing to it while another process may write it; nil if Open does so.
	OpenReading func(context.Context, Options) (*Store, error)
	// Connect opens a service for a single reader or writer, such as a migration; nil for a file.
	Connect func(context.Context, Options) (*Store, error)
}

var kinds = []Kind{
	{Open: openFile, OpenReading: readFile},
	{schemes: []string{"esdb", "esdb+discover"}, Shared: true, Open: openESDB, Connect: connectESDB},
}

// Of returns the kind of the log with an address: that of a file, unless the address has the scheme of a service.
func Of(address string) Kind {
	scheme, _, _ := strings.Cut(address, "://")
	for _, k := range kinds {
		if slices.Contains(k.schemes, scheme) {
			return k
		}
	}
	return kinds[0]
}

// Schemes returns the schemes of the addresses of services.
func Schemes() (all []string) {
	for _, k := range kinds {
		all = append(all, k.schemes...)
	}
	return all
}

func openFile(ctx context.Context, o Options) (*Store, error) {
	log, err := sqlite.Open(ctx,
		sqlite.Config{Path: o.Path, AcceptLoss: o.AcceptLoss, KeepFormat: o.KeepFormat, Logger: o.Logger,
			Registerer: o.Registerer})
	if err != nil {
		return nil, err
	}
	return &Store{Log: log, File: log, Verify: func(ctx context.Context) error { return log.Check(ctx, nil) }}, nil
}

func readFile(ctx context.Context, o Options) (*Store, error) {
	log, err := sqlite.OpenReadOnly(ctx, sqlite.Config{Path: o.Path, Pace: o.Pace, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return &Store{Log: log, File: log.Log, Alone: log.Alone(), Verify: func(ctx context.Context) error {
		return log.Check(ctx, nil)
	}}, nil
}

func connectESDB(ctx context.Context, o Options) (*Store, error) {
	log, err := esdb.Open(ctx, esdb.Config{
		ConnectionString: o.Address, Admit: o.Admit, ConnectTimeout: o.Timeout, Logger: o.Logger,
		Registerer: o.Registerer,
	})
	if err != nil {
		return nil, err
	}
	server := func(ctx context.Context) (string, error) {
		version, err := log.ServerVersion(ctx)
		return "EventStoreDB " + version.String(), err
	}
	return &Store{Log: log, Server: server, Answers: log.Answers}, nil
}

// openESDB opens a service whose end is read once for all readers of this process.
func openESDB(ctx context.Context, o Options) (*Store, error) {
	store, err := connectESDB(ctx, o)
	if err != nil {
		return nil, err
	}
	shared, err := fanout.New(store.Log, fanout.Config{Logger: o.Logger, Registerer: o.Registerer})
	if err != nil {
		return nil, errors.Join(err, store.Log.Close())
	}
	store.Log = shared
	return store, nil
}
