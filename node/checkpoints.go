package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/config"
	"letterhead/internal/delay"
	"letterhead/internal/download"
	"letterhead/internal/eventlog"
	"letterhead/node/datafolder"
	"letterhead/projections/accounts"
	"letterhead/projections/checkpoints"
	"letterhead/workers/checkpoint"
)

const (
	// firstCheckpointWait bounds how long a starting server waits for the first checkpoint of a ledger. With many
	// accounts it is made while the server answers.
	firstCheckpointWait = 5 * time.Second
	// maxServedEvents limits the events in a proof that is made for a request: some 120 MB, in seconds.
	maxServedEvents = 200_000
	// maxProofs limits the proofs that are made for requests at a time.
	maxProofs = 2
	// Pauses between attempts to make the first checkpoint; they double in between.
	firstCheckpointPause = time.Second
	lastCheckpointPause  = time.Minute
)

// errNoLedgerKey means that nodes that share an event store have no key for checkpoints.
var errNoLedgerKey = errors.New(`nodes that share an event store sign checkpoints of the ledger with the same key: set LETTERHEAD_LEDGER_KEY on all of them ("letterhead ledger key --new NAME" prints a key)`)

// errLostLedgerKey means that checkpoints were signed with a key that is not in the data folder.
var errLostLedgerKey = errors.New("the key that signs checkpoints is missing: set LETTERHEAD_LEDGER_KEY, restore ledger.key, or make a new one with `letterhead ledger key --rotate`")

// errBadLedgerKey means that the file of the key was damaged.
var errBadLedgerKey = errors.New("cannot be read; restore it, or remove the file and make a new one with `letterhead ledger key --rotate`")

// errOtherLedgerKey means that the key is that of another log of checkpoints.
var errOtherLedgerKey = errors.New("use a key with that name")

// keyFaults are the errors because of which no checkpoint can be signed until an operator changes the key.
var keyFaults = []error{errNoLedgerKey, errLostLedgerKey, errBadLedgerKey, errOtherLedgerKey}

// Proofs returns what makes proofs of the ledger. progress, which may be nil, is called with the number of accounts read.
func (n *Node) Proofs(progress func(accounts uint64)) *checkpoint.Ledger {
	return &checkpoint.Ledger{Log: n.Log, Accounts: n.Accounts, Progress: progress, CaughtUp: func(ctx context.Context) error { return n.FoldedTo(ctx, accounts.Name) }}
}

