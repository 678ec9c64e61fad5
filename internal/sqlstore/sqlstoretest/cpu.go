package sqlstoretest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"letterhead/internal/sqlstore"
)

// clockTick is the unit of processor times in /proc, on every platform of Linux.
const clockTick = 10 * time.Millisecond

// ServerCPU returns the processor time that the server's processes have used for this database; ok is false if they run
// on another machine. A process that has ended does not count, so measure while the connections are open.
func ServerCPU(t testing.TB, store *sqlstore.Store) (used time.Duration, ok bool) {
	t.Helper()
	rows, err := store.Read().QueryContext(t.Context(), `SELECT pid FROM pg_stat_activity WHERE datname = current_database()`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var pid int
		if err := rows.Scan(&pid); err != nil {
			t.Fatal(err)
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		// The name, in brackets, may contain spaces. After it come the state and, as 12th and 13th, utime and stime.
		_, rest, found := bytes.Cut(stat, []byte("(postgres) "))
		fields := bytes.Fields(rest)
		if !found || len(fields) < 13 {
			continue
		}
		for _, field := range fields[11:13] {
			ticks, err := strconv.ParseInt(string(field), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			used += time.Duration(ticks) * clockTick
		}
		ok = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return used, ok
}
