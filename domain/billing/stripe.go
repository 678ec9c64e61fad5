package billing

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
)

// Stripe is the processor of FromStripe.
const Stripe = "stripe"

// Versions of Stripe's API. In the oldest one that FromStripe reads, invoices got their present form. The newest is the
// last one whose published types were compared with what it reads; objects of later versions must have all these fields.
const (
	StripeVersion       = "2025-08-27.basil" // of the library
	oldestStripeVersion = "2025-03-31.basil"
	newestStripeVersion = "2026-10-28.endive"
)

// Metadata of Stripe's objects.
const (
	MetaAccount = "account_id"
	MetaPrice   = "price"
	MetaGranted = "granted_by" // of the invoice of a pack, whose checkout session grants the credits
)

// StripeEvent is an event of Stripe whose signature was verified.
type StripeEvent struct {
	ID         string
	Type       string
	APIVersion string
	Created    int64  // Unix seconds
	Object     []byte // JSON: the object that the event is about
}

// ignored are the types of events that need no effect, because another event of the same payment, refund or
// subscription has it; a name with a dot at its end means all types that begin with it.
var ignored = []string{
	"charge.captured", "charge.expired", "charge.failed", "charge.pending", "charge.refunded", "charge.succeeded",
	"charge.updated", "checkout.session.expired", "payment_intent.", "payment_method.", "setup_intent.",
	"customer.created", "customer.deleted", "customer.updated", "customer.discount.", "customer.source.",
	"customer.tax_id.", "customer.subscription.trial_will_end", "customer.subscription.pending_update_applied",
	"customer.subscription.pending_update_expired", "invoice.created", "invoice.deleted", "invoice.finalized",
	"invoice.finalization_failed", "invoice.marked_uncollectible", "invoice.overdue", "invoice.payment_action_required",
	"invoice.payment_attempt_required", "invoice.payment_succeeded", "invoice.sent", "invoice.upcoming", "invoice.updated", "invoice.voided",
	"invoice.will_be_due", "invoiceitem.", "subscription_schedule.", "product.", "price.", "plan.", "coupon.",
	"promotion_code.", "tax_rate.", "payout.", "balance.", "mandate.", "radar.", "review.", "reporting.", "file.",
	"payment_link.", "billing_portal.", "account.", "application_fee.", "capability.", "person.", "quote.", "source.",
	"test_helpers.",
}

// FromStripe reduces an event to a report. It reports false for an event that is known to need no effect. An event that
// it does not understand, or of an older version of the API, becomes a report with a Problem; without a Kind, its ids
// only show what it is about.
func FromStripe(e StripeEvent) (r eventschemas.BillingReported, ok bool) {
	r = eventschemas.BillingReported{Processor: Stripe, EventID: e.ID, Type: e.Type,
		CreatedAt: time.Unix(e.Created, 0).UTC()}
	if !isID(e.ID) || e.ID == "" {
		r.EventID = fmt.Sprintf("sha256-%x", sha256.Sum256(append([]byte(e.ID+"\n"), e.Object...)))
		r.Problem = "the event has no usable id"
	}
	if !isID(e.Type) {
		r.Type, r.Problem = "", "the event has no usable type"
	}
	if e.Created < 0 || e.Created > maxUnix {
		r.CreatedAt, r.Problem = time.Unix(0, 0).UTC(), "the event has no usable time"
	}
	if r.Problem != "" {
		return r, true
	}
	reader, known := readers[e.Type]
	if !known {
		for _, name := range ignored {
			if e.Type == name || strings.HasSuffix(name, ".") && strings.HasPrefix(e.Type, name) {
				return r, false
			}
		}
		r.Problem = "events of this type are unknown; do not send them to this endpoint"
		return r, true
	}
	full := r
	err := reader.read(&full, e.Object)
	if missing := missingField(e.Object, reader.fields); missing != "" && e.APIVersion > newestStripeVersion {
		err = fmt.Errorf("its field %s is missing; events of the API version %s have it", missing, newestStripeVersion)
	}
	if err == nil && full.Kind == "" {
		return r, false
	}
	if err == nil {
		err = Validate(full)
	}
	if err == nil {
		r = full
	} else {
		r.Problem = limit(fmt.Sprintf(cannotBeUsed, err))
		keepIDs(&r, &full)
	}
	if !readable(e.APIVersion) {
		version := e.APIVersion
		if !isID(version) {
			version = "another"
		}
		r.Problem = fmt.Sprintf("the event has the API version %s; set that of the webhook endpoint to %s or a later one",
			version, oldestStripeVersion)
	}
	return r, true
}

