package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"letterhead/domain/books"
	"letterhead/domain/proof"
	"letterhead/domain/statement"
	"letterhead/internal/disk"
	"letterhead/node"
	"letterhead/operations"
	"letterhead/workers/backup"
	"letterhead/workers/checkpoint"
)

// maxNoteFile limits how much is read of a file with a checkpoint. A proof has it at the beginning.
const maxNoteFile = 64 << 10

func ledgerCheckpoint(e *environment) *cobra.Command {
	c := command("checkpoint", "Make a signed checkpoint of the ledger")
	c.Flags().String("since", "",
		"only if there is no checkpoint from this time on; else print the last one: "+timeForms)
	c.Flags().String("accept-changes", "", "sign although the log differs from what was signed; the reason, which is recorded")
	return show(e, c, "POST", "/admin/ledger/checkpoints", func(_ *client, made struct{ Note string }) error {
		return e.printf("%s", made.Note)
	})
}

// countAccounts shows the progress of a command that reads the streams of all accounts.
func (e *environment) countAccounts(what string) func(accounts uint64) {
	show := stages(e.stderr, what)
	return func(accounts uint64) { show(backup.Progress{Stage: backup.StageChains, Done: accounts}) }
}

func ledgerProve(e *environment) *cobra.Command {
	c := command("prove", "Write a proof of an account's month")
	accountID := c.Flags().String("account", "", "account id")
	month := c.Flags().String("month", "", "month, such as 2026-11")
	since := c.Flags().String("since", "",
		"file with an earlier checkpoint or proof: also prove that the log of checkpoints continues it")
	output := c.Flags().StringP("output", "o", "", "file to write; - is standard output")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *accountID == "":
			return misuse("--account is needed; %q lists the accounts", "letterhead account list")
		case *output == "":
			return misuse("-o is needed: the file to write, or - for standard output")
		}
		o := checkpoint.Options{AccountID: *accountID}
		var err error
		if o.Month, err = monthOf("--month", *month); err != nil {
			return err
		}
		if time.Now().Before(o.Month) { // before a checkpoint is made for it
			return fmt.Errorf("%s: %w", *month, statement.ErrNotBegun)
		}
		if *since != "" {
			if o.Since, err = readNote(*since); err != nil {
				return err
			}
		}
		if err := e.checkpointAfter(cmd, o.Month.AddDate(0, 1, 0)); err != nil {
			return err
		}
		return e.reads(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
			var err error
			if o.AccountID, err = accountIn(ctx, n, cmd, o.AccountID); err != nil {
				return err
			}
			prove := func(w io.Writer) error {
				return n.Operations.Checkpoints.Proofs(e.countAccounts("prove")).Prove(ctx, o, w)
			}
			if *output == "-" {
				return prove(e.stdout)
			}
			return disk.WriteFile(*output, prove)
		})(cmd, args)
	}
	return c
}

// checkpointAfter makes a checkpoint, unless the month's end has passed and there is one from after it.
func (e *environment) checkpointAfter(cmd *cobra.Command, end time.Time) error {
	in := map[string]string{}
	if !time.Now().Before(end) {
		in["since"] = end.Format(time.RFC3339)
	}
	return e.onAPI(node.ToWrite, func(x *client) error {
		return x.call("POST", "/admin/ledger/checkpoints", in, &struct{}{})
	})(cmd, nil)
}

func ledgerCheck(e *environment) *cobra.Command {
	c := command("check FILE", "Verify a proof, without the service")
	given := c.Flags().StringArray("key", nil,
		"public key, or a file with public keys, one in each line; may be given several times")
	since := c.Flags().String("since", "",
		"file with an earlier proof, whose events the account must still have, or with an earlier checkpoint; the log of checkpoints must be a continuation of it")
	asJSON := jsonFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		keys, err := e.publicKeys(*given)
		if err != nil {
			return err
		}
		var old *proof.Earlier
		if *since != "" {
			old, err = readFile(*since, func(r io.Reader) (*proof.Earlier, error) { return proof.ReadEarlier(r, keys) })
			if err != nil {
				return err
			}
		}
		report, err := readFile(args[0], func(r io.Reader) (*proof.Report, error) { return proof.Check(r, keys, old) })
		if err != nil {
			return err
		}
		return e.printReport(args[0], report, old, *asJSON)
	}
	return c
}

