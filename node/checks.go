package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/config"
	"letterhead/internal/disk"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/searchindex/elastic"
	"letterhead/internal/sqlstore"
	"letterhead/node/datafolder"
	"letterhead/projections/engine"
)

// lowDisk is the free space below which the disk check fails: room for several hundred thousand events.
const lowDisk = disk.MaxReserve

// Check is a check of a node. Its detail is for an operator to read.
type Check struct {
	Name string
	Run  func(context.Context) (detail string, err error)
}

// Checks returns the checks of an open node.
func (n *Node) Checks() []Check {
	search := Check{"search", func(ctx context.Context) (string, error) {
		status, err := n.SearchStatus(ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("index at position %d, %d behind", status.Position, status.Lag), nil
	}}
	if n.reading {
		search.Run = func(context.Context) (string, error) { return "not checked: the data folder cannot be written", nil }
	}
	folder := Check{"data folder", func(context.Context) (string, error) {
		if err := datafolder.CheckWritable(n.Config.Data); err != nil {
			return err.Error(), nil // a read-only copy is not a fault
		}
		return n.Config.Data, nil
	}}
	listener := Check{"admin API", func(context.Context) (string, error) {
		switch {
		case n.adminURL != "":
			return n.adminURL, nil
		case n.Config.AdminListen == "":
			return "off (LETTERHEAD_ADMIN_LISTEN)", nil
		}
		return "not served by this process", nil
	}}
	return []Check{
		folder,
		{"schemas", func(context.Context) (string, error) {
			return fmt.Sprintf("%d event types, every version readable", len(eventschemas.Types())), eventschemas.Check()
		}},
		{"disk", func(context.Context) (string, error) { return diskSpace(n.Config.Data) }},
		{"event log", n.checkLog},
		{"database", n.checkDatabase},
		{"names", n.checkNames},
		{"read models", func(ctx context.Context) (string, error) {
			models, err := n.Runner.List(ctx)
			if err != nil {
				return "", err
			}
			var lag uint64
			for _, m := range models {
				if m.Error != "" {
					return "", fmt.Errorf("%s is quarantined: %s; \"letterhead projections rebuild %s\" rebuilds it", m.Name, m.Error, m.Name)
				}
				lag = max(lag, m.Lag)
			}
			return fmt.Sprintf("%d live, at most %d positions behind; %s", len(models), lag, engine.Scrubs(models)), nil
		}},
		search,
		{"broker", n.checkBroker},
		{"assets", func(ctx context.Context) (string, error) {
			for _, err := range n.Assets.List(ctx) {
				if err != nil {
					return "", err
				}
				break // one file, or an empty list, shows that the bucket answers
			}
			return n.Config.AssetsURL(), nil
		}},
		listener,
	}
}

// checkLog verifies the whole log of a data folder. It only reads the position of the end of a shared log.
func (n *Node) checkLog(ctx context.Context) (string, error) {
	head, err := n.Log.Head(ctx)
	if err != nil {
		return "", err
	}
	if n.eventStore != nil {
		version, err := n.eventStore.ServerVersion(ctx)
		return fmt.Sprintf("EventStoreDB %s answers, head at position %d", version, head), err
	}
	info, err := os.Stat(n.Config.EventsPath())
	if err != nil {
		return "", err
	}
	if err := n.VerifyLog(ctx); err != nil {
		return "", err
	}
	detail := fmt.Sprintf("%s, head at position %d, %d MiB, every checksum and the digest hold", filepath.Base(n.Config.EventsPath()), head, info.Size()>>20)
	if n.ready.Load() { // a server scrubs its log
		scrub := n.logFile.LastScrub()
		if scrub.Problem != nil {
			return "", fmt.Errorf("%s; but %s", detail, scrub)
		}
		detail += "; " + scrub.String()
	}
	return detail, nil
}

// VerifyLog verifies the whole log of a data folder. A shared event store verifies itself.
func (n *Node) VerifyLog(ctx context.Context) error {
	if n.logFile == nil {
		return nil
	}
	if log, reading := n.Log.(sqlite.ReadOnly); reading {
		return log.Check(ctx, nil)
	}
	return n.logFile.Check(ctx, nil)
}

// maxClockOffset is the largest error of this machine's clock that the check accepts. Nothing depends on the clock,
// because nodes follow the database's clock, but logs with different clocks are hard to read together.
const maxClockOffset = 2 * time.Second

func (n *Node) checkDatabase(ctx context.Context) (string, error) {
	var one int
	if err := n.Store.Read().QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
		return "", err
	}
	if !n.Store.Shared() {
		return filepath.Base(n.Config.DatabasePath()), nil
	}
	offset, bound := n.clock.Offset()
	if offset.Abs() > maxClockOffset {
		return "", fmt.Errorf("answers; this machine's clock is %s away from the database's: let it follow a time server", offset.Round(time.Millisecond))
	}
	return fmt.Sprintf("answers; this machine's clock is %s away from the database's, give or take %s", offset.Round(time.Millisecond), bound.Round(time.Microsecond)), nil
}

