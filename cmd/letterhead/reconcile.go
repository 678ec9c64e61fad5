package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/books"
	"letterhead/domain/reconcile"
	"letterhead/eventschemas"
	"letterhead/node"
	"letterhead/workers/journal"
)

func billingCommand(e *environment) *cobra.Command {
	return group("billing", "Payments through a payment processor", billingCheckout(e), billingInbox(e), billingLink(e), billingReconcile(e), billingRecordFees(e))
}

func billingReconcile(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "reconcile FILE.csv", Short: "Compare a payment processor's balance export with the ledger", Args: exactArgs("FILE"),
		Long: "Compare the itemized balance export of a payment processor with the payments, refunds and fees of the ledger. List the payments, refunds, disputes and fees that are missing from the ledger, extra in it, or different, and the clearing account: the balance at the processor in each currency. docs/books.md names the columns of the file. The exit status is 1 if anything differs, and also if the file is wrong.\n\nTimes are " + timeForms + "; a month or a day as an end includes all of it. Without --from and --to, the range is that of the days in the file. Fees are compared if the ledger has any.\n\n--record-fees records the fees in the range that are missing from the ledger, if one account of the ledger has their payment. If several have it, \"payment fee\" records the fee. Running it again changes nothing."}
	from := c.Flags().String("from", "", "start of the range")
	to := c.Flags().String("to", "", "end of the range, inclusive")
	record := c.Flags().Bool("record-fees", false, "record the fees that are missing from the ledger")
	opening := c.Flags().StringSlice("opening", nil, "balance at the processor before the range, such as EUR=104.50")
	r := reportFlags(c, "result", "kind", "processor_currency", "processor", "ledger_currency", "ledger", "payment", "id", "account", "at", "line")
	var report *reconcile.Report
	compare := e.reads(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		o := reconcile.Options{Fees: *record}
		var err error
		if o.From, o.Until, err = rangeOf(*from, "--to", *to); err != nil {
			return err
		}
		if o.Opening, err = openingBalances(*opening); err != nil {
			return usageError{fmt.Errorf("--opening: %w", err)}
		}
		report, err = reconcileFile(args[0], o, func() (*reconcile.Ledger, error) {
			ledger := reconcile.NewLedger()
			return ledger, journal.Events(ctx, n.Log, reconcile.Types(), e.reading("ledger"), ledger.Apply)
		})
		return err
	})
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := compare(cmd, args); err != nil {
			return err
		}
		if report == nil { // a server has compared, and has printed the report
			return nil
		}
		var rejected error
		if *record {
			rejected = e.recordFees(cmd.Context(), report.Differences)
		}
		if err := errors.Join(rejected, r.write(e.stdout, reconcileRows(report))); err != nil {
			return err
		}
		counts := map[reconcile.Result]int{}
		for _, d := range report.Differences {
			counts[d.Result]++
		}
		if counts[reconcile.Recorded] == len(report.Differences) {
			return nil
		}
		return fmt.Errorf("%s and the ledger differ: %d missing from the ledger, %d extra in it, %d different", args[0],
			counts[reconcile.Missing], counts[reconcile.Extra], counts[reconcile.Different])
	}
	return c
}

const (
	// feeBatch is the number of fees that are recorded at a time.
	feeBatch = 500
	// maxFeeErrors is the number of errors after which no more fees are recorded.
	maxFeeErrors = 100
)

// recordFees records the fees that are missing and of one account, and marks them. A server that holds the data folder
// cannot read the file, so it gets the fees as an argument. If it cannot record all fees of a batch, it records each of
// them alone, and returns the errors of those that stay missing.
func (e *environment) recordFees(ctx context.Context, differences []reconcile.Difference) error {
	var missing []*reconcile.Difference
	for i := range differences {
		if d := &differences[i]; d.Kind == reconcile.Fee && d.Result == reconcile.Missing && d.AccountID != "" {
			missing = append(missing, d)
		}
	}
	ctx = streamwriter.WaitForLoading(ctx)
	var errs []error
	for batch := range slices.Chunk(missing, feeBatch) {
		if e.recordBatch(ctx, batch) == nil {
			continue
		}
		for i := range batch {
			err := e.recordBatch(ctx, batch[i:i+1])
			if err != nil {
				errs = append(errs, err)
			}
			if ctx.Err() != nil || len(errs) >= maxFeeErrors {
				return errors.Join(append(errs, errors.New("run the command again to record the rest"))...)
			}
		}
	}
	return errors.Join(errs...)
}

