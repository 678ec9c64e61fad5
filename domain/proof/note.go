package proof

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// maxKeys limits the keys of ParseKeys.
const maxKeys = 1000

// ErrPrivateKey: a text that should be a public key is a private one.
var ErrPrivateKey = errors.New(
	`this is a private key, which belongs to the service alone; "letterhead ledger key" prints the public one`)

// Errors of Open and of the checks that use it.
var (
	// ErrUnknownKey: none of the given keys has made the signature.
	ErrUnknownKey = errors.New("is signed by a key that was not given")
	// ErrSignature: the signature does not belong to the text.
	ErrSignature = errors.New("has a wrong signature")
	// ErrNote: the text is not a signed checkpoint.
	ErrNote = errors.New("is not a signed checkpoint")
)

// Note is a signed checkpoint: the root of the log of checkpoints.
type Note struct {
	Origin string // name of the log; the name of each of its keys
	Size   uint64 // checkpoints in the log
	Root   Hash
	Text   string // with the signature
}

// noteText returns the text that is signed.
func noteText(origin string, size uint64, root Hash) string {
	return fmt.Sprintf("%s\n%d\n%s\n", origin, size, base64.StdEncoding.EncodeToString(root[:]))
}

// Sign returns the signed checkpoint of a log, whose origin is the name of the key.
func Sign(key note.Signer, size uint64, root Hash) (string, error) {
	signed, err := note.Sign(&note.Note{Text: noteText(key.Name(), size, root)}, key)
	return string(signed), err
}

// noteLines is the number of lines of a signed checkpoint: origin, size, root, an empty line, and one signature.
const noteLines = 5

// ParseNote parses a signed checkpoint and does not check its signature. Errors: ErrNote.
func ParseNote(text string) (*Note, error) {
	lines := strings.SplitAfter(text, "\n")
	if len(lines) != noteLines+1 || lines[noteLines] != "" || lines[noteLines-2] != "\n" {
		return nil, fmt.Errorf("the text %w: want %d lines", ErrNote, noteLines)
	}
	origin, number := strings.TrimSuffix(lines[0], "\n"), strings.TrimSuffix(lines[1], "\n")
	root, err := base64.StdEncoding.DecodeString(lines[2])
	size, sizeErr := strconv.ParseUint(number, 10, 64)
	if err != nil || sizeErr != nil || size == 0 || len(root) != len(Hash{}) ||
		noteText(origin, size, Hash(root)) != strings.Join(lines[:3], "") {
		return nil, fmt.Errorf("the text %w: want an origin, a number above 0 and a base64 hash", ErrNote)
	}
	return &Note{Origin: origin, Size: size, Root: Hash(root), Text: text}, nil
}

// ParseNotes parses signed checkpoints that follow one another, and does not check their signatures. The rest is what
// follows the last one that has all of its lines. Errors: ErrNote.
func ParseNotes(text string) (notes []*Note, rest string, err error) {
	for first := 1; ; first += noteLines {
		lines := strings.SplitAfterN(text, "\n", noteLines+1)
		if len(lines) <= noteLines {
			return notes, text, nil
		}
		n, err := ParseNote(strings.Join(lines[:noteLines], ""))
		if err != nil {
			return nil, "", fmt.Errorf("line %d: %w", first, err)
		}
		notes, text = append(notes, n), lines[noteLines]
	}
}

// Open parses a signed checkpoint and checks its signature. Errors: ErrNote, ErrUnknownKey, ErrSignature.
func Open(text string, keys note.Verifiers) (*Note, error) {
	n, err := ParseNote(text)
	if err != nil {
		return nil, err
	}
	opened, err := note.Open([]byte(text), keys)
	if e := (*note.UnverifiedNoteError)(nil); errors.As(err, &e) && len(e.Note.UnverifiedSigs) == 1 {
		sig := e.Note.UnverifiedSigs[0]
		return nil, fmt.Errorf("the checkpoint %w: %s+%08x", ErrUnknownKey, sig.Name, sig.Hash)
	}
	if e := (*note.InvalidSignatureError)(nil); errors.As(err, &e) {
		return nil, fmt.Errorf("the checkpoint %w", ErrSignature)
	}
	if err != nil {
		return nil, fmt.Errorf("the text %w: %w", ErrNote, err)
	}
	sig := opened.Sigs[0]
	// The bits of a base64 text after its last byte are not part of the signature.
	raw, err := base64.StdEncoding.DecodeString(sig.Base64)
	if err != nil || base64.StdEncoding.EncodeToString(raw) != sig.Base64 {
		return nil, fmt.Errorf("the checkpoint %w", ErrSignature)
	}
	if sig.Name != n.Origin {
		return nil, fmt.Errorf("the checkpoint %w: the key %s is not that of %s", ErrSignature, sig.Name, n.Origin)
	}
	return n, nil
}

// NewKey makes a key of a log with this origin, which is its name.
func NewKey(origin string) (private string, err error) {
	private, _, err = note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return "", err
	}
	if _, err := note.NewSigner(private); err != nil {
		return "", fmt.Errorf("%q cannot be the name of a key: %w", origin, err)
	}
	return private, nil
}

// PublicKey returns the public key of a private key, as ParseKeys takes it.
func PublicKey(private string) (string, error) {
	signer, err := note.NewSigner(private)
	if err != nil {
		return "", errors.New("the text is not a private key of a checkpoint (PRIVATE+KEY+…)")
	}
	// PRIVATE+KEY+name+hash+key; only the last part may contain a plus.
	parts := strings.SplitN(private, "+", 5)
	raw, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return "", errors.New("the private key is not one of Ed25519")
	}
	public := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
	return note.NewEd25519VerifierKey(signer.Name(), public)
}

// privatePrefix begins a private key.
const privatePrefix = "PRIVATE+KEY+"

// ParseKeys parses public keys, one in each line. Its errors do not contain the lines, which may be private.
func ParseKeys(text string) (note.Verifiers, error) {
	var known []string
	var keys []note.Verifier
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" || slices.Contains(known, line) {
			continue
		}
		if len(keys) == maxKeys {
			return nil, fmt.Errorf("there are more than %d keys", maxKeys)
		}
		if strings.HasPrefix(line, privatePrefix) {
			return nil, fmt.Errorf("line %d: %w", number, ErrPrivateKey)
		}
		key, err := note.NewVerifier(line)
		if err != nil {
			return nil, fmt.Errorf("line %d is not a public key like name+0123abcd+AbC…", number)
		}
		known, keys = append(known, line), append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no public key")
	}
	return note.VerifierList(keys...), nil
}

// ReadNote returns the signed checkpoint in a file, which is that checkpoint or a proof. It does not check anything.
// Errors: ErrNote.
func ReadNote(file []byte) (*Note, error) {
	if !bytes.HasPrefix(file, []byte(firstLine+"\n")) {
		return ParseNote(string(file))
	}
	lines := bytes.SplitAfterN(file, []byte("\n"), headerLines+noteLines+1)
	if len(lines) <= headerLines+noteLines {
		return nil, fmt.Errorf("the file %w: it ends early", ErrNote)
	}
	return ParseNote(string(bytes.Join(lines[headerLines:headerLines+noteLines], nil)))
}
