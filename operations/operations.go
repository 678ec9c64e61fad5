// Package operations holds the use cases that take several parts of a node: the admin API offers them to operators, and
// the dashboard to customers. Each struct has the use cases of a subject, and fields for the parts that they take.
// Packages commands and domain decide.
package operations

// Operations are the use cases of a node by subject. In a node that only reads, use cases that decide something must
// not be called.
type Operations struct {
	Reads       *Reads
	Accounts    *Accounts
	Tokens      *Tokens
	SignIns     *SignIns
	Notices     *Notices
	Billing     *Billing
	Charges     *Charges
	Books       *Books
	Checkpoints *Checkpoints
	Models      *Models
	Audits      *Audits
	Upgrades    *Upgrades
}

// UsageError reports an invalid argument or flag of a command.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }
