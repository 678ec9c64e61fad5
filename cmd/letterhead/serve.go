package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/internal/config"
	"letterhead/node"
	"letterhead/node/admin"
	"letterhead/node/datafolder"
)

func serveCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "serve", Short: "Serve the API with all data in one folder, or run some roles of a distributed service", Args: exactArgs(), Long: serveHelp()}
	c.Flags().StringVar(&e.listen, "listen", "", "address to serve on (LETTERHEAD_LISTEN; default 127.0.0.1:8080)")
	c.Flags().StringVar(&e.baseURL, "base-url", "", "URL under which clients reach this service (LETTERHEAD_BASE_URL)")
	c.Flags().StringVar(&e.renderer, "renderer", "", "browser for pages that are empty without their scripts: off or chromium (LETTERHEAD_RENDERER)")
	c.Flags().StringVar(&e.roles, "roles", "", "roles of this process: all, or some of api,crawler,projector,relay,sweeper,refresher (LETTERHEAD_ROLES)")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if e.node != nil {
			return usageError{errors.New("this server is already running")}
		}
		cfg, err := e.config()
		if err != nil {
			return err
		}
		if err := cfg.CheckServe(); err != nil {
			return usageError{fmt.Errorf("settings: %w", err)}
		}
		return serve(cmd.Context(), e, cfg)
	}
	return c
}

func serveHelp() string {
	var b strings.Builder
	b.WriteString(`Serve the API. By default event log, read models, search index and assets are in the data folder.

Settings, from the environment:
`)
	for _, s := range config.Settings() {
		fmt.Fprintf(&b, "  %-29s %s\n  %-29s default: %s\n", s.Name, s.Help, "", s.ShownDefault())
	}
	return b.String()
}

// serve runs this process's roles until ctx ends.
func serve(ctx context.Context, e *environment, cfg config.Config) error {
	server := node.Server{
		Settings: cfg, Release: version, Logs: e.stderr,
		Runner: func(n *node.Node) admin.Runner {
			return func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
				inside := &environment{args: args, stdout: stdout, stderr: stderr, node: n}
				return inside.run(ctx)
			}
		},
		Begun: func(n *node.Node, begun node.Begun) error {
			if begun.New != nil {
				return greetFirst(e, n.Config, *begun.New, begun.AdminURL)
			}
			return greetAgain(e, n.Config, begun.AccountID, begun.AdminURL)
		},
	}
	return server.Serve(ctx)
}

func greetFirst(e *environment, cfg config.Config, c node.NewAccount, adminURL string) error {
	self, data := shellWord(os.Args[0]), ""
	if cfg.Data != defaultData() {
		data = " --data " + shellWord(cfg.Data)
	}
	keys, curl, err := showKeys(e, cfg, c.Keys[0].Key, c.Keys[1].Key)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, `
Letterhead serves on %[1]s

  account      %[2]s   plan %[3]s, %[4]d credits
%[5]s  start        %[1]s/
  docs         %[1]s/docs
  a logo       %[1]s/logo/github.com?size=64
               (needs no key; %[1]s/docs/logos shows more)
%[9]s
Try it:
  %[6]s %[1]s/v1/brands/github.com
  %[6]s '%[1]s/v1/search?q=githb'
  %[6]s %[1]s/v1/me
  %[7]s%[8]s ledger show --account %[2]s --last 1

`, cfg.BaseURL, c.Account.ID, c.Account.Plan, c.Credits.Balance, keys, curl, self, data, adminLine(adminURL))
	return err
}

// keysFile contains the two keys of the first account if standard output is not a terminal. A POSIX shell can read it
// with its command ".". The owner should delete it.
const keysFile = "first-keys"

// showKeys returns the lines about the keys for the greeting, and the beginning of a curl command with the secret key.
// Keys are printed only to a terminal: others may read a log that standard output is written to.
func showKeys(e *environment, cfg config.Config, secret, publishable string) (lines, curl string, err error) {
	if f, isFile := e.stdout.(*os.File); isFile && isTerminal(f) {
		return fmt.Sprintf(`  secret       %s
  publishable  %s
  The keys are shown only now; only their hashes are stored.
`, secret, publishable), "curl -s -H 'Authorization: Bearer " + secret + "'", nil
	}
	path := filepath.Join(cfg.Data, keysFile)
	text := fmt.Sprintf("LETTERHEAD_SECRET_KEY=%s\nLETTERHEAD_PUBLISHABLE_KEY=%s\n", secret, publishable)
	if err := datafolder.WriteFile(path, []byte(text)); err != nil { // mode 0600
		return "", "", fmt.Errorf("write the keys of the first account to %s: %w", path, err)
	}
	return fmt.Sprintf(`  keys         %s
  The secret and the publishable key are in this file, which only its owner can read.
  Only their hashes are stored elsewhere: keep the keys, then delete the file.
`, path), ". " + shellWord(path) + `; curl -s -H "Authorization: Bearer $LETTERHEAD_SECRET_KEY"`, nil
}

func greetAgain(e *environment, cfg config.Config, accountID, adminURL string) error {
	self, data := shellWord(os.Args[0]), ""
	if cfg.Data != defaultData() {
		data = " --data " + shellWord(cfg.Data)
	}
	_, err := fmt.Fprintf(e.stdout, `
Letterhead serves on %s

  account      %s
  another key  %s%s key issue --account %s
  start        %s/
  docs         %s/docs
%s
`, cfg.BaseURL, accountID, self, data, accountID, cfg.BaseURL, cfg.BaseURL, adminLine(adminURL))
	return err
}

// adminLine returns the line of a greeting about the admin API.
func adminLine(url string) string {
	if url == "" {
		return ""
	}
	return "  admin API    " + url + "/admin (\"letterhead admin token issue\" makes a token)\n"
}

func defaultData() string {
	abs, err := filepath.Abs("data")
	if err != nil {
		return ""
	}
	return abs
}

// shellWord quotes a word for a POSIX shell if necessary.
func shellWord(w string) string {
	if w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=+,@%") == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
