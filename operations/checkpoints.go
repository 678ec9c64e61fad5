package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"

	"letterhead/commands"
	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/config"
	"letterhead/internal/delay"
	"letterhead/internal/disk"
	"letterhead/internal/download"
	"letterhead/internal/eventlog"
	"letterhead/projections/accounts"
	"letterhead/workers/checkpoint"
)

const (
	// maxServedEvents limits the events in a proof that is made for a request: some 120 MB, in seconds.
	maxServedEvents = 200_000
	// maxProofs limits the proofs that are made for requests at a time.
	maxProofs = 2
	// Pauses between attempts to make the first checkpoint; they double in between.
	firstCheckpointPause = time.Second
	lastCheckpointPause  = time.Minute
)

// ErrNoCheckpoint means that no checkpoint of the ledger can be made, for the reason that follows.
var ErrNoCheckpoint = errors.New("no checkpoint was made")

// Errors of comparisons with what was signed.
var (
	ErrLogChanged    = checkpoint.ErrChanged
	ErrLacksAccounts = checkpoint.ErrLacks
)

// CheckpointObject returns a checkpoint for JSON.
func CheckpointObject(n *proof.Note, c proof.Checkpoint) map[string]any {
	return map[string]any{"origin": n.Origin, "size": n.Size, "root": fmt.Sprintf("%x", n.Root), "time": c.Time,
		"position": c.Position, "accounts": c.Accounts, "accounts_root": fmt.Sprintf("%x", c.Root)}
}

// Checkpoints are the use cases of checkpoints of the ledger and of proofs by them.
type Checkpoints struct {
	Reads    *Reads
	Log      eventlog.Log
	Accounts *accounts.Model
	Kept     *assets.Store // keeps the last checkpoints outside the log
	// Witness returns a witness with a name, and Witnesses are those of the setting.
	Witness   func(name string) *checkpoint.Witness
	Witnesses []*checkpoint.Witness
	Keys      *LedgerKeys
	Format    func() int // in which events are written
	Now       func() time.Time
	Logger    *slog.Logger

	tree   checkpoint.Tree // of the last checkpoint that was proved
	proofs atomic.Int32    // that are being made
}

// Proofs returns what makes proofs of the ledger. progress, which may be nil, is called with the number of accounts
// read.
func (o *Checkpoints) Proofs(progress func(accounts uint64)) *checkpoint.Ledger {
	return &checkpoint.Ledger{Log: o.Log, Accounts: o.Accounts, Progress: progress, Keeper: o.Kept, Witnesses: o.Witnesses,
		Keys:     func() (note.Verifiers, error) { return LedgerVerifiers(o.Keys.Config) },
		CaughtUp: func(ctx context.Context) error { return o.Reads.FoldedTo(ctx, accounts.Name) }}
}

// Prove makes a file with a proof of an account's month at the last checkpoint. Errors: commands.ErrBusy if many proofs are
// being made, the errors of checkpoint.Ledger.Prove.
func (o *Checkpoints) Prove(ctx context.Context, accountID string, month time.Time) (*download.File, error) {
	if o.proofs.Add(1) > maxProofs {
		o.proofs.Add(-1)
		return nil, fmt.Errorf("%d proofs are being made: %w", maxProofs, commands.ErrBusy)
	}
	defer o.proofs.Add(-1)
	ledger := o.Proofs(nil)
	ledger.Tree = &o.tree
	if err := ledger.CaughtUp(ctx); err != nil {
		return nil, err
	}
	file, err := download.Make(func(w io.Writer) error {
		return ledger.Prove(ctx, checkpoint.Options{AccountID: accountID, Month: month, MaxEvents: maxServedEvents}, w)
	})
	if errors.Is(err, checkpoint.ErrTooManyEvents) {
		err = fmt.Errorf("%w; \"letterhead ledger prove\" has no limit", err)
	}
	return file, err
}

