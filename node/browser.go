package node

import (
	"fmt"
	"log/slog"

	"letterhead/internal/config"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl"
	"letterhead/workers/crawl/browser"
)

// openBrowser returns the browser of the settings, nil when it is off. A browser that is asked for and not
// installed ends the start: without it, pages would silently be read less well.
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
