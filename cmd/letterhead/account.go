package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"letterhead/commands"
	"letterhead/domain/plan"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
	"letterhead/projections/keys"
)

// Bounds of names, which are personal data and live in the holders table.
const maxNameBytes = 200

type accountJSON struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Plan   string `json:"plan"`
	Status string `json:"status"`
}

type keyJSON struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Key  string `json:"key,omitempty"` // shown once, when it is issued
	Last string `json:"last4"`
}

type createdJSON struct {
	Account accountJSON `json:"account"`
	Credits struct {
		Balance int64 `json:"balance"`
	} `json:"credits"`
	Keys []keyJSON `json:"keys"`
}

func accountCommand(e *environment) *cobra.Command {
	return group("account", "Create, show, suspend and change accounts",
		accountCreate(e), accountShow(e), accountList(e), accountPlan(e),
		accountChange(e, "suspend", "Refuse every request of an account", func(ctx context.Context, s *service, id string) (commands.Done, error) {
			return s.desk.Suspend(ctx, commands.SuspendAccount{Request: s.operator(), AccountID: id, Reason: "operator"})
		}),
		accountChange(e, "reinstate", "End a suspension", func(ctx context.Context, s *service, id string) (commands.Done, error) {
			return s.desk.Reinstate(ctx, commands.ReinstateAccount{Request: s.operator(), AccountID: id})
		}),
		accountChange(e, "close", "Close an account for ever and erase its names", func(ctx context.Context, s *service, id string) (commands.Done, error) {
			return s.closeAccount(ctx, id)
		}),
	)
}

func accountCreate(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "create", Short: "Create an account with a secret and a publishable key", Args: exactArgs()}
	name := c.Flags().String("name", "", "name of the account's holder")
	planName := c.Flags().String("plan", string(plan.Free), "free, starter, growth or custom")
	asJSON := jsonFlag(c)
	c.PreRunE = func(*cobra.Command, []string) error {
		_, err := plan.Default().Get(plan.ID(*planName))
		if err := errors.Join(checkName(*name), err); err != nil {
			return usageError{err}
		}
		return nil
	}
	c.RunE = e.onFolder(func(ctx context.Context, s *service, _ *cobra.Command, _ []string) error {
		created, err := s.createAccount(ctx, *name, plan.ID(*planName))
		if err != nil && !errors.Is(err, errNotSeen) {
			return err
		}
		if *asJSON {
			return errors.Join(err, printJSON(e.stdout, created))
		}
		fmt.Fprintf(e.stdout, "account %s (%s), plan %s, %d credits\n", created.Account.ID, created.Account.Name, created.Account.Plan, created.Credits.Balance)
		for _, k := range created.Keys {
			fmt.Fprintf(e.stdout, "%-11s key %s  %s\n", k.Kind, k.ID, k.Key)
		}
		fmt.Fprintln(e.stdout, "The keys are shown this once; only their hashes are stored.")
		return err
	})
	return c
}

// createAccount opens an account with its free credits and issues one key of each kind.
func (s *service) createAccount(ctx context.Context, name string, id plan.ID) (createdJSON, error) {
	var out createdJSON
	accountID, holder := uuid.NewString(), uuid.NewString()
	if err := s.names.Put(ctx, holder, name); err != nil {
		return out, err
	}
	if err := s.desk.OpenAccount(ctx, commands.OpenAccount{Request: s.operator(), AccountID: accountID, Holder: holder, Plan: id}); err != nil {
		return out, err
	}
	return s.keysFor(ctx, accountID, name)
}

// keysFor issues a key of each kind. After errNotSeen what it returns is whole, too.
func (s *service) keysFor(ctx context.Context, accountID, name string) (createdJSON, error) {
	var out createdJSON
	var unseen error
	for _, kind := range []apikey.Kind{apikey.Secret, apikey.Publishable} {
		k, err := s.issueKey(ctx, accountID, kind, "")
		if err != nil && !errors.Is(err, errNotSeen) {
			return out, err
		}
		unseen = errors.Join(unseen, err)
		out.Keys = append(out.Keys, k)
	}
	standing, err := s.desk.Standing(ctx, accountID)
	if err != nil {
		return out, err
	}
	out.Account = accountJSON{ID: accountID, Name: name, Plan: string(standing.Plan), Status: standing.Status}
	out.Credits.Balance = standing.Balance
	return out, unseen
}

func accountShow(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "show ID", Short: "Show an account", Args: exactArgs("ID")}
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, s *service, _ *cobra.Command, args []string) error {
		standing, err := s.desk.Standing(ctx, args[0])
		if err != nil {
			return explainAccount(args[0], err)
		}
		row, err := s.accounts.Get(ctx, args[0])
		if err != nil {
			return err
		}
		names, err := s.names.Names(ctx, row.Holder)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(e.stdout, map[string]any{
				"account": accountJSON{ID: args[0], Name: names[row.Holder], Plan: string(standing.Plan), Status: standing.Status},
				"credits": map[string]int64{"balance": standing.Balance, "remaining": standing.Remaining, "available": standing.Available},
				"lookups": map[string]any{"month": standing.Month, "count": standing.Lookups}, "open_holds": standing.OpenHolds,
			})
		}
		fmt.Fprintf(e.stdout, "account  %s\nname     %s\nplan     %s\nstatus   %s\nbalance  %d credits (%d available, %d open holds)\nlookups  %d in %s\nopened   %s\n",
			args[0], names[row.Holder], standing.Plan, standing.Status, standing.Balance, standing.Available, standing.OpenHolds, standing.Lookups, standing.Month, row.OpenedAt.Format(time.RFC3339))
		return nil
	})
	return c
}