// Prove makes a file with a proof of an account's month at the last checkpoint. The tree of that checkpoint is read once,
// for all requests, also if ctx ends meanwhile. Errors: commands.ErrBusy if many proofs are being made, those of
// checkpoint.Ledger.Prove, ctx.Err().
func (n *Node) Prove(ctx context.Context, accountID string, month time.Time) (*download.File, error) {
	ledger := n.Proofs(nil)
	ledger.Tree = &n.proofTree
	read := make(chan error, 1)
	n.running.Go(func() {
		_, err, _ := n.treeReads.Do("", func() (any, error) {
			if err := ledger.CaughtUp(n.serving); err != nil {
				return nil, err
			}
			return nil, ledger.ReadTree(n.serving)
		})
		read <- err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-read:
		if err != nil {
			return nil, err
		}
	}
	if n.proofs.Add(1) > maxProofs {
		n.proofs.Add(-1)
		return nil, fmt.Errorf("%d proofs are being made: %w", maxProofs, commands.ErrBusy)
	}
	defer n.proofs.Add(-1)
	file, err := download.Make(func(w io.Writer) error {
		return ledger.Prove(ctx, checkpoint.Options{AccountID: accountID, Month: month, MaxEvents: maxServedEvents}, w)
	})
	if errors.Is(err, checkpoint.ErrTooManyEvents) {
		err = fmt.Errorf("%w; \"letterhead ledger prove\" has no limit", err)
	}
	return file, err
}

// MakeCheckpoint makes a checkpoint, unless since is not zero and there is one from that time on. progress is that of
// Proofs. It returns adminapi.ErrNoCheckpoint if there is no key to sign it, and otherwise the errors of checkpoint.Maker,
// with commands.ErrBusy.
func (n *Node) MakeCheckpoint(ctx context.Context, by commands.Request, since time.Time, progress func(accounts uint64)) (adminapi.Checkpoint, error) {
	maker := n.checkpointMaker(eventlog.Metadata{RequestID: by.ID, Actor: by.Actor}, progress)
	var made *checkpoint.Made
	var err error
	if since.IsZero() {
		made, err = maker.Make(ctx)
	} else {
		made, err = maker.Ensure(ctx, since)
	}
	switch {
	case err == nil:
		return adminapi.Checkpoint{Checkpoint: made.Checkpoint, Note: made.Note}, nil
	case errors.Is(err, checkpoint.ErrBusy):
		return adminapi.Checkpoint{}, fmt.Errorf("%w: %w", commands.ErrBusy, err)
	}
	for _, known := range keyFaults {
		if errors.Is(err, known) {
			return adminapi.Checkpoint{}, fmt.Errorf("%w: %w", adminapi.ErrNoCheckpoint, err)
		}
	}
	return adminapi.Checkpoint{}, err
}

func (n *Node) checkpointMaker(by eventlog.Metadata, progress func(accounts uint64)) *checkpoint.Maker {
	return &checkpoint.Maker{Ledger: *n.Proofs(progress), Encoder: eventschemas.NewEncoder(n.Runner.Format), Metadata: by, Now: n.clock.Now, Key: n.ledgerKey}
}

// openCheckpoints starts the part that makes checkpoints of a ledger. Every node ensures that there is a first one,
// because it waits for it; the later ones are made on one node at a time.
func (n *Node) openCheckpoints(context.Context) ([]part, error) {
	maker := n.checkpointMaker(eventlog.Metadata{Actor: "system:checkpoint"}, nil)
	regular := n.led("checkpoints", (&checkpoint.Regular{Maker: *maker, Logger: n.logger}).Run)
	return []part{{regular.name, func(ctx context.Context) error {
		if err := n.firstCheckpoint(ctx, maker); errors.Is(err, errNoLedgerKey) { // settings do not change while a node runs
			<-ctx.Done()
			return nil
		}
		return regular.run(ctx)
	}}}, nil
}

// firstCheckpoint makes a checkpoint if there is none. It retries until there is one, ctx ends or the key is missing.
func (n *Node) firstCheckpoint(ctx context.Context, maker *checkpoint.Maker) error {
	for pause := firstCheckpointPause; ; pause = min(2*pause, lastCheckpointPause) {
		_, err := maker.Ensure(ctx, time.Time{})
		if err == nil {
			n.checkpointed()
			return nil
		}
		if errors.Is(err, errNoLedgerKey) || errors.Is(err, errLostLedgerKey) {
			n.logger.Warn("the ledger has no checkpoints", "error", err)
			return err
		}
		if ctx.Err() == nil && !errors.Is(err, eventschemas.ErrNotYet) {
			n.logger.Warn("the first checkpoint of the ledger could not be made", "error", err, "again_in", pause)
		}
		if err := delay.For(ctx, pause); err != nil {
			return err
		}
	}
}

// awaitCheckpoint waits, for some time, until the ledger has a checkpoint that can be read.
func (n *Node) awaitCheckpoint(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, firstCheckpointWait)
	defer cancel()
	select {
	case <-n.hasCheckpoint:
		if err := n.FoldedTo(waiting, checkpoints.Name); err != nil && waiting.Err() == nil {
			n.logger.Warn("the checkpoint of the ledger cannot be read", "error", err)
		}
	case <-waiting.Done():
	case <-n.alive.Done():
		return context.Cause(n.alive)
	}
	return ctx.Err()
}

