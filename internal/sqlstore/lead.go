package sqlstore

import "context"

// Shared says that other processes may have the same database open.
func (s *Store) Shared() bool { return false }

// Lead runs do while this process leads what has the name, and again whenever it leads again, until ctx
// ends (nil) or do returns before its context ended (what do returned). At most one process of those that
// share the database leads at a time, as far as the database can tell: a process that lost its connection
// learns so a little later, so what do writes must be fenced by what it writes (an expected revision, a
// checkpoint compared before it is moved). The context that do gets ends when leadership is lost.
//
// A database of this process alone (SQLite) is always led.
func (s *Store) Lead(ctx context.Context, name string, do func(ctx context.Context) error) error {
	return do(ctx)
}