func accountList(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List accounts", Args: exactArgs()}
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, s *service, _ *cobra.Command, _ []string) error {
		table := tabwriter.NewWriter(e.stdout, 0, 4, 2, ' ', 0)
		if !*asJSON {
			fmt.Fprintln(table, "ID\tNAME\tPLAN\tSTATUS\tBALANCE")
		}
		for after := ""; ; {
			rows, err := s.accounts.List(ctx, after, listPage)
			if err != nil {
				return err
			}
			for _, r := range rows {
				names, err := s.names.Names(ctx, r.Holder)
				if err != nil {
					return err
				}
				a := accountJSON{ID: r.ID, Name: names[r.Holder], Plan: string(r.Plan), Status: string(r.Status)}
				if *asJSON {
					err = printJSON(e.stdout, map[string]any{"account": a, "credits": map[string]int64{"balance": r.Balance}})
				} else {
					_, err = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\n", a.ID, a.Name, a.Plan, a.Status, r.Balance)
				}
				if err != nil {
					return err
				}
				after = r.ID
			}
			if len(rows) < listPage {
				return table.Flush()
			}
		}
	})
	return c
}

func accountPlan(e *environment) *cobra.Command {
	return &cobra.Command{Use: "plan ID PLAN", Short: "Move an account to another plan, at once", Args: exactArgs("ID", "PLAN"),
		RunE: e.onFolder(func(ctx context.Context, s *service, _ *cobra.Command, args []string) error {
			if _, err := s.plans.Get(plan.ID(args[1])); err != nil {
				return usageError{err}
			}
			done, err := s.desk.ChangePlan(ctx, commands.ChangePlan{Request: s.operator(), AccountID: args[0], Plan: plan.ID(args[1])})
			return s.enforced(ctx, args[0], done, err, e, "plan "+args[1])
		})}
}

func accountChange(e *environment, verb, short string, do func(context.Context, *service, string) (commands.Done, error)) *cobra.Command {
	return &cobra.Command{Use: verb + " ID", Short: short, Args: exactArgs("ID"),
		RunE: e.onFolder(func(ctx context.Context, s *service, _ *cobra.Command, args []string) error {
			done, err := do(ctx, s, args[0])
			return s.enforced(ctx, args[0], done, err, e, verb)
		})}
}

// errNotSeen: a decision is durable, and whether requests are judged by it could not be seen in time.
var errNotSeen = errors.New("it was not yet seen enforced")

// enforced waits until requests are judged by what was just decided, and says so.
func (s *service) enforced(ctx context.Context, accountID string, done commands.Done, err error, e *environment, what string) error {
	if err != nil {
		return explainAccount(accountID, err)
	}
	if err := s.waitForKeys(ctx, done.Position); err != nil {
		return fmt.Errorf("%s of account %s is recorded: %w: %w", what, accountID, errNotSeen, err)
	}
	if done.Repeated {
		_, err = fmt.Fprintf(e.stdout, "account %s: %s (nothing to change)\n", accountID, what)
	} else {
		_, err = fmt.Fprintf(e.stdout, "account %s: %s\n", accountID, what)
	}
	return err
}

// closeAccount closes the account and erases the personal data of its holder and keys.
func (s *service) closeAccount(ctx context.Context, id string) (commands.Done, error) {
	row, err := s.accounts.Get(ctx, id)
	if err != nil {
		return commands.Done{}, err
	}
	issued, err := s.keys.List(ctx, id)
	if err != nil {
		return commands.Done{}, err
	}
	done, err := s.desk.Close(ctx, commands.CloseAccount{Request: s.operator(), AccountID: id, Reason: "operator"})
	if err != nil {
		return done, err
	}
	if err := s.names.Erase(ctx, row.Holder); err != nil {
		return done, err
	}
	for _, k := range issued {
		if err := s.names.Erase(ctx, k.ID); err != nil {
			return done, err
		}
	}
	return done, nil
}

func checkName(name string) error {
	if name == "" || len(name) > maxNameBytes {
		return fmt.Errorf("--name takes 1 to %d bytes", maxNameBytes)
	}
	return nil
}

// operator is the request of somebody at the command line.
func (s *service) operator() commands.Request {
	return commands.Request{ID: uuid.NewString(), Actor: "operator:cli"}
}

// waitForKeys waits until requests on every node are judged by what was decided up to a position. Everything that
// decides on keys and accounts comes through here.
func (s *service) waitForKeys(ctx context.Context, position eventlog.Position) error {
	ctx, cancel := context.WithTimeout(ctx, enforceTimeout)
	defer cancel()
	return s.keys.AwaitNodes(ctx, func(ctx context.Context) error { return s.runner.WaitFor(ctx, keys.Name, position) })
}
