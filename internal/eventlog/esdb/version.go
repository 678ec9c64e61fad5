package esdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
)

// The oldest supported release: earlier servers do not report when a subscription has caught up, and
// callers that wait for that would wait forever.
const oldestMajor, oldestMinor = 23, 10

// ErrUnsupported: the server's release is too old. The same server never becomes usable by waiting.
var ErrUnsupported = errors.New("this release of EventStoreDB is not supported")

// Version is a server's release.
type Version struct{ Major, Minor, Patch int }

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// since reports whether the release is this one or a later one.
func (v Version) since(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// versionOf requests the release of a working client's server. Releases that do not report one are 0.0.0.
//
// Errors: ErrUnsupported, the errors of the client.
func versionOf(client *esdb.Client) (Version, error) {
	answer, err := client.GetServerVersion()
	if err != nil {
		return Version{}, fmt.Errorf("ask for the server's version: %w", err)
	}
	v := Version(*answer)
	if !v.since(oldestMajor, oldestMinor) {
		name := "older than 21.10"
		if v != (Version{}) {
			name = v.String()
		}
		return v, fmt.Errorf(
			"%w: the server is %s, and Letterhead needs %d.%d or newer (24.10 is recommended): upgrade the server",
			ErrUnsupported, name, oldestMajor, oldestMinor)
	}
	return v, nil
}

// ServerVersion returns the release of the server that the log is connected to.
//
// Errors: as ReadStream.
func (l *Log) ServerVersion(ctx context.Context) (Version, error) {
	const attempt = "ask for the server's version"
	if err := l.usable(ctx, attempt); err != nil {
		return Version{}, err
	}
	m, err := l.supervisor.acquire(ctx)
	if err != nil {
		return Version{}, readError(ctx, attempt, err)
	}
	defer m.release()
	return m.version, nil
}
