package node

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"letterhead/domain/brand"
	"letterhead/internal/config"
	"letterhead/internal/resvg"
	"letterhead/internal/safehttp"
	"letterhead/internal/telemetry"
	"letterhead/workers/crawl"
	"letterhead/workers/crawl/browser"
	"letterhead/workers/crawl/report"
)

// Crawl is a single crawl that stores nothing.
type Crawl struct {
	Domain  string
	Target  string           // to crawl
	Page    *crawl.SavedPage // to read instead, without fetching anything
	Timeout time.Duration
}

// CrawlOnce crawls a target, or reads a saved page. It opens no data folder.
func CrawlOnce(ctx context.Context, cfg config.Config, logs io.Writer, c Crawl) (report.Crawl, error) {
	logger, err := telemetry.NewLogger(logs, "warn", cfg.LogFormat)
	if err != nil {
		return report.Crawl{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	vectors, err := resvg.New(ctx, resvg.Config{CacheDir: userCache()})
	if err != nil {
		return report.Crawl{}, err
	}
	defer vectors.Close(context.WithoutCancel(ctx))
	settings := crawl.Config{Renderer: vectors, Logger: logger}
	out := report.Crawl{Domain: c.Domain, At: time.Now()}
	if c.Page != nil {
		out.Result, err = crawl.Read(ctx, settings, *c.Page)
	} else {
		client, clientErr := safehttp.New(safehttp.Config{UserAgent: cfg.UserAgent, Denied: cfg.CrawlDeny})
		if clientErr != nil {
			return out, clientErr
		}
		if settings.Browser, err = openBrowser(cfg, client, logger); err != nil {
			return out, err
		}
		out.Result, out.Stats, err = crawl.Once(ctx, settings, client, c.Target)
	}
	if err != nil {
		return out, err
	}
	out.Took, out.Status = time.Since(out.At), brand.StatusPartial
	if out.Result.Record.Complete {
		out.Status = brand.StatusReady
	}
	return out, nil
}

// userCache returns this user's cache folder, or "" if there is none.
func userCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "letterhead")
}

// openBrowser returns the browser of the settings, nil if it is off. It fails if the browser is not installed: without
// it, the crawler would silently read pages less well.
func openBrowser(cfg config.Config, client *safehttp.Client, logger *slog.Logger) (crawl.Browser, error) {
	if cfg.Renderer != "chromium" {
		return nil, nil
	}
	b, err := browser.New(browser.Config{Logger: logger}, client)
	if err != nil {
		return nil, fmt.Errorf("--renderer chromium: %w", err)
	}
	return b, nil
}
