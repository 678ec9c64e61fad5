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

	"letterhead/internal/disk"
	"letterhead/internal/eventlog"
)

const (
	// applicationID marks the file as ours: "LHev" in ASCII.
	applicationID = 0x4c486576
	// formatVersion increases when older binaries can no longer read or write the file; format 2 has packed rows
	// (envelope.go). Every format can be read, and Open raises it unless Config.KeepFormat is set.
	formatVersion = 2

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

// Fields of SQLite's file header; see https://www.sqlite.org/fileformat.html#the_database_header.
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

// create makes an empty log under another name and renames it, so that an empty or incomplete file at the
// log's path is always damage and never mistaken for a new log. It enables WAL mode before that: enabling
// it uses a rollback journal, which a crash would leave behind and a read-only examination could not use.
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
	err = conn.exec(fmt.Sprintf(
		"PRAGMA page_size = %d; PRAGMA application_id = %d; PRAGMA user_version = %d; BEGIN; %s COMMIT;",
		pageBytes, applicationID, formatVersion, schema))
	if err == nil {
		err = conn.turnWALOn()
	}
	if err := errors.Join(err, conn.close()); err != nil {
		return classify(attempt, err)
	}
	// SQLite gives the WAL and its index the file's mode.
	if err := errors.Join(os.Chmod(half, 0o600), os.Rename(half, path)); err != nil {
		return fmt.Errorf("%s: %w", attempt, err)
	}
	return disk.SyncFolder(filepath.Dir(path))
}

// turnWALOn fails if the file does not support WAL mode; SQLite itself then answers with the unchanged mode.
func (c *connection) turnWALOn() error {
	return c.once("PRAGMA journal_mode = WAL", 1, func(row []driver.Value) error {
		if mode, _ := row[0].(string); mode != "wal" {
			return fmt.Errorf("the file has journal mode %q instead of wal", row[0])
		}
		return nil
	})
}

// refuseJournal fails if a rollback journal is beside the log: no writer of the log leaves one, and SQLite would apply
// it.
func refuseJournal(path string) error {
	journal, err := sizeOf(path + "-journal")
	if err != nil || journal == 0 {
		return err
	}
	return fmt.Errorf(
		"%w: there is a rollback journal, %s-journal, which no writer of the log leaves: move it away if "+
			"it does not belong to the log", eventlog.ErrUnavailable, path)
}

// checkHeader checks, before SQLite opens the file, whether it is a log that this binary can read, and returns its
// format. No connection may be open, because closing any descriptor of the file releases SQLite's locks.
func checkHeader(path string) (format uint32, err error) {
	const attempt = "read its header"
	header, err := readHeader(path)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return 0, corrupt(attempt, fmt.Errorf("%w: the file is too short to be a database", errDamaged))
	case err != nil:
		return 0, fmt.Errorf("%s: %w", attempt, err)
	case !bytes.HasPrefix(header, []byte(headerMagic)):
		return 0, corrupt(attempt, fmt.Errorf("%w: the file does not begin like a database", errDamaged))
	}
	if id := binary.BigEndian.Uint32(header[headerApplication:]); id != applicationID {
		return 0, corrupt(attempt,
			fmt.Errorf("%w: the file is another program's database (application id %#x)", errDamaged, id))
	}
	format = binary.BigEndian.Uint32(header[headerUserVersion:])
	if format < 1 || format > formatVersion {
		err = fmt.Errorf("%s: the file has format %d and this release reads formats 1 to %d: use the release that wrote it, or a newer one",
			attempt, format, formatVersion)
	}
	return format, err
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
