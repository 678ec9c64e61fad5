package sqlstore

import "database/sql"

// Tx is a transaction of Write or WriteDurable. It must not be used after the function that it was given to
// has returned.
type Tx struct {
	*sql.Tx
	store *Store
}
