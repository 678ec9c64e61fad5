package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/domain/operator"
	"letterhead/domain/signin"
	"letterhead/internal/config"
	"letterhead/internal/disk"
	"letterhead/node"
	"letterhead/node/admin"
	"letterhead/operations"
	"letterhead/readapi"
)

func serveCommand(e *environment) *cobra.Command {
	c := command("serve", "Serve the API with all data in one folder, or run some roles of a distributed service")
	c.Long = serveHelp()
	c.Flags().StringVar(&e.listen, "listen", "", "address to serve on (LETTERHEAD_LISTEN; default 127.0.0.1:8080)")
	c.Flags().StringVar(&e.baseURL, "base-url", "", "URL under which clients reach this service (LETTERHEAD_BASE_URL)")
	c.Flags().StringVar(&e.renderer, "renderer", "",
		"browser for pages that are empty without their scripts: off or chromium (LETTERHEAD_RENDERER)")
	c.Flags().StringVar(&e.roles, "roles", "",
		"roles of this process: all, or some of api,crawler,projector,relay,sweeper,refresher (LETTERHEAD_ROLES)")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if e.node != nil {
			return misuse("this server is already running")
		}
		cfg, err := e.config()
		if err != nil {
			return err
		}
		if err := cfg.CheckServe(); err != nil {
			return misuse("settings: %w", err)
		}
		return serve(cmd.Context(), e, cfg, func(n *node.Node, begun node.Begun) error {
			if begun.New != nil {
				return greetFirst(cmd.Context(), e, n, *begun.New, begun.AdminURL)
			}
			return greetAgain(cmd.Context(), e, n, begun.AccountID, begun.AdminURL)
		})
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

// serve runs this process's roles until ctx ends. It calls begun when a node with a log of its own serves everything.
func serve(ctx context.Context, e *environment, cfg config.Config, begun func(*node.Node, node.Begun) error) error {
	node.SpareCollector()
	server := node.Server{
		Settings: cfg, Release: version, Logs: e.stderr,
		Runner: func(n *node.Node) admin.Runner {
			return func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
				inside := &environment{args: args, stdout: stdout, stderr: stderr, node: n}
				return inside.run(ctx)
			}
		},
		Begun: begun,
	}
	return server.Serve(ctx)
}

// greetFirst prints what a person needs after the first start.
func greetFirst(ctx context.Context, e *environment, n *node.Node, c operations.NewAccount, adminURL string) error {
	cfg := n.Config
	self := commandFor(cfg)
	keys, curl, err := showKeys(e, cfg, c.Keys[0].Key, c.Keys[1].Key)
	if err != nil {
		return err
	}
	signIn, err := showSignIn(ctx, e, n, c.Account.ID, self)
	if err != nil {
		return err
	}
	operators, err := showOperatorSignIn(ctx, e, n, adminURL, self)
	if err != nil {
		return err
	}
	return e.printf(`
%[1]s  account      %[2]s   plan %[3]s, %[4]d credits
%[5]s%[6]s%[7]s  look-up      %[8]s %[9]s/v1/brands/github.com
  ledger       %[10]s ledger show --account %[2]s --last 1
`, addresses(cfg, adminURL), c.Account.ID, c.Account.Plan, c.Credits.Balance, keys, signIn, operators, curl,
		cfg.BaseURL, self)
}

// Secrets go to these files in the data folder, with mode 0600, if standard output is not a terminal.
const (
	// keysFile contains the two keys of the first account. A POSIX shell can read it with its command ".". The owner
	// should delete it.
	keysFile = "first-keys"
	// signInFile contains a link to sign in to the dashboard of the first account.
	signInFile = "sign-in-link"
	// operatorSignInFile contains a link to sign in to the operators' console.
	operatorSignInFile = "operator-sign-in-link"
)

// showKeys returns the lines about the keys for the greeting, and the beginning of a curl command with the secret key.
// Keys are printed only to a terminal: others may read a log that standard output is written to.
func showKeys(e *environment, cfg config.Config, secret, publishable string) (lines, curl string, err error) {
	if onTerminal(e.stdout) {
		return fmt.Sprintf(`  secret       %s
  publishable  %s   (shown only now)
`, secret, publishable), "curl -s -H 'Authorization: Bearer " + secret + "'", nil
	}
	path := filepath.Join(cfg.Data, keysFile)
	text := fmt.Sprintf("LETTERHEAD_SECRET_KEY=%s\nLETTERHEAD_PUBLISHABLE_KEY=%s\n", secret, publishable)
	if err := disk.WriteText(path, text); err != nil { // mode 0600
		return "", "", fmt.Errorf("write the keys of the first account to %s: %w", path, err)
	}
	return fmt.Sprintf("  keys         %s   (keep them, then delete the file: they are stored nowhere else)\n", path), ". " + readapi.ShellWord(path) + `; curl -s -H "Authorization: Bearer $LETTERHEAD_SECRET_KEY"`, nil
}

