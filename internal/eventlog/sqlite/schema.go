package sqlite

import (
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"letterhead/internal/eventlog"
)

const (
	// applicationID marks the file as ours: "LHev" in ASCII.
	applicationID = 0x4c486576
	// formatVersion is raised when an older binary could no longer read or write the file.
	formatVersion = 1

	schema = `
		CREATE TABLE streams (
			id   INTEGER PRIMARY KEY,
			name TEXT NOT NULL UNIQUE
		) STRICT;
		CREATE TABLE types (
			id   INTEGER PRIMARY KEY,
			name TEXT NOT NULL UNIQUE
		) STRICT;
		CREATE TABLE events (
			position INTEGER PRIMARY KEY,
			stream   INTEGER NOT NULL,
			revision INTEGER NOT NULL,
			type     INTEGER NOT NULL,
			envelope BLOB NOT NULL,
			data     BLOB NOT NULL
		) STRICT;
		CREATE UNIQUE INDEX events_by_stream ON events (stream, revision);
	`
)

// Fields of SQLite's file header, https://www.sqlite.org/fileformat.html#the_database_header.
const (
	headerBytes        = 100
	headerMagic        = "SQLite format 3\x00"
	headerPageSize     = 16
	headerWriteVersion = 18
	headerReadVersion  = 19
	headerPages        = 28
	headerUserVersion  = 60
	headerApplication  = 68
)

// create makes an empty log under another name and moves it in place, so that a file which is there but
// empty or half made can only be damage and is never taken for a new log. It is in WAL mode before that: turning the mode
// on takes a rollback journal, which a crash would leave and an examination, which writes nothing, could not use.
func create(path string) error {
	half := path + ".new"
	for _, leftover := range []string{half, half + "-journal", half + "-wal", half + "-shm"} {
		if err := removeIfThere(leftover); err != nil {
			return fmt.Errorf("create the event log %s: %w", path, err)
		}
	}
	attempt := "create the event log " + path
	conn, err := connect(half, "rwc", "journal_mode(DELETE)", "synchronous(EXTRA)")
	if err != nil {
		return classify(attempt, err)
	}
	err = conn.exec(fmt.Sprintf("PRAGMA page_size = %d; PRAGMA application_id = %d; PRAGMA user_version = %d; BEGIN; %s COMMIT;",
		pageBytes, applicationID, formatVersion, schema))
	if err == nil {
		err = conn.turnWALOn()
	}
	if err := errors.Join(err, conn.close()); err != nil {
		return classify(attempt, err)
	}
	// The WAL and its index get the file's mode from SQLite.
	if err := errors.Join(os.Chmod(half, 0o600), os.Rename(half, path)); err != nil {
		return fmt.Errorf("%s: %w", attempt, err)
	}
	return syncFolder(filepath.Dir(path))
}

// turnWALOn fails when the file cannot be in WAL mode; SQLite itself answers with the mode that it left.
func (c *connection) turnWALOn() error {
	return c.once("PRAGMA journal_mode = WAL", 1, func(row []driver.Value) error {
		if mode, _ := row[0].(string); mode != "wal" {
			return fmt.Errorf("the file has journal mode %q and not wal", row[0])
		}
		return nil
	})
}

// finishCreate ends a creation that a crash cut off after the file was in place: releases before this one turned WAL
// mode on there. The rollback journal of that is rolled back, if the log holds no event: no other one is ever written.
func finishCreate(path string) error {
	if journal, err := sizeOf(path + "-journal"); err != nil || journal == 0 {
		return err
	}
	attempt := "roll back the journal " + path + "-journal"
	a, err := openAudit(path, true)
	if err != nil {
		return unlessDamage(err) // which the examination describes
	}
	last, err := a.last()
	if err = errors.Join(err, a.close()); err != nil {
		return unlessDamage(err)
	}
	if last > 0 {
		return fmt.Errorf("%s: %w: the log holds events, and nothing that writes them leaves such a file: move it away if it is not the log's", attempt, eventlog.ErrUnavailable)
	}
	conn, err := connect(path, "rw")
	if err != nil {
		return classify(attempt, err)
	}
	var tables int64
	return classify(attempt, errors.Join(conn.queryInts("SELECT count(*) FROM sqlite_schema", &tables), conn.close()))
}

func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return fmt.Errorf("sync folder %s: %w", folder, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync folder %s: %w", folder, err)
	}
	return nil
}

// checkHeader reads what SQLite has not opened yet: whether the file is a log of ours that this binary
// can read. No connection may be open, because closing any descriptor of the file drops SQLite's locks.
func checkHeader(path string) error {
	const attempt = "read its header"
	header, err := readHeader(path)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return corrupt(attempt, fmt.Errorf("%w: the file is too short to be a database", errDamaged))
	case err != nil:
		return fmt.Errorf("%s: %w", attempt, err)
	case !bytes.HasPrefix(header, []byte(headerMagic)):
		return corrupt(attempt, fmt.Errorf("%w: the file does not begin like a database", errDamaged))
	}
	if id := binary.BigEndian.Uint32(header[headerApplication:]); id != applicationID {
		return corrupt(attempt, fmt.Errorf("%w: the file is another program's database (application id %#x)", errDamaged, id))
	}
	if v := binary.BigEndian.Uint32(header[headerUserVersion:]); v != formatVersion {
		return fmt.Errorf("%s: the file has format %d and this release reads format %d: use the release that wrote it, or a newer one",
			attempt, v, formatVersion)
	}
	return nil
}

func readHeader(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	header := make([]byte, headerBytes)
	_, err = io.ReadFull(f, header)
	return header, errors.Join(err, f.Close())
}