func (e *environment) printReport(name string, r *proof.Report, old *proof.Earlier, asJSON bool) error {
	if asJSON {
		object := map[string]any{"account": r.AccountID, "month": r.Month.Format(books.MonthLayout),
			"provisional": r.Provisional, "events": r.Events,
			"checkpoint": operations.CheckpointObject(r.Note, r.Checkpoint)}
		if old != nil {
			object["since"] = old.Note.Size
			if r.Unchanged > 0 {
				object["since_events"] = r.Unchanged
			}
		}
		return printJSON(e.stdout, object)
	}
	events := "1 event"
	if r.Events != 1 {
		events = fmt.Sprintf("%d events", r.Events)
	}
	_, err := fmt.Fprintf(e.stdout,
		"%s is valid: %s of account %s and its statement for %s%s, in checkpoint %d of %s from %s\n",
		name, events, r.AccountID, r.Month.Format(books.MonthLayout),
		noteIf(r.Provisional, " (provisional: the month had not ended)"), r.Note.Size, r.Note.Origin, r.Checkpoint.Time.Format(time.RFC3339))
	if err == nil && old != nil {
		history := "to see whether the account's events have changed since then, give an earlier proof of this account"
		if old.Proof != nil {
			history += ", not of " + old.Proof.AccountID
		}
		if r.Unchanged > 0 {
			history = fmt.Sprintf("the account still has every event of the earlier proof, unchanged (%d)", r.Unchanged)
		}
		_, err = fmt.Fprintf(e.stdout, "the log of checkpoints continues checkpoint %d; %s\n", old.Note.Size, history)
	}
	return err
}

// publicKeys parses public keys, and files of them; without any it returns the keys of the data folder.
func (e *environment) publicKeys(keys []string) (note.Verifiers, error) {
	if len(keys) == 0 {
		cfg, err := e.config()
		if err != nil {
			return nil, err
		}
		text, err := operations.PublicLedgerKeys(cfg)
		if err != nil {
			return nil, err
		}
		if text == "" {
			return nil, misuse("there is no public key: give one with --key, or name the data folder of the service with --data (%s has none)", cfg.Data)
		}
		return proof.ParseKeys(text)
	}
	var all strings.Builder
	for _, key := range keys {
		text, err := publicKey(key)
		if err != nil {
			return nil, usageError{Err: err}
		}
		fmt.Fprintln(&all, text)
	}
	return proof.ParseKeys(all.String())
}

// publicKey returns a public key, or the content of a file of them.
func publicKey(key string) (string, error) {
	_, err := proof.ParseKeys(key)
	if err == nil {
		return key, nil
	}
	if errors.Is(err, proof.ErrPrivateKey) {
		return "", fmt.Errorf("--key: %w", err)
	}
	text, err := os.ReadFile(key)
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		err = e.Err // without the name, which may be a key
	}
	if err != nil {
		return "", fmt.Errorf("--key is neither a public key like name+0123abcd+AbC… nor a file: %w", err)
	}
	if _, err := proof.ParseKeys(string(text)); err != nil {
		return "", fmt.Errorf("--key %s: %w", key, err)
	}
	return string(text), nil
}

// readNote returns the checkpoint in a file, whose signature is not checked.
func readNote(name string) (*proof.Note, error) {
	return readFile(name, func(r io.Reader) (*proof.Note, error) {
		text, err := io.ReadAll(io.LimitReader(r, maxNoteFile))
		if err != nil {
			return nil, err
		}
		return proof.ReadNote(text)
	})
}

func ledgerKey(e *environment) *cobra.Command {
	c := command("key", "Show, replace or make the key that signs checkpoints")
	c.Annotations = map[string]string{ifUnanswered: `: run "letterhead ledger key" to see`}
	rotate := c.Flags().Bool("rotate", false, "make a new key in the data folder")
	name := c.Flags().String("new", "",
		"print a new private key with this name, such as brands.example.com/ledger, and keep nothing")
	show := func(cmd *cobra.Command, _ []string) error {
		cfg, err := e.config()
		if err != nil {
			return err
		}
		keys, err := operations.PublicLedgerKeys(cfg)
		if err == nil && keys == "" {
			err = fmt.Errorf("%s has no key yet; the first checkpoint makes it", cfg.Data)
		}
		if err != nil {
			return err
		}
		return e.printf("%s", keys)
	}
	replace := e.onFolder(node.ToWrite, func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		public, err := n.Operations.Checkpoints.RotateKey(ctx)
		if err == nil {
			_, err = fmt.Fprintln(e.stdout, public)
		}
		return err
	})
	c.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *rotate && *name != "":
			return misuse("--rotate and --new cannot be combined")
		case *rotate:
			return replace(cmd, args)
		case *name == "":
			return show(cmd, args)
		}
		private, err := proof.NewKey(strings.TrimSpace(*name))
		if err != nil {
			return misuse("--new: %w", err)
		}
		return e.printf("%s\n", private)
	}
	return c
}
