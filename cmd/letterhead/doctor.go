package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"letterhead/eventschemas"
)

// lowDisk is the free space below which doctor complains: room for some hundred thousand events.
const lowDisk = 256 << 20

func doctorCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "doctor", Short: "Check a node and its data folder", Args: exactArgs(),
		Long: "Check settings, disk, event schemas, event log, read models, search index and assets; say what to do about what is wrong. It changes nothing."}
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(func(ctx context.Context, s *service, _ *cobra.Command, _ []string) error {
		var failed []error
		for _, check := range s.checks() {
			detail, err := check.run(ctx)
			word := "ok"
			if err != nil {
				word, detail = "FAIL", err.Error()
				failed = append(failed, fmt.Errorf("%s: %w", check.name, err))
			}
			if *asJSON {
				if err := printJSON(e.stdout, map[string]any{"check": check.name, "ok": err == nil, "detail": detail}); err != nil {
					return err
				}
				continue
			}
			if _, err := fmt.Fprintf(e.stdout, "%-4s %-14s %s\n", word, check.name, detail); err != nil {
				return err
			}
		}
		return errors.Join(failed...)
	})
	return c
}

type check struct {
	name string
	run  func(context.Context) (detail string, err error)
}

func (s *service) checks() []check {
	return []check{
		{"schemas", func(context.Context) (string, error) {
			return fmt.Sprintf("%d event types, every version readable", len(eventschemas.Types())), eventschemas.Check()
		}},
		{"disk", func(context.Context) (string, error) { return diskSpace(s.config.Data) }},
		{"event log", func(ctx context.Context) (string, error) {
			head, err := s.log.Head(ctx)
			if err != nil {
				return "", err
			}
			info, err := os.Stat(s.config.EventsPath())
			if err != nil {
				return "", err
			}
			if err := s.logFile.Check(ctx, nil); err != nil {
				return "", err
			}
			return fmt.Sprintf("%s, head at position %d, %d MiB, every checksum holds", filepath.Base(s.config.EventsPath()), head, info.Size()>>20), nil
		}},
		{"read models", func(ctx context.Context) (string, error) {
			models, err := s.runner.List(ctx)
			if err != nil {
				return "", err
			}
			var lag uint64
			for _, m := range models {
				if m.Error != "" {
					return "", fmt.Errorf("%s stands still: %s; \"letterhead projections rebuild %s\" builds it anew", m.Name, m.Error, m.Name)
				}
				lag = max(lag, m.Lag)
			}
			return fmt.Sprintf("%d live, at most %d positions behind", len(models), lag), nil
		}},
		{"search", func(ctx context.Context) (string, error) {
			status, err := s.searchStatus(ctx)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("index at position %d, %d behind", status.Position, status.Lag), nil
		}},
		{"assets", func(ctx context.Context) (string, error) {
			for _, err := range s.assets.List(ctx) {
				if err != nil {
					return "", err
				}
				break // one file, or none, shows that the bucket answers
			}
			return s.config.AssetsURL(), nil
		}},
	}
}

func diskSpace(folder string) (string, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return "", fmt.Errorf("free space of %s: %w", folder, err)
	}
	free := fs.Bavail * uint64(fs.Bsize)
	if free < lowDisk {
		return "", fmt.Errorf("only %d MiB are free in %s; appends will be refused when it is full, nothing will be lost; make room", free>>20, folder)
	}
	return fmt.Sprintf("%d MiB free", free>>20), nil
}
