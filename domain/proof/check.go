package proof

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"letterhead/domain/account"
	"letterhead/domain/books"
)

// Limits of a file that Check reads. It never has more of it in memory than a line.
const (
	// maxLine limits a line in bytes. An event has at most 128 KiB; texts in it may be longer in JSON.
	maxLine = 1 << 20
	// maxHashes limits the hashes of a consistency proof, which are at most two for each level of a tree.
	maxHashes = 2 * 64
)

// LineError is the first line of a proof that does not follow from the lines above it and the key.
type LineError struct {
	Line    int // from 1
	Problem string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// Report is what a proof shows.
type Report struct {
	AccountID   string
	Month       time.Time // its beginning
	Provisional bool      // the month had not ended
	Checkpoint  Checkpoint
	Note        *Note
	Since       *Note // the earlier checkpoint in the file, or nil
	Events      uint64
	Head        Hash // of the last event
	// Unchanged is the number of events of an earlier proof of the account that the account still has, 0 without one.
	Unchanged uint64
}

// Earlier is a proof or a checkpoint that was kept.
type Earlier struct {
	Note *Note
	// Proof is what the earlier proof showed, nil if only its checkpoint was kept.
	Proof *Report
}

// covers reports whether the earlier proof is of an account.
func (e *Earlier) covers(accountID string) bool {
	return e != nil && e.Proof != nil && e.Proof.AccountID == accountID
}

// ReadEarlier verifies a kept file, which is a proof or a checkpoint.
//
// Errors: as Check, and of Open if it is a checkpoint; the errors of r.
func ReadEarlier(r io.Reader, keys note.Verifiers) (*Earlier, error) {
	in := bufio.NewReaderSize(r, maxLine)
	if begin, err := in.Peek(len(firstLine) + 1); err == nil && string(begin) == firstLine+"\n" {
		report, err := Check(in, keys, nil)
		if err != nil {
			return nil, err
		}
		return &Earlier{report.Note, report}, nil
	}
	text, err := io.ReadAll(io.LimitReader(in, maxLine))
	if err != nil {
		return nil, err
	}
	n, err := Open(string(text), keys)
	return &Earlier{Note: n}, err
}

// Check verifies a proof. If since is not nil, the log of the proof must also be one that continues that of since, and
// if since has a proof of the same account, the account's events must begin with those of that proof: a log that only
// grows may still have another history of an account in its later trees.
//
// Errors: *LineError; the errors of r.
func Check(r io.Reader, keys note.Verifiers, since *Earlier) (*Report, error) {
	c := &checker{in: bufio.NewReaderSize(r, maxLine), keys: keys, earlier: since}
	if err := c.check(); err != nil {
		return nil, err
	}
	return &c.report, nil
}

// checker reads a proof line by line.
type checker struct {
	in      *bufio.Reader
	number  int // of the last line read
	keys    note.Verifiers
	earlier *Earlier
	report  Report
}

// fails returns an error about the last line read.
func (c *checker) fails(format string, args ...any) error {
	return &LineError{c.number, fmt.Sprintf(format, args...)}
}

// next returns a line without its newline. It is valid until the next call.
func (c *checker) next() ([]byte, error) {
	c.number++
	line, err := c.in.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF) && len(line) == 0:
		return nil, c.fails("the file ends before the proof is complete")
	case errors.Is(err, io.EOF):
		return nil, c.fails("the line does not end")
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, c.fails("the line has more than %d bytes", maxLine)
	case err != nil:
		return nil, err
	case !utf8.Valid(line):
		return nil, c.fails("the line is not UTF-8")
	}
	return line[:len(line)-1], nil
}

// text reads a line that begins with a prefix and returns the rest.
func (c *checker) text(prefix string) (string, error) {
	line, err := c.next()
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(string(line), prefix)
	if !ok {
		return "", c.fails("it should begin with %q", prefix)
	}
	return rest, nil
}

// expect reads lines that must be these.
func (c *checker) expect(lines ...string) error {
	for _, want := range lines {
		line, err := c.next()
		if err != nil {
			return err
		}
		if string(line) != want {
			return c.fails("it should be %q", want)
		}
	}
	return nil
}