// keepIDs copies the ids of an event that cannot be used, so that an operator can find what it is about.
func keepIDs(r, full *eventschemas.BillingReported) {
	id := func(text string) string {
		if !isID(text) {
			return ""
		}
		return text
	}
	r.Subject, r.PaymentID, r.InvoiceID = id(full.Subject), id(full.PaymentID), id(full.InvoiceID)
	r.Customer, r.AccountID = id(full.Customer), full.AccountID
}

// cannotBeUsed is the problem of an event whose reader fails.
const cannotBeUsed = "the event cannot be used: %v"

// Errors of checkout sessions whose account is not confirmed by metadata account_id. Buyers choose the
// client_reference_id of a payment link, because it is a parameter of the page's URL. Only Letterhead and the operator
// set metadata.
var (
	errReferenceOnly = errors.New("only its client_reference_id names the account, and no metadata account_id. " +
		"If the customer is that of the account, link it with letterhead billing link; otherwise dismiss the event")
	errTwoAccounts = errors.New("its client_reference_id and its metadata account_id name different accounts")
)

// maxUnix is the last second of the year 9999.
const maxUnix = 253402300799

// maxProblem limits the text of a problem.
const maxProblem = 500

func limit(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxProblem)], "")
}

// readable reports whether a version of the API, such as 2025-08-27.basil, is oldestStripeVersion or a later one.
func readable(version string) bool {
	date, _, _ := strings.Cut(version, ".")
	_, err := time.Parse(time.DateOnly, date)
	oldest, _, _ := strings.Cut(oldestStripeVersion, ".")
	return err == nil && date >= oldest
}

// EndpointTypes returns the types of events that a webhook endpoint sends.
func EndpointTypes() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(readers)), func(name string) bool {
		return name == "charge.refund.updated" // its successor is refund.updated
	})
}

// CheckEndpoint returns why a webhook endpoint that sends these types of events, of this API version, does not suffice.
// The version is "" if the endpoint has the default version of the Stripe account, which may be any.
func CheckEndpoint(version string, types []string) error {
	if !readable(version) {
		return fmt.Errorf("its API version is %s: make an endpoint with the version %s or a later one",
			cmp.Or(version, "the default of the Stripe account"), oldestStripeVersion)
	}
	if slices.Contains(types, "*") {
		return nil
	}
	missing := slices.DeleteFunc(EndpointTypes(), func(name string) bool { return slices.Contains(types, name) })
	if len(missing) > 0 {
		return fmt.Errorf("it does not send %s", strings.Join(missing, ", "))
	}
	return nil
}

// reader reads the object of an event.
type reader struct {
	read   func(*eventschemas.BillingReported, []byte) error
	fields []string // must be in an object later than newestStripeVersion; null is a value, and lists are looked into
}

// missingField returns the first of some fields that a JSON object lacks, or "".
func missingField(object []byte, fields []string) string {
	var all any
	if json.Unmarshal(object, &all) != nil {
		return "" // the reader says so
	}
	for _, name := range fields {
		if lacks(all, strings.Split(name, ".")) {
			return name
		}
	}
	return ""
}

func lacks(value any, path []string) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, func(element any) bool { return lacks(element, path) })
	case map[string]any:
		if len(path) > 0 {
			inner, found := v[path[0]]
			return !found || lacks(inner, path[1:])
		}
	}
	return false
}