// Make makes a checkpoint, unless since is not zero and there is one from that time on. accept is why the operator accepts
// that the log differs from what was signed, or "". It returns ErrNoCheckpoint if there is no key to sign it, and otherwise
// the errors of checkpoint.Maker, with commands.ErrBusy.
func (o *Checkpoints) Make(ctx context.Context, by commands.Request, since time.Time, accept string) (made *checkpoint.Made, err error) {
	maker := o.Maker(eventlog.Metadata{RequestID: by.ID, Actor: by.Actor})
	maker.Accept = accept
	if since.IsZero() {
		made, err = maker.Make(ctx)
	} else {
		made, err = maker.Ensure(ctx, since)
	}
	if made != nil && !o.Keys.Config.Shared() { // otherwise the sweeper that leads gives it to them
		maker.WriteAll(ctx, func(string, bool) {})
	}
	switch {
	case errors.Is(err, checkpoint.ErrBusy):
		err = fmt.Errorf("%w: %w", commands.ErrBusy, err)
	case slices.ContainsFunc(keyFaults, func(known error) bool { return errors.Is(err, known) }):
		err = fmt.Errorf("%w: %w", ErrNoCheckpoint, err)
	}
	return made, err
}

// Maker returns what makes checkpoints with metadata.
func (o *Checkpoints) Maker(by eventlog.Metadata) *checkpoint.Maker {
	return &checkpoint.Maker{
		Ledger: *o.Proofs(nil), Encoder: eventschemas.NewEncoder(o.Format), Metadata: by, Now: o.Now, Key: o.Keys.Key,
	}
}

// slowCheckpoint is the age from which a checkpoint that has begun counts as stuck. A million accounts take a minute.
const slowCheckpoint = 5 * time.Minute

// Problem returns a sentence about a checkpoint that began some time ago and is not signed, or "". It follows from the log,
// so every node says it. A log that cannot be read is another problem.
func (o *Checkpoints) Problem(ctx context.Context) string {
	last, err := o.Log.ReadStream(ctx, eventschemas.CheckpointsStream, eventlog.End, eventlog.Backward, 1)
	if err != nil || len(last) == 0 || last[0].Type != (eventschemas.CheckpointBegun{}).EventType() ||
		o.Now().Sub(last[0].OccurredAt) < slowCheckpoint {
		return ""
	}
	return fmt.Sprintf(`the checkpoint of the ledger that began at %s is not signed; "letterhead ledger checkpoint" says why`,
		last[0].OccurredAt.UTC().Format(time.RFC3339))
}

// First makes a checkpoint if there is none. It retries until there is one, ctx ends, the key is missing, or the log differs
// from what was signed. Errors: ErrNoLedgerKey, errLostLedgerKey, checkpoint.ErrChanged, checkpoint.ErrLacks, ctx.Err().
func (o *Checkpoints) First(ctx context.Context, maker *checkpoint.Maker) error {
	for pause := firstCheckpointPause; ; pause = min(2*pause, lastCheckpointPause) {
		made, err := maker.Ensure(ctx, time.Time{})
		if made != nil { // if it is not kept, checkpoint.Regular tries again
			return nil
		}
		until := []error{ErrNoLedgerKey, errLostLedgerKey, ErrLogChanged, ErrLacksAccounts}
		if slices.ContainsFunc(until, func(known error) bool { return errors.Is(err, known) }) {
			o.Logger.Warn("the ledger has no checkpoints", "error", err)
			return err
		}
		if ctx.Err() == nil && !errors.Is(err, eventschemas.ErrNotYet) {
			o.Logger.Warn("the first checkpoint of the ledger could not be made", "error", err, "again_in", pause)
		}
		if err := delay.For(ctx, pause); err != nil {
			return err
		}
	}
}

// RotateKey makes a new key in the data folder, with the name of the log of checkpoints, and returns its public key.
// Earlier public keys are kept. The old key may be missing.
func (o *Checkpoints) RotateKey(ctx context.Context) (string, error) {
	if o.Keys.Config.LedgerKey != "" || o.Keys.Config.Shared() {
		return "", UsageError{Err: errors.New(`the key that signs checkpoints is the setting LETTERHEAD_LEDGER_KEY; print a new one of the same name with "letterhead ledger key --new NAME", and set it on all nodes`)}
	}
	origin, err := o.Proofs(nil).Origin(ctx)
	if err != nil {
		return "", err
	}
	return o.Keys.rotate(origin)
}

// ErrNoLedgerKey means that nodes that share an event store have no key for checkpoints.
var ErrNoLedgerKey = errors.New(`nodes that share an event store sign checkpoints of the ledger with the same key: set LETTERHEAD_LEDGER_KEY on all of them ("letterhead ledger key --new NAME" prints a key)`)

