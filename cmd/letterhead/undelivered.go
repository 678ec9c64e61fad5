package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/internal/eventlog"
	"letterhead/internal/runs"
	"letterhead/projections/ledger"
)

const (
	// beatEvery is how often a process that answers requests notes that it is alive.
	beatEvery = 5 * time.Second
	// goneAfter is how long a node of several may be silent before it counts as gone: without the database, which it
	// notes its life in, it cannot check a key and charges nothing.
	goneAfter = time.Minute
	// maxUndelivered bounds the charges that are listed at a time.
	maxUndelivered = 1_000_000
)

// openRun notes that a process begins to answer requests, and returns the part that notes that it is alive.
func (s *service) openRun(ctx context.Context) ([]part, error) {
	run := runs.Run{ID: s.runID, Node: s.config.Node, Started: s.clock.Now(), AnswerWithin: s.apiConfig().AnswerWithin()}
	if err := s.runs.Begin(ctx, run); err != nil {
		return nil, err
	}
	s.answers.Store(true)
	return []part{{"run", s.beat}}, nil
}

func (s *service) beat(ctx context.Context) error {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.runs.Beat(ctx, s.runID, s.clock.Now()); err != nil && ctx.Err() == nil {
				s.logger.Warn("the process could not note that it is alive", "error", err)
			}
		}
	}
}

// endRun notes a clean end: every request was answered, or its charge handed back.
func (s *service) endRun() error {
	if !s.answers.Load() || s.unclean.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout) // outlives whoever asked to stop
	defer cancel()
	if err := s.runs.End(ctx, s.runID, s.clock.Now()); err != nil {
		s.logger.Warn("the clean end of this process could not be noted; ledger undelivered will list its last charges", "error", err)
	}
	return nil
}

// undeliveredOptions are the flags of the command.
type undeliveredOptions struct {
	since, accountID   string
	reverse, yes, json bool
}

// args is the command line for a server that holds the folder.
func (o undeliveredOptions) args() []string {
	return []string{"ledger", "undelivered", "--since=" + o.since, "--account=" + o.accountID,
		fmt.Sprintf("--reverse=%t", o.reverse), fmt.Sprintf("--yes=%t", o.yes), fmt.Sprintf("--json=%t", o.json)}
}

func ledgerUndelivered(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "undelivered", Short: "List charges whose answers may not have been delivered", Args: exactArgs(),
		Long: `List the charges since a moment whose answers may not have been delivered: a server
process ended without a clean stop (kill -9, power cut, out of memory, a stop that
cut requests off), and they were made so shortly before its end that it may not have
sent every answer. Most of the answers listed may have been delivered: the server
does not record that, because it would cost a write per look-up. Charges that were
handed back are left out, and so are those that were answered again under an
idempotency key.

With --reverse the listed charges are handed back, within 24 hours of each charge. A
charge is handed back once, however often the command runs.`}
	var o undeliveredOptions
	flags := c.Flags()
	flags.StringVar(&o.since, "since", "", "first moment (RFC 3339)")
	flags.StringVar(&o.accountID, "account", "", "account id; all when not given")
	flags.BoolVar(&o.reverse, "reverse", false, "hand the listed charges back, after a question")
	flags.BoolVar(&o.yes, "yes", false, "do not ask")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		since, err := time.Parse(time.RFC3339, o.since)
		if err != nil {
			return usageError{errors.New("--since is needed: a moment like 2026-11-21T15:04:05Z")}
		}
		if o.yes && !o.reverse {
			return usageError{errors.New("--yes goes with --reverse")}
		}
		return e.undelivered(cmd.Context(), o, since)
	}
	return c
}

func (e *environment) undelivered(ctx context.Context, o undeliveredOptions, since time.Time) error {
	if e.service != nil && o.reverse && !o.yes {
		return usageError{errors.New("a server holds this folder, and it cannot ask you; add --yes")}
	}
	ctx = streamwriter.WaitForLoading(ctx)
	if !o.reverse || o.yes {
		use := toRead
		if o.reverse {
			use = toWrite
		}
		return e.onService(ctx, o.args(), e.openOwn(ctx, use), func(s *service) error { return s.undelivered(ctx, e, o, since) })
	}
	// The question is asked here, whoever does the work.
	list := o
	list.reverse = false
	if err := e.undelivered(ctx, list, since); err != nil {
		return err
	}
	if err := confirm(os.Stdin, e.stderr, "Hand the credits of these charges back?"); err != nil {
		return err
	}
	o.yes = true
	return e.undelivered(ctx, o, since)
}

// undeliveredCharge is a charge with what is known of the process that made it.
type undeliveredCharge struct {
	AccountID       string    `json:"account_id"`
	Revision        uint64    `json:"revision"`
	At              time.Time `json:"at"`
	Credits         int64     `json:"credits"`
	Domain          string    `json:"domain"`
	RequestID       string    `json:"request_id"`
	ChargeID        string    `json:"charge_id"`
	ReversibleUntil time.Time `json:"reversible_until"`
	Node            string    `json:"node"`            // whose process ended
	LastAlive       time.Time `json:"node_last_alive"` // as it last noted
	GoneBy          time.Time `json:"node_gone_by"`    // the latest moment of its end
}