// Readers of the types of events. Each version of the API from oldestStripeVersion to newestStripeVersion has their fields.
var (
	sold = reader{readSession, []string{"id", "mode", "payment_status", "amount_total", "currency", "customer",
		"client_reference_id", "payment_intent", "metadata", "total_details"}}
	billed = []string{"id", "billing_reason", "amount_paid", "amount_remaining", "attempt_count", "total", "currency",
		"customer", "total_taxes", "parent", "lines.has_more", "lines.data.amount", "lines.data.quantity",
		"lines.data.pricing", "lines.data.parent.subscription_item_details", "lines.data.parent.invoice_item_details"}
	refunded   = reader{readRefund, []string{"id", "amount", "currency", "status", "payment_intent", "charge"}}
	disputed   = reader{readDispute, refunded.fields}
	subscribed = reader{readSubscription, []string{"id", "status", "customer", "metadata", "items.data.price"}}
	readers    = map[string]reader{
		"checkout.session.completed":               sold,
		"checkout.session.async_payment_succeeded": sold,
		"checkout.session.async_payment_failed":    {readFailedSession, sold.fields},
		"invoice.paid":                             {readInvoice, billed},
		"invoice.payment_failed":                   {readFailedInvoice, billed},
		"invoice_payment.paid":                     {readInvoicePayment, []string{"invoice", "payment"}},
		"refund.created":                           refunded,
		"refund.updated":                           refunded,
		"refund.failed":                            refunded,
		"charge.refund.updated":                    refunded,
		"charge.dispute.created":                   disputed,
		"charge.dispute.updated":                   disputed,
		"charge.dispute.closed":                    disputed,
		"charge.dispute.funds_withdrawn":           disputed,
		"charge.dispute.funds_reinstated":          disputed,
		"customer.subscription.created":            subscribed,
		"customer.subscription.updated":            subscribed,
		"customer.subscription.deleted":            subscribed,
		"customer.subscription.paused":             subscribed,
		"customer.subscription.resumed":            subscribed,
	}
)

// ref is a field with the id of another object, or with the whole object.
type ref string

func (r *ref) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var object struct {
			ID string `json:"id"`
		}
		err := json.Unmarshal(data, &object)
		*r = ref(object.ID)
		return err
	}
	var id *string
	if err := json.Unmarshal(data, &id); err != nil || id == nil {
		return err
	}
	*r = ref(*id)
	return nil
}

// Currencies in which an amount of Stripe is not in the minor unit of ISO 4217 (https://docs.stripe.com/currencies).
var (
	hundredths = map[string]bool{"ISK": true, "UGX": true} // two decimals, and none in ISO 4217
	wholes     = map[string]bool{"MGA": true}              // none, and two in ISO 4217
)

// moneyOf returns an amount of Stripe, or nil for zero.
func moneyOf(amount int64, currency string) (*eventschemas.Money, error) {
	if amount == 0 {
		return nil, nil
	}
	currency = strings.ToUpper(currency)
	if len(currency) != 3 || strings.Trim(currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return nil, errors.New("its currency is not a code like eur")
	}
	most := account.MaxMoney
	if wholes[currency] {
		most /= 100
	}
	if amount < 0 || amount > most {
		return nil, errors.New("its amount is out of range")
	}
	switch {
	case wholes[currency]:
		amount *= 100
	case hundredths[currency] && amount%100 != 0:
		return nil, fmt.Errorf("its amount is not a whole number of %s", currency)
	case hundredths[currency]:
		amount /= 100
	}
	return &eventschemas.Money{Minor: amount, Currency: currency}, nil
}

// stripeAmount returns the amount of Stripe that moneyOf returns as this money, if there is one.
func stripeAmount(m eventschemas.Money) int64 {
	switch {
	case wholes[m.Currency]:
		return m.Minor / 100
	case hundredths[m.Currency]:
		return m.Minor * 100
	}
	return m.Minor
}