// ledgerKey returns the key that signs checkpoints, which it makes if it is kept in the data folder, unless there was one before.
// Its name must be origin, unless that is empty.
func (n *Node) ledgerKey(origin string) (note.Signer, error) {
	n.ledgerKeys.Lock()
	defer n.ledgerKeys.Unlock()
	private, err := n.privateLedgerKey(origin)
	if err != nil {
		return nil, err
	}
	key, err := note.NewSigner(private)
	if err != nil {
		return nil, fmt.Errorf("the key in %s %w", n.Config.LedgerKeyPath(), errBadLedgerKey)
	}
	if origin != "" && key.Name() != origin {
		return nil, fmt.Errorf("the key that signs checkpoints has the name %s, but the ledger's checkpoints are those of %s; %w", key.Name(), origin, errOtherLedgerKey)
	}
	return key, rememberPublicKey(n.Config, private)
}

func (n *Node) privateLedgerKey(origin string) (string, error) {
	if n.Config.LedgerKey != "" {
		return n.Config.LedgerKey, nil
	}
	if n.Config.Shared() {
		if origin != "" {
			return "", fmt.Errorf("%w; the checkpoints so far are those of %s: after a migration, use the content of ledger.key in the old data folder", errNoLedgerKey, origin)
		}
		return "", errNoLedgerKey
	}
	text, err := os.ReadFile(n.Config.LedgerKeyPath())
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if _, err := os.Stat(n.Config.LedgerKeysPath()); origin != "" || err == nil {
		return "", errLostLedgerKey
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return n.newLedgerKey("")
}

// newLedgerKey makes a key in the data folder. Its name is that of the address of the service if origin is empty.
func (n *Node) newLedgerKey(origin string) (string, error) {
	if origin == "" {
		_, address, _ := strings.Cut(n.Config.BaseURL, "://")
		origin = strings.ReplaceAll(address, "+", "-") + "/ledger"
	}
	private, err := proof.NewKey(origin)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(n.Config.Data, 0o700); err != nil {
		return "", err
	}
	return private, datafolder.WriteFile(n.Config.LedgerKeyPath(), []byte(private+"\n"))
}

// RotateLedgerKey makes a new key in the data folder, with the name of the log of checkpoints, and returns its public key.
// Earlier public keys are kept. The old key may be missing.
func (n *Node) RotateLedgerKey(ctx context.Context) (string, error) {
	if n.Config.LedgerKey != "" || n.Config.Shared() {
		return "", UsageError{errors.New(`the key that signs checkpoints is the setting LETTERHEAD_LEDGER_KEY; print a new one of the same name with "letterhead ledger key --new NAME", and set it on all nodes`)}
	}
	origin, err := n.Proofs(nil).Origin(ctx)
	if err != nil {
		return "", err
	}
	n.ledgerKeys.Lock()
	defer n.ledgerKeys.Unlock()
	old, err := os.ReadFile(n.Config.LedgerKeyPath())
	if err == nil { // its public key may be in no file yet
		err = rememberPublicKey(n.Config, strings.TrimSpace(string(old)))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the old key in %s: %w", n.Config.LedgerKeyPath(), err)
	}
	private, err := n.newLedgerKey(origin)
	if err != nil {
		return "", err
	}
	if err := rememberPublicKey(n.Config, private); err != nil {
		return "", err
	}
	return proof.PublicKey(private)
}

// rememberPublicKey adds the public key of a private key to those in the data folder.
func rememberPublicKey(cfg config.Config, private string) error {
	public, err := proof.PublicKey(private)
	if err != nil {
		return err
	}
	known, err := os.ReadFile(cfg.LedgerKeysPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if current, _, _ := strings.Cut(string(known), "\n"); current == public {
		return nil
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return err
	}
	return datafolder.WriteFile(cfg.LedgerKeysPath(), []byte(public+"\n"+string(known)))
}

// PublicLedgerKeys returns the public keys of checkpoints that this machine knows, one in each line: that of the settings
// and those in the data folder. Without any it returns "".
func PublicLedgerKeys(cfg config.Config) (string, error) {
	keys := ""
	if cfg.LedgerKey != "" {
		public, err := proof.PublicKey(cfg.LedgerKey)
		if err != nil {
			return "", err
		}
		keys = public + "\n"
	}
	known, err := os.ReadFile(cfg.LedgerKeysPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for line := range strings.Lines(string(known)) {
		if line != keys {
			keys += line
		}
	}
	return keys, nil
}