func (s *service) undelivered(ctx context.Context, e *environment, o undeliveredOptions, since time.Time) error {
	if err := s.catchUp(ctx, ledger.Name); err != nil {
		return err
	}
	charges, err := s.undeliveredCharges(ctx, o.accountID, since)
	if err != nil {
		return err
	}
	if o.reverse {
		return s.reverseUndelivered(ctx, e, charges, o.json)
	}
	if err := printUndelivered(e.stdout, charges, o.json); err != nil {
		return err
	}
	var credits int64
	for _, c := range charges {
		credits += c.Credits
	}
	_, err = fmt.Fprintf(e.stderr, "%d charge(s), %d credit(s), whose answers may not have been delivered; some of them may have been\n", len(charges), credits)
	return err
}

// undeliveredCharges returns the charges of an account (of all when it is empty) in the order of the log.
func (s *service) undeliveredCharges(ctx context.Context, accountID string, since time.Time) ([]undeliveredCharge, error) {
	all, err := s.runs.All(ctx)
	if err != nil {
		return nil, err
	}
	var doubts []runs.Doubt
	if now := s.clock.Now(); s.config.Shared() {
		doubts = runs.Among(all, goneAfter, now)
	} else {
		doubts = runs.Alone(all, s.runID, now)
	}
	var first time.Time
	for _, d := range doubts {
		if first.IsZero() || d.From.Before(first) {
			first = d.From
		}
	}
	if len(doubts) == 0 {
		return nil, nil
	}
	if first.Before(since) {
		first = since
	}
	makerOf := runs.Makers(all)
	settled := map[string]bool{} // charges that were reversed or kept
	var found []undeliveredCharge
	for entry, err := range s.ledger.Since(ctx, first) {
		if err != nil {
			return nil, err
		}
		if entry.ChargeID == "" || accountID != "" && entry.AccountID != accountID {
			continue
		}
		if entry.Amount >= 0 {
			settled[entry.ChargeID] = true
			continue
		}
		maker := makerOf(entry.RequestID)
		for _, d := range doubts {
			if entry.At.Before(since) || !d.Covers(entry.At) || maker != "" && maker != d.Run.ID {
				continue
			}
			if len(found) == maxUndelivered {
				return nil, fmt.Errorf("more than %d charges may not have been answered; name an account with --account, or a later --since", maxUndelivered)
			}
			found = append(found, undeliveredCharge{
				AccountID: entry.AccountID, Revision: entry.Revision, At: entry.At, Credits: -entry.Amount, Domain: entry.Domain,
				RequestID: entry.RequestID, ChargeID: entry.ChargeID, ReversibleUntil: entry.At.Add(account.ReversalWindow),
				Node: d.Run.Node, LastAlive: d.Run.Alive, GoneBy: d.Until,
			})
			break
		}
	}
	open := found[:0]
	for _, c := range found {
		if !settled[c.ChargeID] {
			open = append(open, c)
		}
	}
	return open, nil
}

func printUndelivered(w io.Writer, charges []undeliveredCharge, asJSON bool) error {
	if asJSON {
		for _, c := range charges {
			if err := printJSON(w, c); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "AT\tACCOUNT\tCREDITS\tDOMAIN\tREQUEST\tNODE\tLAST ALIVE\tGONE BY")
	for _, c := range charges {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", c.At.UTC().Format(time.RFC3339), c.AccountID, c.Credits, c.Domain, c.RequestID,
			c.Node, c.LastAlive.UTC().Format(time.RFC3339), c.GoneBy.UTC().Format(time.RFC3339))
	}
	return table.Flush()
}

// reverseUndelivered reverses charges. A charge that is too old to be reversed stays, and one that cannot be reversed
// does not stop the others.
func (s *service) reverseUndelivered(ctx context.Context, e *environment, charges []undeliveredCharge, asJSON bool) error {
	var done struct {
		Reversed int   `json:"reversed"`
		Credits  int64 `json:"credits"`
		TooOld   int   `json:"too_old"`
	}
	var failed []error
	for _, c := range charges {
		err := s.desk.ReverseCharge(ctx, commands.ReverseCharge{
			Request: s.operator(), AccountID: c.AccountID, ChargeID: c.ChargeID, Revision: c.Revision, Reason: account.ReasonOperator,
		})
		switch {
		case errors.Is(err, account.ErrTooLate):
			done.TooOld++
		case err != nil:
			if ctx.Err() != nil || errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrClosed) {
				return fmt.Errorf("hand back charge %s of account %s, after %d others; run the command again for the rest: %w", c.ChargeID, c.AccountID, done.Reversed, err)
			}
			failed = append(failed, fmt.Errorf("hand back charge %s of account %s: %w", c.ChargeID, c.AccountID, err))
		default:
			done.Reversed++
			done.Credits += c.Credits
		}
	}
	if asJSON {
		return errors.Join(append(failed, printJSON(e.stdout, done))...)
	}
	_, err := fmt.Fprintf(e.stdout, "%d charge(s) handed back, %d credit(s); %d charge(s) are older than %s and stay\n", done.Reversed, done.Credits, done.TooOld, account.ReversalWindow)
	return errors.Join(append(failed, err)...)
}
