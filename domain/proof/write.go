package proof

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"letterhead/domain/books"
	"letterhead/eventschemas"
)

// Errors of making a proof.
var (
	// ErrNotInCheckpoint: the account was opened after the last checkpoint, or does not exist.
	ErrNotInCheckpoint = errors.New("is not in the last checkpoint")
	// ErrTooManyEvents: the account has more events than a proof may have.
	ErrTooManyEvents = errors.New("more than the limit")
)

// Lines of a proof. The text before the first section has headerLines lines.
const (
	firstLine      = "letterhead proof 1"
	accountPrefix  = "account "
	monthPrefix    = "month "
	provisional    = " provisional"
	checkpointLine = "checkpoint"
	sinceLine      = "since"
	logLine        = "log"
	leafPrefix     = "accounts, leaf "
	eventsLine     = "events"
	statementLine  = "statement"
	headerLines    = 5
)

// Proof is what a proof contains before the account's events.
type Proof struct {
	Month time.Time // its beginning
	Note  *Note
	// Since is an earlier checkpoint of the log, or nil, and Consistency the proof that Note continues it.
	Since       *Note
	Consistency []Hash
	Checkpoint  Checkpoint // the last one of the log
	Log         []Children // from the root of the log to Checkpoint
	Account     Account    // as of Checkpoint
	Index       uint64     // of the account in the tree of Checkpoint
	Accounts    []Children // from the root of that tree to the account
}

// IsProvisional reports whether the checkpoint was made before the end of the month, so that the month may get more
// events.
func (p *Proof) IsProvisional() bool { return p.Checkpoint.Time.Before(p.Month.AddDate(0, 1, 0)) }

// Write writes a proof. events are the account's stream up to the revision of p.Account.
// Errors: as w and of events, and the errors of events that cannot be decoded.
func Write(w io.Writer, p *Proof, events iter.Seq2[Event, error]) error {
	out := bufio.NewWriter(w) // remembers its first error
	state := ""
	if p.IsProvisional() {
		state = provisional
	}
	fmt.Fprintf(out, "%s\n%s%s\n%s%s%s\n\n%s\n%s\n", firstLine, accountPrefix, p.Account.ID, monthPrefix,
		p.Month.Format(books.MonthLayout), state, checkpointLine, p.Note.Text)
	if p.Since != nil {
		fmt.Fprintf(out, "%s\n%s", sinceLine, p.Since.Text)
		for _, h := range p.Consistency {
			fmt.Fprintln(out, hex.EncodeToString(h[:]))
		}
		fmt.Fprintln(out)
	}
	if err := writePath(out, logLine, p.Log, p.Checkpoint.Leaf); err != nil {
		return err
	}
	if err := writePath(out, fmt.Sprintf("%s%d", leafPrefix, p.Index), p.Accounts, p.Account.Leaf); err != nil {
		return err
	}
	fmt.Fprintln(out, eventsLine)
	statement := newSheet(p.Account.ID, p.Month, p.Checkpoint.Time)
	var line []byte
	for e, err := range events {
		if err == nil {
			err = checkWritable(&e)
		}
		if err == nil {
			err = statement.add(&e)
		}
		if err != nil {
			return err
		}
		line = append(appendEvent(line[:0], &e), '\n')
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\n%s\n", statementLine)
	lines, err := statement.lines()
	if err != nil {
		return err
	}
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
	return out.Flush()
}

// writePath writes the nodes from a root to a leaf.
func writePath(out *bufio.Writer, heading string, path []Children, leaf func() ([]byte, error)) error {
	fmt.Fprintln(out, heading)
	for _, c := range path {
		fmt.Fprintf(out, "%x %x\n", c.Left, c.Right)
	}
	text, err := leaf()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n\n", text)
	return err
}

// decode returns an event's current struct.
func (e *Event) decode() (eventschemas.Event, error) {
	body, err := eventschemas.Decode(e.Type, e.SchemaVersion, e.Data)
	if err != nil {
		return nil, fmt.Errorf("revision %d: %w", e.Revision, err)
	}
	return body, nil
}
