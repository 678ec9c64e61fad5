package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// Session is a process that is connected to a shared database.
type Session struct {
	Node   string `json:"node"`   // its Config.Node; "" if it has none
	Format int    `json:"format"` // its Config.Format; 0 if it has none
}

// sessionForm matches the results of sessionName.
var sessionForm = regexp.MustCompile(`^` + applicationName + `/([0-9]{1,9})@([^ ]*) ?(.*)$`)

// sessionName returns the name of a process in the server's list of sessions. Two installations may use schemas of one
// database. The server cuts the name off at 63 bytes, so the node comes last.
func sessionName(format int, schema, node string) string {
	if format == 0 {
		return applicationName
	}
	return fmt.Sprintf("%s/%d@%s %s", applicationName, format, schema, node)
}

// Sessions returns the processes that are connected to a shared database, in the order of their names, each once, and
// none for a database that is not shared. It does not return a process whose URL sets application_name, or one behind a
// pool that hides names from the server. Errors: ErrUnavailable, ctx.Err().
func (s *Store) Sessions(ctx context.Context) ([]Session, error) {
	found := []Session{}
	if !s.Shared() {
		return found, nil
	}
	err := EachRow(ctx, s.Read(), `
SELECT DISTINCT application_name, current_schema() FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE '`+applicationName+`%'`, func(row Scanner) error {
		var name, own string
		if err := row.Scan(&name, &own); err != nil {
			return err
		}
		if name == applicationName {
			found = append(found, Session{})
			return nil
		}
		parts := sessionForm.FindStringSubmatch(name)
		if parts == nil || parts[2] != own {
			return nil
		}
		if format, err := strconv.Atoi(parts[1]); err == nil { // otherwise it has too many digits
			found = append(found, Session{Node: parts[3], Format: format})
		}
		return nil
	})
	slices.SortFunc(found, func(a, b Session) int { return cmp.Or(cmp.Compare(a.Node, b.Node), a.Format-b.Format) })
	return slices.Compact(found), Wrap(s.classify(err), "list the sessions of the database")
}