// pay sets what was paid. tax is a part of total, of which paid may be less.
func pay(r *eventschemas.BillingReported, paid, total, tax int64, currency string) (err error) {
	if r.Money, err = moneyOf(paid, currency); err != nil || r.Money == nil || tax <= 0 {
		return err
	}
	whole, err := moneyOf(total, currency)
	if err != nil {
		return err
	}
	part, err := moneyOf(tax, currency)
	if err != nil || whole == nil || part == nil {
		return err
	}
	if part.Minor > whole.Minor {
		return errors.New("its tax is more than its total")
	}
	r.Tax = account.Share(part.Minor, r.Money.Minor, whole.Minor)
	return nil
}

// accountIn returns the first text that can be the id of an account. Others are references of another program, such as
// e-mail addresses, which must not be stored; the customer then determines the account.
func accountIn(texts ...string) string {
	if i := slices.IndexFunc(texts, isAccountID); i >= 0 {
		return texts[i]
	}
	return ""
}

type session struct {
	ID            string            `json:"id"`
	Mode          string            `json:"mode"`
	PaymentStatus string            `json:"payment_status"`
	Account       string            `json:"client_reference_id"`
	Customer      ref               `json:"customer"`
	PaymentIntent ref               `json:"payment_intent"`
	Total         *int64            `json:"amount_total"`
	Currency      string            `json:"currency"`
	Metadata      map[string]string `json:"metadata"`
	Details       struct {
		Tax int64 `json:"amount_tax"`
	} `json:"total_details"`
}

// sessionOf reads a checkout session, and sets the account and the customer that it names.
func sessionOf(r *eventschemas.BillingReported, object []byte) (s session, err error) {
	if json.Unmarshal(object, &s) != nil {
		return s, errors.New("its object is not a checkout session")
	}
	r.AccountID, r.Customer = accountIn(s.Metadata[MetaAccount], s.Account), string(s.Customer)
	if s.Mode != "subscription" {
		r.PaymentID = s.paymentID()
	}
	if s.Mode != "payment" && s.Mode != "subscription" && s.Mode != "setup" {
		return s, errors.New("its mode is unknown")
	}
	return s, nil
}

// confirm removes the customer of a payment whose metadata does not name its account: it is granted, and links no
// customer.
func (s *session) confirm(r *eventschemas.BillingReported) error {
	switch {
	case isAccountID(s.Account) && s.Account != r.AccountID:
		return errTwoAccounts
	case r.AccountID == "" || r.AccountID == s.Metadata[MetaAccount]:
		return nil
	case s.Mode == "subscription":
		return errReferenceOnly
	}
	r.Customer = ""
	return nil
}

func (s *session) paymentID() string { return cmp.Or(string(s.PaymentIntent), s.ID) }

// prices returns what is bought, if the session says so.
func (s *session) prices() []eventschemas.BillingPrice {
	if price := s.Metadata[MetaPrice]; price != "" {
		return []eventschemas.BillingPrice{{Price: price, Quantity: 1}}
	}
	return nil
}

func readSession(r *eventschemas.BillingReported, object []byte) error {
	s, err := sessionOf(r, object)
	if err != nil {
		return err
	}
	if s.Mode == "payment" && s.PaymentStatus != "paid" && s.PaymentStatus != "unpaid" &&
		s.PaymentStatus != "no_payment_required" {
		return errors.New("its payment_status is unknown")
	}
	if s.Mode == "setup" {
		return nil
	}
	if err := s.confirm(r); err != nil {
		return err
	}
	paid := s.PaymentStatus == "paid" || s.PaymentStatus == "no_payment_required"
	switch {
	case s.Mode == "subscription", !paid && r.Customer != "" && r.AccountID != "":
		// The credits come with the paid invoice, or when the payment has succeeded.
		r.Kind, r.PaymentID = KindCustomer, ""
		return nil
	case !paid:
		return nil
	}
	if s.Total == nil {
		return errors.New("it is paid, and its amount_total is null")
	}
	r.Kind, r.State, r.GrantKind, r.Prices = KindPayment, s.PaymentStatus, account.KindTopup, s.prices()
	return pay(r, *s.Total, *s.Total, s.Details.Tax, s.Currency)
}