// recordBatch records fees, and marks them if it has recorded all of them.
func (e *environment) recordBatch(ctx context.Context, batch []*reconcile.Difference) error {
	var fees []recordedFee
	for _, d := range batch {
		fees = append(fees, recordedFee{d.AccountID, d.PaymentID, d.ID, *d.Processor})
	}
	text, err := json.Marshal(fees)
	if err != nil {
		return err
	}
	args := []string{"billing", "record-fees", string(text)}
	if err := e.onNode(ctx, args, node.ToWrite, node.OpenCurrent, func(n *node.Node) error { return recordFees(ctx, n, fees) }); err != nil {
		return err
	}
	for _, d := range batch {
		d.Result, d.Ledger = reconcile.Recorded, d.Processor
	}
	return nil
}

// recordedFee is a fee of an export.
type recordedFee struct {
	AccountID string             `json:"account"`
	PaymentID string             `json:"payment_id"`
	FeeID     string             `json:"fee_id"`
	Money     eventschemas.Money `json:"money"`
}

// billingRecordFees is what reconcile has a server do that holds the data folder.
func billingRecordFees(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "record-fees FEES", Short: "Record fees, given as JSON", Hidden: true, Args: exactArgs("FEES")}
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		var fees []recordedFee
		if err := json.Unmarshal([]byte(args[0]), &fees); err != nil {
			return usageError{fmt.Errorf("FEES: %w", err)}
		}
		return recordFees(ctx, n, fees)
	})
	return c
}

func recordFees(ctx context.Context, n *node.Node, fees []recordedFee) error {
	for _, f := range fees {
		_, err := n.AccountWriter.RecordFee(ctx, commands.RecordFee{Request: n.Operator(), AccountID: f.AccountID, FeeID: f.FeeID, PaymentID: f.PaymentID, Money: f.Money})
		if err != nil {
			return fmt.Errorf("record fee %s of payment %s: %w", f.FeeID, f.PaymentID, err)
		}
	}
	return nil
}

// openingBalances returns the balances of texts such as EUR=104.50.
func openingBalances(texts []string) (map[string]int64, error) {
	balances := map[string]int64{}
	for _, text := range texts {
		currency, amount, _ := strings.Cut(text, "=")
		currency, err := reconcile.ParseCurrency(currency)
		if err != nil {
			return nil, err
		}
		if _, twice := balances[currency]; twice {
			return nil, fmt.Errorf("%s is given twice", currency)
		}
		if balances[currency], err = books.ParseAmount(amount, currency); err != nil {
			return nil, err
		}
	}
	return balances, nil
}

// reconcileFile reads the header of the file before it folds the ledger, which takes longer.
func reconcileFile(name string, o reconcile.Options, fold func() (*reconcile.Ledger, error)) (_ *reconcile.Report, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in, err := reconcile.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	ledger, err := fold()
	if err != nil {
		return nil, err
	}
	report, err := reconcile.Compare(ledger, in, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return report, nil
}

// reconcileRows returns a row for each difference, and the clearing account of each currency: a row for each of its
// lines, and one object for JSON.
func reconcileRows(report *reconcile.Report) (rows []reportRow) {
	for _, d := range report.Differences {
		rows = append(rows, differenceRow(d))
	}
	for _, c := range report.Clearing {
		object := map[string]any{"result": "clearing", "currency": c.Currency}
		for i, line := range []struct {
			name  string
			minor int64
		}{{"opening", c.Opening}, {"received", c.Received}, {"refunded", c.Refunded}, {"disputed", c.Disputed}, {"fees", c.Fees}, {"payouts", c.Payouts}, {"other", c.Other}, {"closing", c.Closing}} {
			row := reportRow{cells: []any{"clearing", line.name, c.Currency, money{line.minor, c.Currency}, "", "", "", "", "", "", ""}}
			if object[line.name] = line.minor; i == 0 {
				row.object = object
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func differenceRow(d reconcile.Difference) reportRow {
	object := map[string]any{"result": d.Result, "kind": d.Kind, "processor": d.Processor, "ledger": d.Ledger, "payment_id": d.PaymentID, "at": d.At}
	for name, text := range map[string]string{"id": d.ID, "account": d.AccountID} {
		if text != "" {
			object[name] = text
		}
	}
	line := ""
	if d.Line > 0 {
		object["line"], line = d.Line, fmt.Sprint(d.Line)
	}
	amount := func(m *eventschemas.Money) (currency string, cell any) {
		if m == nil {
			return "", ""
		}
		return m.Currency, money{m.Minor, m.Currency}
	}
	charged, processor := amount(d.Processor)
	booked, ledger := amount(d.Ledger)
	return reportRow{[]any{string(d.Result), string(d.Kind), charged, processor, booked, ledger, d.PaymentID, d.ID, d.AccountID, d.At.UTC().Format(time.RFC3339), line}, object}
}