// showSignIn returns the lines about signing in to the dashboard of an account that was just opened.
func showSignIn(ctx context.Context, e *environment, n *node.Node, accountID, self string) (string, error) {
	link, err := n.Operations.SignIns.IssueLink(ctx, n.Operator(), accountID, signin.Owner)
	if err != nil { // the service runs all the same
		slog.WarnContext(ctx, "no link to sign in was issued", slog.Any("error", err))
		return signInCommand(self, accountID), nil
	}
	return showLink(e, "dashboard", link.URL, filepath.Join(n.Config.Data, signInFile), signin.LinkLifetime)
}

// firstOperator is the name of the operator who signs in with the link of the first start.
const firstOperator = "first operator"

// showOperatorSignIn returns the lines about signing in to the operators' console at the first start.
func showOperatorSignIn(ctx context.Context, e *environment, n *node.Node, adminURL, self string) (string, error) {
	if adminURL == "" {
		return "", nil
	}
	link, err := n.Operations.Tokens.IssueLink(ctx, n.Operator(), firstOperator, operator.Admin)
	if err != nil { // the service runs all the same
		slog.WarnContext(ctx, "no link for operators to sign in was issued", slog.Any("error", err))
		return operatorCommand(adminURL, self), nil
	}
	return showLink(e, "operators", link.URL, filepath.Join(n.Config.Data, operatorSignInFile), operator.LinkLifetime)
}

// showLink returns the line about a link that signs in to a dashboard. Without a terminal the link is in a file.
func showLink(e *environment, dashboard, url, path string, lifetime time.Duration) (string, error) {
	if !onTerminal(e.stdout) {
		if err := disk.WriteText(path, url+"\n"); err != nil {
			return "", fmt.Errorf("write the link to sign in to %s: %w", path, err)
		}
		url = path
	}
	return fmt.Sprintf("  %-12s %s   (signs in once, within %d minutes)\n", dashboard, url, lifetime/time.Minute), nil
}

// signInCommand returns the line with the command that makes a link to sign in.
func signInCommand(self, accountID string) string {
	return fmt.Sprintf("  dashboard    %s account login-link --account %s\n", self, accountID)
}

// operatorCommand returns the line with the command that makes a link for operators to sign in, if there is a dashboard
// for them.
func operatorCommand(adminURL, self string) string {
	if adminURL == "" {
		return ""
	}
	return fmt.Sprintf("  operators    %s admin login-link --operator NAME --scope admin\n", self)
}

// greetAgain prints what a person needs after any other start. At a terminal it has a link to sign in to the dashboard
// of the account: a service that starts again by itself needs none. Operators have names, so a command makes their
// links.
func greetAgain(ctx context.Context, e *environment, n *node.Node, accountID, adminURL string) error {
	cfg := n.Config
	self := commandFor(cfg)
	signIn, err := signInCommand(self, accountID), error(nil)
	if onTerminal(e.stdout) {
		if signIn, err = showSignIn(ctx, e, n, accountID, self); err != nil {
			return err
		}
	}
	return e.printf("\n%s  account      %s\n  another key  %s key issue --account %[2]s\n%[4]s%[5]s", addresses(cfg, adminURL),
		accountID, self, signIn, operatorCommand(adminURL, self))
}

// addresses returns the lines with which a greeting begins.
func addresses(cfg config.Config, adminURL string) string {
	operators := "  operators    off; LETTERHEAD_ADMIN_LISTEN=" + config.DefaultAdminListen + " turns their pages on\n"
	if adminURL != "" {
		operators = "  admin API    " + adminURL + "/admin/openapi.yaml\n"
	}
	return fmt.Sprintf("%s serves on %s\n  first page   %[2]s/   API %[2]s/docs\n%[3]s", cfg.Name, cfg.BaseURL, operators)
}

// commandFor returns the command line that later commands for the data folder begin with.
func commandFor(cfg config.Config) string {
	self := readapi.ShellWord(os.Args[0])
	if cfg.Data != defaultData() {
		self += " --data " + readapi.ShellWord(cfg.Data)
	}
	return self
}

func defaultData() string {
	abs, err := filepath.Abs("data")
	if err != nil {
		return ""
	}
	return abs
}