// checkNames verifies the rows that exist nowhere else.
func (n *Node) checkNames(ctx context.Context) (string, error) {
	rows, damaged, err := n.Names.Check(ctx)
	switch {
	case err != nil:
		return "", err
	case len(damaged) > 0:
		return "", fmt.Errorf("%d of %d rows of the table of holders are damaged and not used, such as %q; "+
			"\"letterhead names\" lists them and what to do", len(damaged), rows, damaged[0])
	case !n.Names.Sealed():
		return fmt.Sprintf("%d rows, whose checksums count when the upgrade is finished", rows), nil
	}
	return fmt.Sprintf("%d rows, every checksum holds", rows), nil
}

func (n *Node) checkBroker(ctx context.Context) (string, error) {
	if n.Config.Broker == config.Embedded {
		return "in this process", nil
	}
	cfg, err := kafka.ParseURL(n.Config.Broker)
	if err != nil {
		return "", err
	}
	cfg.Logger = n.logger
	report, err := kafka.Inspect(ctx, cfg)
	if err != nil {
		return "", err
	}
	if problems := report.Problems(); len(problems) > 0 {
		return "", errors.New(strings.Join(problems, "; "))
	}
	var behind int64
	for _, g := range report.Groups {
		behind = max(behind, g.Messages)
	}
	return fmt.Sprintf("%d brokers, %d topics, %d consumer groups, at most %d messages behind", len(report.Brokers), len(report.Topics), len(report.Groups), behind), nil
}

// reachTimeout bounds one attempt to reach a service that nodes share.
const reachTimeout = 10 * time.Second

// Reachable returns a separate check for each service that nodes share.
func Reachable(cfg config.Config) []Check {
	quiet := slog.New(slog.DiscardHandler)
	within := func(run func(context.Context) (string, error)) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, reachTimeout)
			defer cancel()
			return run(ctx)
		}
	}
	return []Check{
		{"event store", within(func(ctx context.Context) (string, error) {
			log, err := esdb.Open(ctx, esdb.Config{ConnectionString: cfg.EventStore, Logger: quiet, ConnectTimeout: reachTimeout})
			if err != nil {
				return "", err
			}
			version, err := log.ServerVersion(ctx)
			head, headErr := log.Head(ctx)
			return fmt.Sprintf("EventStoreDB %s is reached, head at position %d", version, head), errors.Join(err, headErr, log.Close())
		})},
		{"database", within(func(ctx context.Context) (string, error) {
			store, err := sqlstore.Open(ctx, sqlstore.Config{URL: cfg.Database, Logger: quiet})
			if err != nil {
				return "", err
			}
			return "is reached", store.Close()
		})},
		{"search", within(func(ctx context.Context) (string, error) {
			if cfg.Search == config.Embedded {
				return "in the data folder", nil
			}
			index, err := elastic.Open(ctx, elastic.Config{URL: cfg.Search, Logger: quiet})
			if err != nil {
				return "", err
			}
			_, err = index.Checkpoint(ctx)
			return "is reached", errors.Join(err, index.Close())
		})},
	}
}

func diskSpace(folder string) (string, error) {
	space, err := disk.At(folder)
	if err != nil {
		return "", err
	}
	if space.Free < lowDisk {
		return "", fmt.Errorf("only %d MiB are free in %s; appends will be rejected when it is full, nothing will be lost; make room", space.Free>>20, folder)
	}
	return fmt.Sprintf("%d MiB free", space.Free>>20), nil
}