// readFailedSession reads the end of a checkout whose delayed payment failed. The payment of a subscription fails with
// its invoice.
func readFailedSession(r *eventschemas.BillingReported, object []byte) error {
	s, err := sessionOf(r, object)
	if err != nil || s.Mode != "payment" {
		return err
	}
	if err := s.confirm(r); err != nil {
		return err
	}
	if r.Kind, r.Prices = KindFailure, s.prices(); s.Total == nil {
		return nil
	}
	r.Money, err = moneyOf(*s.Total, s.Currency)
	return err
}

type lineOrigin struct {
	Proration bool `json:"proration"`
}

type invoiceLine struct {
	Amount   int64       `json:"amount"`
	Quantity *int64      `json:"quantity"`
	Decimal  json.Number `json:"quantity_decimal"` // since dahlia
	Pricing  struct {
		Details struct {
			Price ref `json:"price"`
		} `json:"price_details"`
	} `json:"pricing"`
	Parent struct {
		Item        lineOrigin `json:"subscription_item_details"`
		InvoiceItem lineOrigin `json:"invoice_item_details"`
	} `json:"parent"`
}

type invoice struct {
	ID       string            `json:"id"`
	Customer ref               `json:"customer"`
	Reason   string            `json:"billing_reason"`
	Paid     int64             `json:"amount_paid"`
	Unpaid   int64             `json:"amount_remaining"`
	Attempts int64             `json:"attempt_count"`
	Total    int64             `json:"total"`
	Currency string            `json:"currency"`
	Metadata map[string]string `json:"metadata"`
	Taxes    []struct {
		Amount int64 `json:"amount"`
	} `json:"total_taxes"`
	Parent struct {
		Subscription struct {
			ID       ref               `json:"subscription"`
			Metadata map[string]string `json:"metadata"`
		} `json:"subscription_details"`
	} `json:"parent"`
	Lines struct {
		Data []invoiceLine `json:"data"`
		More bool          `json:"has_more"`
	} `json:"lines"`
}

// invoiceOf reads an invoice, and sets the payment, and what it is of.
func invoiceOf(r *eventschemas.BillingReported, object []byte) (i invoice, err error) {
	if json.Unmarshal(object, &i) != nil {
		return i, errors.New("its object is not an invoice")
	}
	r.PaymentID, r.Customer = i.ID, string(i.Customer)
	r.Subject, r.AccountID = string(i.Parent.Subscription.ID), accountIn(i.Parent.Subscription.Metadata[MetaAccount])
	return i, nil
}

// ofSubscription reports whether an invoice is one of a subscription. Others may be of another product.
func (i *invoice) ofSubscription() bool { return strings.HasPrefix(i.Reason, "subscription") }

