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
	"letterhead/internal/eventlog/stores"
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
		status, err := n.Search.Status(ctx)
		if err != nil {
			return "", err
		}
		if status.Error != "" {
			return "", errors.New(status.Error)
		}
		return "index " + status.Late(), nil
	}}
	if n.reading {
		search.Run = func(context.Context) (string, error) {
			return "not checked: the data folder cannot be written", nil
		}
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
	checks := []Check{
		folder,
		{"schemas", func(context.Context) (string, error) {
			return fmt.Sprintf("%d event types, every version readable", len(eventschemas.Types())),
				eventschemas.Check()
		}},
		{"disk", func(context.Context) (string, error) { return diskSpace(n.Config.Data) }},
		{"event log",
			func(ctx context.Context) (string, error) { return n.Stores.checkLog(ctx, n.health.ready.Load()) }},
		{"database", n.Stores.checkDatabase},
		{"names", n.Stores.checkNames},
		{"read models", func(ctx context.Context) (string, error) {
			models, err := n.Runner.List(ctx)
			if err != nil {
				return "", err
			}
			latest := engine.Status{}
			for _, m := range models {
				if m.Error != "" {
					return "", fmt.Errorf("%s is quarantined: %s; \"letterhead projections rebuild %s\" rebuilds it",
						m.Name, m.Error, m.Name)
				}
				if m.Lag > latest.Lag {
					latest = m
				}
			}
			return fmt.Sprintf("%d live, %s; %s", len(models), latest.Late(), engine.Scrubs(models)), nil
		}},
		search,
		{"checkpoint", func(ctx context.Context) (string, error) {
			return n.Operations.Checkpoints.Proofs(nil).Quick(ctx)
		}},
		{"broker", func(ctx context.Context) (string, error) { return checkBroker(ctx, n.Config, n.logger) }},
		{"assets", func(ctx context.Context) (string, error) {
			for _, err := range n.Stores.Assets.List(ctx) {
				if err != nil {
					return "", err
				}
				break // one file, or an empty list, shows that the bucket answers
			}
			return n.Config.AssetsURL(), nil
		}},
		listener,
	}
	for _, w := range n.Operations.Checkpoints.Witnesses {
		checks = append(checks, Check{"witness", func(ctx context.Context) (string, error) {
			return w.Name + " has every checkpoint", w.State(ctx, n.Operations.Checkpoints.Proofs(nil))
		}})
	}
	if n.Config.StripeKey != "" {
		checks = append(checks, Check{"stripe", n.Operations.Billing.CheckEndpoint})
	}
	return checks
}

// checkLog verifies the whole log of a data folder. It only reads the position of the end of a shared log.
func (s *Stores) checkLog(ctx context.Context, scrubbed bool) (string, error) {
	head, err := s.Log.Head(ctx)
	if err != nil {
		return "", err
	}
	if s.log.Server != nil {
		server, err := s.log.Server(ctx)
		return fmt.Sprintf("%s answers; its log ends at position %d", server, head), err
	}
	info, err := os.Stat(s.config.EventsPath())
	if err != nil {
		return "", err
	}
	if err := s.VerifyLog(ctx); err != nil {
		return "", err
	}
	detail := fmt.Sprintf("%s, %d events, %d MiB, every checksum and the digest hold",
		filepath.Base(s.config.EventsPath()), head, info.Size()>>20)
	if scrubbed { // by a server
		scrub := s.log.File.LastScrub()
		if scrub.Problem != nil {
			return "", fmt.Errorf("%s; but %s", detail, scrub)
		}
		detail += "; " + scrub.String()
	}
	return detail, nil
}

// VerifyLog verifies the whole log of a data folder. A shared event store verifies itself.
func (s *Stores) VerifyLog(ctx context.Context) error {
	if s.log.Verify == nil {
		return nil
	}
	return s.log.Verify(ctx)
}

// maxClockOffset is the largest error of this machine's clock that the check accepts. Nothing depends on the clock,
// because nodes follow the database's clock, but logs with different clocks are hard to read together.
const maxClockOffset = 2 * time.Second

func (s *Stores) checkDatabase(ctx context.Context) (string, error) {
	var one int
	if err := s.Database.Read().QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
		return "", err
	}
	if !s.Database.Shared() {
		return filepath.Base(s.config.DatabasePath()), nil
	}
	offset, bound := s.clock.Offset()
	if offset.Abs() > maxClockOffset {
		return "", fmt.Errorf(
			"answers; this machine's clock is %s away from the database's: let it follow a time server",
			offset.Round(time.Millisecond))
	}
	return fmt.Sprintf("answers; this machine's clock is %s away from the database's, give or take %s",
		offset.Round(time.Millisecond), bound.Round(time.Microsecond)), nil
}

// checkNames verifies the rows that exist nowhere else.
func (s *Stores) checkNames(ctx context.Context) (string, error) {
	rows, damaged, err := s.Names.Check(ctx)
	switch {
	case err != nil:
		return "", err
	case len(damaged) > 0:
		return "", fmt.Errorf("%d of %d rows of the table of holders are damaged and not used, such as %q; "+
			"\"letterhead names\" lists them and what to do", len(damaged), rows, damaged[0])
	}
	return fmt.Sprintf("%d rows, every checksum holds", rows), nil
}

func checkBroker(ctx context.Context, settings config.Config, logger *slog.Logger) (string, error) {
	if settings.Broker == config.Embedded {
		return "in this process", nil
	}
	cfg, err := kafka.ParseURL(settings.Broker)
	if err != nil {
		return "", err
	}
	cfg.Logger = logger
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
	return fmt.Sprintf("%d brokers, %d topics, %d consumer groups, at most %d messages behind",
		len(report.Brokers), len(report.Topics), len(report.Groups), behind), nil
}

// reachTimeout bounds one attempt to reach a service that nodes share.
const reachTimeout = 10 * time.Second

// Reachable returns a separate check for each service that nodes share.
func Reachable(cfg config.Config) []Check {
	quiet := slog.New(slog.DiscardHandler)
	within := func(run func(context.Context) (string, error)) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			// longer than the attempt, whose error names the cause
			ctx, cancel := context.WithTimeout(ctx, 2*reachTimeout)
			defer cancel()
			return run(ctx)
		}
	}
	return []Check{
		{"event store", within(func(ctx context.Context) (string, error) {
			store, err := stores.Of(cfg.EventStore).Connect(ctx,
				stores.Options{Address: cfg.EventStore, Timeout: reachTimeout, Logger: quiet})
			if err != nil {
				return "", err
			}
			server, err := store.Server(ctx)
			head, headErr := store.Log.Head(ctx)
			return fmt.Sprintf("%s is reached; its log ends at position %d", server, head), errors.Join(err, headErr,
				store.Log.Close())
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
			_, _, err = index.Checkpoint(ctx)
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
		return "", fmt.Errorf(
			"only %d MiB are free in %s; appends will be rejected when it is full, nothing will be lost; make room",
			space.Free>>20, folder)
	}
	return fmt.Sprintf("%d MiB free", space.Free>>20), nil
}
