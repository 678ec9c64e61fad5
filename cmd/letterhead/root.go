package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/internal/config"
	"letterhead/node"
	"letterhead/node/admin"
	"letterhead/node/datafolder"
)

// environment is where a command line runs: in its own process, or in a server that received it on its admin socket.
// Most commands do not need to distinguish them.
type environment struct {
	args           []string
	stdout, stderr io.Writer

	// node is set inside a server. Commands use it instead of opening their own.
	node *node.Node

	data, listen, baseURL, renderer, roles string // flags
}

func newRoot(e *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "letterhead",
		Short: "A self-hosted brand identity service",
		Long: `Letterhead answers "what does this company's brand look like?" and charges exactly one
credit when it knows. "letterhead serve" starts the service; the other commands work
on the same data folder, even while it runs.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate(versionLine())
	root.PersistentFlags().StringVar(&e.data, "data", "", "data folder (LETTERHEAD_DATA; default ./data)")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return misuse("%w; see %q", err, cmd.CommandPath()+" --help")
	})
	root.AddCommand(allCommands(e)...)
	addHelp(root)
	return root
}

func allCommands(e *environment) []*cobra.Command {
	return []*cobra.Command{
		serveCommand(e),
		demoCommand(e),
		group("account", "Create, show, suspend and change accounts", accountCreate(e), accountShow(e),
			accountList(e), accountPlan(e), accountNotices(e), accountLoginLink(e), accountSignOut(e),
			accountSignInEmail(e), accountNote(e),
			accountChange(e, "suspend", "suspended", "Reject every request of an account"),
			accountChange(e, "reinstate", "reinstated", "End a suspension"),
			accountChange(e, "close", "closed", "Close an account permanently and erase its names")),
		group("key", "Issue, list, limit and revoke API keys", keyIssue(e), keyList(e), keyLimit(e), keyRevoke(e)),
		namesCommand(e),
		group("admin", "Manage access to the admin API and the operators' console", adminLoginLink(e),
			group("token", "Issue, list and revoke tokens of operators", tokenIssue(e), tokenList(e), tokenRevoke(e))),
		group("credits", "Grant credits, refund payments and reverse charges", creditsGrant(e), creditsRefund(e),
			creditsReverse(e)),
		group("payment", "List and show payments and their refunds, and record fees", paymentList(e), paymentShow(e),
			paymentFee(e)),
		group("ledger", "Show, verify and prove grants, charges and reversals", ledgerShow(e), ledgerVerify(e),
			ledgerUndelivered(e), ledgerCheckpoint(e), ledgerProve(e), ledgerCheck(e), ledgerKey(e)),
		group("billing", "Payments through a payment processor", billingCheckout(e), billingInbox(e), billingLink(e),
			billingReconcile(e), billingSetup(e)),
		group("statement", "Show statements of accounts", statementShow(e)),
		group("books", "Report revenue, deferred revenue, usage and balances", booksRevenue(e), booksDeferred(e),
			booksUsage(e), booksTrialBalance(e), booksBreakage(e), booksClose(e), booksStatus(e)),
		group("journal", "Export the double entry of all accounts", journalExport(e)),
		group("brand", "Show and change brands", brandGet(e), brandList(e), brandOverride(e),
			brandDecision(e, "remove-override DOMAIN FIELD", "Let crawls decide a field again", "DELETE",
				"/admin/brands/{DOMAIN}/overrides/{FIELD}"),
			brandDecision(e, "claim DOMAIN", "Mark a brand as claimed by its owner", "POST",
				"/admin/brands/{DOMAIN}/claim"),
			brandDecision(e, "withdraw DOMAIN", "Remove a brand permanently at its owner's request", "POST",
				"/admin/brands/{DOMAIN}/withdraw")),
		logoCommand(e),
		crawlCommand(e),
		warmCommand(e),
		group("projections", "List, rebuild and verify the read models", projectionsList(e), projectionsRebuild(e),
			projectionsVerify(e)),
		group("events", "Print and replay the event log", eventsTail(e), replayCommand(e)),
		doctorCommand(e),
		healthCommand(e),
		backupCommand(e),
		restoreCommand(e),
		migrateCommand(e),
		group("upgrade", "Show and finish the upgrade of a cluster", upgradeStatus(e), upgradeFinish(e)),
		archiveCommand(e),
		group("recover", "Recover a damaged service", acceptLossCommand(e)),
		group("dev", "Make data for tests, demonstrations and measurements", devGenerate(e)),
		versionCommand(e),
	}
}

// group returns a command that only contains others.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(children...)
	return c
}

// maxTypos is the maximum edit distance between a word and a command that is suggested for it.
const maxTypos = 2

// noSuchCommand rejects arguments of a command that only contains others, and suggests similar commands.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	suggestion := ""
	cmd.SuggestionsMinimumDistance = maxTypos
	if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
		suggestion = fmt.Sprintf(" (similar: %s)", strings.Join(names, ", "))
	}
	return misuse("%s has no command %q%s; see %q", cmd.CommandPath(), args[0], suggestion,
		cmd.CommandPath()+" --help")
}

// command returns a command that takes the arguments that its usage line names before its flags and alternatives. Those
// in brackets are optional.
func command(use, short string) *cobra.Command {
	words := strings.Fields(use)[1:]
	end := slices.IndexFunc(words, func(word string) bool { return word == "|" || strings.HasPrefix(word, "--") })
	if end < 0 {
		end = len(words)
	}
	return &cobra.Command{Use: use, Short: short, Args: exactArgs(words[:end]...)}
}

// exactArgs accepts as many arguments as it has names, or fewer if some are in brackets.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		all := strings.Join(names, " ")
		if len(args) <= len(names) && len(args) >= len(names)-strings.Count(all, "[") {
			return nil
		}
		return misuse("%s takes the arguments %q, not %d; see %q", cmd.CommandPath(), all, len(args),
			cmd.CommandPath()+" --help")
	}
}

// config reads the settings, flags over environment.
func (e *environment) config() (config.Config, error) {
	c, err := config.FromEnvironment(map[string]string{
		"LETTERHEAD_DATA":     e.data,
		"LETTERHEAD_LISTEN":   e.listen,
		"LETTERHEAD_BASE_URL": e.baseURL,
		"LETTERHEAD_RENDERER": e.renderer,
		"LETTERHEAD_ROLES":    e.roles,
	})
	if err != nil {
		return c, misuse("settings: %w", err)
	}
	return c, nil
}

// folderRun is a command that works on the data folder.
type folderRun func(ctx context.Context, n *node.Node, cmd *cobra.Command, args []string) error

// onFolder runs a command on the data folder: inside the server if one holds the folder, otherwise in this process.
// Commands that the admin API has an operation for use onAPI instead.
func (e *environment) onFolder(use node.Use, run folderRun) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx := streamwriter.WaitForLoading(cmd.Context())
		err := e.onNode(ctx, e.args, use, node.OpenCurrent, func(n *node.Node) error { return run(ctx, n, cmd, args) })
		if use == node.ToWrite && errors.Is(err, admin.ErrBroken) {
			err = unanswered(cmd, err, "")
		}
		return err
	}
}

// reads is onFolder for heavy work that only reads. It runs in this process, even while a server holds the data folder.
func (e *environment) reads(run folderRun) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return e.onStores(ctx, e.args, node.AllShared, node.OpenCurrent,
			func(n *node.Node) error { return run(ctx, n, cmd, args) })
	}
}

// onNode runs a command inside the server that holds the data folder, to which it forwards args, or on a node that open
// opens.
func (e *environment) onNode(ctx context.Context, args []string, use node.Use, open node.Opener,
	run func(*node.Node) error) error {
	return e.on(use, open, run, func(folder string) error { return e.forward(ctx, folder, args, e.stdout) },
		func(c node.Command) error { return c.Do(ctx) })
}

// onStores is onNode for heavy work that only reads; see node.Command.DoReadOnly.
func (e *environment) onStores(ctx context.Context, args []string, apart func(config.Config) bool, open node.Opener,
	run func(*node.Node) error) error {
	return e.on(node.ToRead, open, run, func(folder string) error { return e.forward(ctx, folder, args, e.stdout) },
		func(c node.Command) error { return c.DoReadOnly(ctx, apart) })
}

// on runs a command inside the server that this is. Elsewhere do runs it, on a node that open opens or by what forward
// sends to the server that holds the data folder.
func (e *environment) on(use node.Use, open node.Opener, run func(*node.Node) error,
	forward func(folder string) error, do func(node.Command) error) error {
	if e.node != nil {
		return run(e.node)
	}
	cfg, err := e.config()
	if err != nil {
		return err
	}
	return do(node.Command{Settings: cfg, Options: e.options(use), Open: open, Run: run,
		Forward: func() error { return forward(cfg.Data) }})
}

// restored is open for a folder that a restore may have left unfinished.
func restored(open node.Opener) node.Opener {
	return func(ctx context.Context, cfg config.Config, lock *datafolder.Lock, o node.Options) (*node.Node, error) {
		if err := datafolder.CheckRestored(cfg.Data); err != nil {
			return nil, errors.Join(err, lock.Release())
		}
		return open(ctx, cfg, lock, o)
	}
}

// options returns the options of a node that a command opens.
func (e *environment) options(use node.Use) node.Options {
	return node.Options{Release: version, Logs: e.stderr, LogLevel: "warn", Use: use}
}

// forward has the server that holds the data folder run a command line.
func (e *environment) forward(ctx context.Context, folder string, args []string, stdout io.Writer) error {
	exit, err := admin.Run(ctx, folder, args, stdout, e.stderr)
	if err == nil && exit != exitOK {
		err = exitError(exit)
	}
	return err
}

func (e *environment) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(e.stdout, format, args...)
	return err
}

// print prints a result: an object as one line of JSON, or a text.
func (e *environment) print(asJSON bool, object any, format string, args ...any) error {
	if asJSON {
		return printJSON(e.stdout, object)
	}
	return e.printf(format, args...)
}

// noteIf returns a note if it applies.
func noteIf(applies bool, note string) string {
	if applies {
		return note
	}
	return ""
}

// timeOr returns a time, or a word for none.
func timeOr(t time.Time, none string) string {
	if t.IsZero() {
		return none
	}
	return t.Format(time.RFC3339)
}

// printJSON prints a value as one line of JSON.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON")
}

// explainAccount replaces account.ErrNotFound with a message that names the account.
func explainAccount(id string, err error) error {
	if errors.Is(err, account.ErrNotFound) {
		return fmt.Errorf("there is no account %s; %q lists the accounts", id, "letterhead account list")
	}
	return err
}

// helpTexts has a section for each command that has a description or examples: a line with # and its words, the
// description, and the examples as lines with $.
//
//go:embed help.txt
var helpTexts string

// addHelp adds the descriptions and examples to the commands.
func addHelp(root *cobra.Command) {
	values := strings.NewReplacer("{times}", timeForms, "{note bytes}", fmt.Sprint(account.MaxNoteBytes))
	for section := range strings.SplitSeq(strings.TrimPrefix(helpTexts, "# "), "\n# ") {
		words, text, _ := strings.Cut(section, "\n")
		description, examples, some := strings.Cut("\n"+strings.TrimSpace(text), "\n$ ")
		c, rest, err := root.Find(strings.Fields(words))
		if err != nil || len(rest) > 0 {
			panic("help.txt: there is no command " + words)
		}
		if description != "" {
			c.Long = values.Replace(description[1:])
		}
		if some {
			c.Example = "  " + strings.ReplaceAll(examples, "\n$ ", "\n  ")
		}
	}
}