func (c *checker) check() error {
	r := &c.report
	if err := c.expect(firstLine); err != nil {
		return err
	}
	var err error
	if r.AccountID, err = c.text(accountPrefix); err != nil {
		return err
	}
	month, err := c.text(monthPrefix)
	if err != nil {
		return err
	}
	month, r.Provisional = strings.CutSuffix(month, provisional)
	if r.Month, err = time.Parse(books.MonthLayout, month); err != nil {
		return c.fails("it should be a month like 2026-11")
	}
	if err := c.expect("", checkpointLine); err != nil {
		return err
	}
	if r.Note, err = c.note(); err != nil {
		return err
	}
	if err := c.expect(""); err != nil {
		return err
	}
	line, err := c.next()
	if err != nil {
		return err
	}
	if string(line) == sinceLine {
		if err := c.since(); err != nil {
			return err
		}
		if line, err = c.next(); err != nil {
			return err
		}
	}
	if string(line) != logLine {
		return c.fails("it should be %q", logLine)
	}
	if err := c.continues(); err != nil {
		return err
	}
	leaf, err := c.path()
	if err != nil {
		return err
	}
	return c.events(leaf)
}

// note reads a signed checkpoint.
func (c *checker) note() (*Note, error) {
	var text strings.Builder
	for range noteLines {
		line, err := c.next()
		if err != nil {
			return nil, err
		}
		text.Write(line)
		text.WriteByte('\n')
	}
	n, err := Open(text.String(), c.keys)
	if err != nil {
		return nil, c.fails("%s", err)
	}
	return n, nil
}

// since reads an earlier checkpoint and the proof that the log continues it.
func (c *checker) since() (err error) {
	r := &c.report
	if r.Since, err = c.note(); err != nil {
		return err
	}
	last := c.number
	var hashes []Hash
	for {
		line, err := c.next()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			break
		}
		h, err := parseHash(line)
		if err != nil {
			return c.fails("%s", err)
		}
		if len(hashes) == maxHashes {
			return c.fails("the proof has more than %d hashes", maxHashes)
		}
		hashes = append(hashes, h)
	}
	if err := continuesNote(r.Since, r.Note); err != nil {
		return &LineError{last, err.Error()}
	}
	if r.Since.Size == r.Note.Size && len(hashes) == 0 {
		return nil
	}
	if err := verifyConsistency(r.Since, r.Note, hashes); err != nil {
		return &LineError{last + 1, "from here, the lines do not show that the log continues the earlier checkpoint"}
	}
	return nil
}

// continuesNote reports why a checkpoint cannot continue another, if that follows from the two alone.
func continuesNote(from, to *Note) error {
	switch {
	case from.Origin != to.Origin:
		return fmt.Errorf("the earlier checkpoint is of the log %s, the proof is of %s", from.Origin, to.Origin)
	case from.Size > to.Size:
		return fmt.Errorf(
			"the log has %d checkpoint(s), and had %d before: it was shortened, or the proof is the older one",
			to.Size, from.Size)
	case from.Size == to.Size && from.Root != to.Root:
		return fmt.Errorf("the log of %d checkpoint(s) had another root before: it was rewritten", to.Size)
	}
	return nil
}

// continues checks that the log of the proof continues a checkpoint that the caller has.
func (c *checker) continues() error {
	if c.earlier == nil {
		return nil
	}
	r, since := &c.report, c.earlier.Note
	fails := func(format string, args ...any) error {
		return &LineError{headerLines + 2, fmt.Sprintf(format, args...)}
	}
	if err := continuesNote(since, r.Note); err != nil {
		return fails("%s", err)
	}
	switch {
	case since.Size == r.Note.Size:
		return nil
	case r.Since == nil || r.Since.Size != since.Size:
		return fails(
			"the file does not show that the log of %d checkpoints continues the one of %d: make it with --since",
			r.Note.Size, since.Size)
	case r.Since.Root != since.Root:
		return fails("the log of %d checkpoint(s) had another root before: it was rewritten", since.Size)
	}
	return nil
}