// quantity returns the units of a line, which since dahlia may be a fraction.
func (l *invoiceLine) quantity() (int64, error) {
	if l.Decimal == "" {
		if l.Quantity == nil {
			return 1, nil
		}
		return *l.Quantity, nil
	}
	whole, fraction, _ := strings.Cut(l.Decimal.String(), ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || strings.Trim(fraction, "0") != "" || l.Quantity != nil && *l.Quantity != n {
		return 0, fmt.Errorf("the quantity %s of a line is not a whole number", l.Decimal)
	}
	return n, nil
}

// prices returns what is bought. Prorations, and lines that cost nothing, are left out.
func (i *invoice) prices() (all []eventschemas.BillingPrice, err error) {
	for _, line := range i.Lines.Data {
		if line.Amount <= 0 || line.Parent.Item.Proration || line.Parent.InvoiceItem.Proration {
			continue
		}
		quantity, err := line.quantity()
		if err != nil {
			return nil, err
		}
		all = append(all, eventschemas.BillingPrice{Price: string(line.Pricing.Details.Price), Quantity: quantity})
	}
	return all, nil
}

// readFailedInvoice reads an attempt to pay an invoice that failed.
func readFailedInvoice(r *eventschemas.BillingReported, object []byte) error {
	i, err := invoiceOf(r, object)
	if err != nil || !i.ofSubscription() {
		return err
	}
	if r.Prices, err = i.prices(); err != nil {
		return err
	}
	r.Kind, r.Attempt = KindFailure, i.Attempts
	r.Money, err = moneyOf(i.Unpaid, i.Currency)
	return err
}

func readInvoice(r *eventschemas.BillingReported, object []byte) error {
	i, err := invoiceOf(r, object)
	if err != nil {
		return err
	}
	if !i.ofSubscription() && i.Metadata[MetaGranted] != "" {
		return nil
	}
	if !i.ofSubscription() {
		return errors.New("the invoice is not that of a subscription. A checkout may have granted its payment: grant its credits with letterhead credits grant only if letterhead payment show pi_… does not find it")
	}
	if i.Lines.More {
		return errors.New("the invoice has more lines than a webhook contains. Grant its credits with letterhead credits grant only if letterhead payment show in_… does not find it")
	}
	if r.Prices, err = i.prices(); err != nil {
		return err
	}
	if len(r.Prices) == 0 && i.Paid == 0 {
		return nil // a trial
	}
	if len(r.Prices) == 0 {
		return errors.New("the invoice has only prorations. Grant its credits with letterhead credits grant only if letterhead payment show in_… does not find it")
	}
	tax := int64(0)
	for _, t := range i.Taxes {
		tax += t.Amount
	}
	r.Kind, r.State, r.GrantKind = KindPayment, "paid", account.KindSubscription
	return pay(r, i.Paid, i.Total, tax, i.Currency)
}

func readInvoicePayment(r *eventschemas.BillingReported, object []byte) error {
	var p struct {
		Invoice ref `json:"invoice"`
		Payment struct {
			PaymentIntent ref `json:"payment_intent"`
			Charge        ref `json:"charge"`
		} `json:"payment"`
	}
	if err := json.Unmarshal(object, &p); err != nil {
		return errors.New("its object is not an invoice payment")
	}
	r.Kind, r.InvoiceID = KindLink, string(p.Invoice)
	r.PaymentID = string(cmp.Or(p.Payment.PaymentIntent, p.Payment.Charge))
	return nil
}

func readRefund(r *eventschemas.BillingReported, object []byte) error {
	r.Kind = KindRefund
	return readClaim(r, object)
}

func readDispute(r *eventschemas.BillingReported, object []byte) error {
	r.Kind = KindDispute
	return readClaim(r, object)
}

func readClaim(r *eventschemas.BillingReported, object []byte) (err error) {
	var c struct {
		ID            string `json:"id"`
		Amount        int64  `json:"amount"`
		Currency      string `json:"currency"`
		Status        string `json:"status"`
		PaymentIntent ref    `json:"payment_intent"`
		Charge        ref    `json:"charge"`
	}
	if err := json.Unmarshal(object, &c); err != nil {
		return fmt.Errorf("its object is not a %s", r.Kind)
	}
	r.Subject, r.State, r.PaymentID = c.ID, c.Status, string(cmp.Or(c.PaymentIntent, c.Charge))
	r.Money, err = moneyOf(c.Amount, c.Currency)
	return err
}

func readSubscription(r *eventschemas.BillingReported, object []byte) error {
	var s struct {
		ID       string            `json:"id"`
		Status   string            `json:"status"`
		Customer ref               `json:"customer"`
		Metadata map[string]string `json:"metadata"`
		Items    struct {
			Data []struct {
				Price    ref    `json:"price"`
				Quantity *int64 `json:"quantity"`
			} `json:"data"`
		} `json:"items"`
	}
	if err := json.Unmarshal(object, &s); err != nil {
		return errors.New("its object is not a subscription")
	}
	r.Kind, r.Subject, r.State, r.Customer, r.AccountID = KindSubscription, s.ID, s.Status, string(s.Customer),
		accountIn(s.Metadata[MetaAccount])
	for _, item := range s.Items.Data {
		quantity := int64(1)
		if item.Quantity != nil {
			quantity = *item.Quantity
		}
		r.Prices = append(r.Prices, eventschemas.BillingPrice{Price: string(item.Price), Quantity: quantity})
	}
	return nil
}