// errLostLedgerKey means that checkpoints were signed with a key that is not in the data folder.
var errLostLedgerKey = errors.New("the key that signs checkpoints is missing: set LETTERHEAD_LEDGER_KEY, restore ledger.key, or make a new one with `letterhead ledger key --rotate`")

// errBadLedgerKey means that the file of the key was damaged.
var errBadLedgerKey = errors.New(
	"cannot be read; restore it, or remove the file and make a new one with `letterhead ledger key --rotate`")

// errOtherLedgerKey means that the key belongs to another log of checkpoints.
var errOtherLedgerKey = errors.New("use a key with that name")

// keyFaults are the errors because of which no checkpoint can be signed until an operator changes the key.
var keyFaults = []error{ErrNoLedgerKey, errLostLedgerKey, errBadLedgerKey, errOtherLedgerKey}

// LedgerKeys are the keys that sign checkpoints of the ledger.
type LedgerKeys struct {
	Config config.Config

	files sync.Mutex // guards the files of the keys
}

// Key returns the key that signs checkpoints, which it makes if it is kept in the data folder, unless there was one
// before. Its name must be origin, unless that is empty.
func (o *LedgerKeys) Key(origin string) (note.Signer, error) {
	o.files.Lock()
	defer o.files.Unlock()
	private, err := o.private(origin)
	if err != nil {
		return nil, err
	}
	key, err := note.NewSigner(private)
	if err != nil {
		return nil, fmt.Errorf("the key in %s %w", o.Config.LedgerKeyPath(), errBadLedgerKey)
	}
	if origin != "" && key.Name() != origin {
		return nil, fmt.Errorf(
			"the key that signs checkpoints has the name %s, but the ledger's checkpoints have the name "+
				"%s; %w", key.Name(), origin, errOtherLedgerKey)
	}
	return key, rememberPublicKey(o.Config, private)
}

func (o *LedgerKeys) private(origin string) (string, error) {
	if o.Config.LedgerKey != "" {
		return o.Config.LedgerKey, nil
	}
	if o.Config.Shared() {
		if origin != "" {
			return "", fmt.Errorf("%w; the checkpoints so far have the name %s: after a migration, use the content of "+
				"ledger.key in the old data folder", ErrNoLedgerKey, origin)
		}
		return "", ErrNoLedgerKey
	}
	text, err := os.ReadFile(o.Config.LedgerKeyPath())
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if _, err := os.Stat(o.Config.LedgerKeysPath()); origin != "" || err == nil {
		return "", errLostLedgerKey
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return o.create("")
}

// create makes a key in the data folder. If origin is empty, its name follows from the address of the service.
func (o *LedgerKeys) create(origin string) (string, error) {
	if origin == "" {
		_, address, _ := strings.Cut(o.Config.BaseURL, "://")
		origin = strings.ReplaceAll(address, "+", "-") + "/ledger"
	}
	private, err := proof.NewKey(origin)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(o.Config.Data, 0o700); err != nil {
		return "", err
	}
	return private, disk.WriteText(o.Config.LedgerKeyPath(), private+"\n")
}

// rotate makes a new key in the data folder, with a name, and returns its public key.
func (o *LedgerKeys) rotate(origin string) (string, error) {
	o.files.Lock()
	defer o.files.Unlock()
	old, err := os.ReadFile(o.Config.LedgerKeyPath())
	if err == nil { // its public key may be in no file yet
		err = rememberPublicKey(o.Config, strings.TrimSpace(string(old)))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the old key in %s: %w", o.Config.LedgerKeyPath(), err)
	}
	private, err := o.create(origin)
	if err != nil {
		return "", err
	}
	if err := rememberPublicKey(o.Config, private); err != nil {
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
	return disk.WriteText(cfg.LedgerKeysPath(), public+"\n"+string(known))
}

// PublicLedgerKeys returns the public keys of checkpoints that this machine knows, one in each line: of the settings
// and of the data folder. Without any it returns "".
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

// LedgerVerifiers parses the public keys of checkpoints that this machine knows. It fails if there is none.
func LedgerVerifiers(cfg config.Config) (note.Verifiers, error) {
	text, err := PublicLedgerKeys(cfg)
	if err != nil {
		return nil, err
	}
	keys, err := proof.ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("the public keys of checkpoints (ledger.pub): %w", err)
	}
	return keys, nil
}