// path reads the nodes from the root of the log to the account's leaf.
func (c *checker) path() (a Account, err error) {
	r := &c.report
	leaf, err := c.descend(r.Note.Size-1, r.Note.Size, r.Note.Root)
	if err != nil {
		return a, err
	}
	if r.Checkpoint, err = parseCheckpoint(leaf); err != nil {
		return a, c.fails("it is not a checkpoint: %s", err)
	}
	end := r.Month.AddDate(0, 1, 0)
	if early := r.Checkpoint.Time.Before(end); early && !r.Provisional {
		return a, c.fails("the checkpoint is from before the end of %s, so the month may have more events",
			r.Month.Format(books.MonthLayout))
	} else if !early && r.Provisional {
		return a, &LineError{3, "the month is not provisional: it had ended before the checkpoint"}
	}
	if err := c.expect(""); err != nil {
		return a, err
	}
	number, err := c.text(leafPrefix)
	if err != nil {
		return a, err
	}
	index, err := strconv.ParseUint(number, 10, 64)
	if err != nil || strconv.FormatUint(index, 10) != number || index >= r.Checkpoint.Accounts {
		return a, c.fails("it should be the number of one of %d leaves", r.Checkpoint.Accounts)
	}
	if leaf, err = c.descend(index, r.Checkpoint.Accounts, r.Checkpoint.Root); err != nil {
		return a, err
	}
	if a, err = parseAccount(leaf); err != nil {
		return a, c.fails("it is not the leaf of an account: %s", err)
	}
	if a.ID != r.AccountID {
		return a, &LineError{2, "the proof is of the account " + a.ID}
	}
	if c.earlier.covers(a.ID) && a.Revision+1 < c.earlier.Proof.Events {
		return a, c.fails("the account has %d events, and had %d in the earlier proof: events were removed",
			a.Revision+1, c.earlier.Proof.Events)
	}
	return a, c.expect("", eventsLine)
}

// descend reads the nodes from the root of a tree to a leaf, which it returns.
func (c *checker) descend(index, size uint64, node Hash) ([]byte, error) {
	for size > 1 {
		line, err := c.next()
		if err != nil {
			return nil, err
		}
		left, right, _ := bytes.Cut(line, []byte(" "))
		l, leftErr := parseHash(left)
		r, rightErr := parseHash(right)
		if leftErr != nil || rightErr != nil {
			return nil, c.fails("it should be two hashes")
		}
		if childrenHash(l, r) != node {
			return nil, c.fails("the hashes do not give the one above them")
		}
		if k := leftLeaves(size); index < k {
			node, size = l, k
		} else {
			node, size, index = r, size-k, index-k
		}
	}
	leaf, err := c.next()
	if err == nil && LeafHash(leaf) != node {
		err = c.fails("the leaf does not have the hash above it")
	}
	return leaf, err
}

// events reads the events of an account and the statement.
func (c *checker) events(leaf Account) error {
	r := &c.report
	var head Hash
	statement := newSheet(leaf.ID, r.Month, r.Checkpoint.Time)
	for revision := uint64(0); ; revision++ {
		line, err := c.next()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return c.fails("the events from revision %d to %d are missing", revision, leaf.Revision)
		}
		e, err := parseEvent(line)
		if err != nil {
			return c.fails("%s", err)
		}
		if e.Revision != revision {
			return c.fails("it has revision %d, and should have %d", e.Revision, revision)
		}
		e.Stream = account.Stream(leaf.ID)
		if head = e.Next(head); head != e.Hash {
			return c.fails(
				"the event, or one before it, was changed: its hash is not that of its content after the hash above")
		}
		if c.earlier.covers(leaf.ID) && revision+1 == c.earlier.Proof.Events && head != c.earlier.Proof.Head {
			return c.fails("the event, or one before it, is another than in the earlier proof: the account's history was rewritten")
		}
		if err := statement.add(&e); err != nil {
			return c.fails("%s", err)
		}
		if r.Events++; revision == leaf.Revision {
			r.Head = head
			if c.earlier.covers(leaf.ID) {
				r.Unchanged = c.earlier.Proof.Events
			}
			break
		}
	}
	if head != leaf.Head {
		return c.fails("the events are not those of the checkpoint: their last hash is %x, that of the checkpoint %x",
			head, leaf.Head)
	}
	if err := c.expect("", statementLine); err != nil {
		return err
	}
	lines, err := statement.lines()
	if err != nil {
		return c.fails("%s", err)
	}
	if err := c.expect(lines...); err != nil {
		return err
	}
	if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) {
		c.number++
		return c.fails("the file should end before this line")
	}
	return nil
}
