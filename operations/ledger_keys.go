package operations

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/note"

	"letterhead/domain/proof"
	"letterhead/internal/config"
	"letterhead/internal/disk"
)

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
