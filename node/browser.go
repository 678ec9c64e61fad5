package node

import (
	"fmt"
	"log/slog"

	"letterhead/internal/config"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl"
	"letterhead/workers/crawl/browser"
)

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
