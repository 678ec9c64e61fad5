package billing_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"letterhead/domain/billing"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

const accountID = "5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11"

// event is an event of Stripe about an object.
func event(eventType, object string) billing.StripeEvent {
	return billing.StripeEvent{ID: "evt_1", Type: eventType, APIVersion: billing.StripeVersion, Created: 1795000000, Object: []byte(object)}
}

const (
	session = `{"id":"cs_1","object":"checkout.session","mode":"payment","payment_status":"paid","client_reference_id":"` + accountID + `",
		"customer":"cus_1","payment_intent":"pi_1","amount_total":4900,"currency":"eur","total_details":{"amount_tax":782},
		"metadata":{"account_id":"` + accountID + `","price":"price_small"},"customer_details":{"email":"jane@example.com","name":"Jane"}}`
	invoice = `{"id":"in_1","object":"invoice","customer":"cus_1","customer_email":"jane@example.com","billing_reason":"subscription_cycle","amount_paid":9900,
		"total":9900,"currency":"eur","total_taxes":[{"amount":1500},{"amount":80}],"parent":{"subscription_details":{"subscription":"sub_1",
		"metadata":{"account_id":"` + accountID + `"}}},"lines":{"has_more":false,"data":[
		{"amount":8320,"quantity":1,"pricing":{"price_details":{"price":"price_growth"}},"parent":{"subscription_item_details":{"proration":false}}},
		{"amount":-300,"quantity":1,"pricing":{"price_details":{"price":"price_starter"}},"parent":{"subscription_item_details":{"proration":true}}}]}}`
	refund       = `{"id":"re_1","object":"refund","amount":490,"currency":"eur","status":"succeeded","payment_intent":"pi_1","charge":"ch_1"}`
	dispute      = `{"id":"dp_1","object":"dispute","amount":4900,"currency":"eur","status":"needs_response","payment_intent":{"id":"pi_1"},"charge":"ch_1"}`
	subscription = `{"id":"sub_1","object":"subscription","status":"active","customer":"cus_1","metadata":{"account_id":"` + accountID + `"},
		"cancel_at_period_end":true,"items":{"data":[{"price":{"id":"price_growth"},"quantity":1}]}}`
	invoicePayment = `{"id":"inpay_1","invoice":"in_1","payment":{"type":"payment_intent","payment_intent":"pi_9"}}`
)

func TestFromStripe_KeepsOnlyWhatAccountsNeed(t *testing.T) {
	base := func(eventType string) eventschemas.BillingReported {
		return eventschemas.BillingReported{Processor: "stripe", EventID: "evt_1", Type: eventType, CreatedAt: time.Unix(1795000000, 0).UTC()}
	}
	euros := func(minor int64) *eventschemas.Money { return &eventschemas.Money{Minor: minor, Currency: "EUR"} }
	for _, c := range []struct {
		eventType, object string
		want              func(*eventschemas.BillingReported)
	}{
		{"checkout.session.completed", session, func(r *eventschemas.BillingReported) {
			r.Kind, r.State, r.GrantKind, r.AccountID, r.Customer, r.PaymentID = "payment", "paid", "topup", accountID, "cus_1", "pi_1"
			r.Prices, r.Money, r.Tax = []eventschemas.BillingPrice{{Price: "price_small", Quantity: 1}}, euros(4900), 782
		}},
		{"checkout.session.completed", `{"id":"cs_1","mode":"payment","payment_status":"no_payment_required","client_reference_id":"` + accountID + `","amount_total":0,"currency":"eur","metadata":{"price":"p"}}`,
			func(r *eventschemas.BillingReported) {
				r.Kind, r.State, r.GrantKind, r.AccountID, r.PaymentID = "payment", "no_payment_required", "topup", accountID, "cs_1"
				r.Prices = []eventschemas.BillingPrice{{Price: "p", Quantity: 1}}
			}},
		{"checkout.session.completed", strings.Replace(session, `"paid"`, `"unpaid"`, 1), func(r *eventschemas.BillingReported) {
			r.Kind, r.AccountID, r.Customer = "customer", accountID, "cus_1"
		}},
		{"checkout.session.completed", strings.Replace(session, `"payment"`, `"subscription"`, 1), func(r *eventschemas.BillingReported) {
			r.Kind, r.AccountID, r.Customer = "customer", accountID, "cus_1"
		}},
		{"invoice.paid", invoice, func(r *eventschemas.BillingReported) {
			r.Kind, r.State, r.GrantKind, r.Subject, r.AccountID, r.Customer, r.PaymentID = "payment", "paid", "subscription", "sub_1", accountID, "cus_1", "in_1"
			r.Prices, r.Money, r.Tax = []eventschemas.BillingPrice{{Price: "price_growth", Quantity: 1}}, euros(9900), 1580
		}},
		{"invoice.paid", strings.Replace(invoice, `"amount_paid":9900`, `"amount_paid":4950`, 1), func(r *eventschemas.BillingReported) { // a part came from the customer's balance
			r.Kind, r.State, r.GrantKind, r.Subject, r.AccountID, r.Customer, r.PaymentID = "payment", "paid", "subscription", "sub_1", accountID, "cus_1", "in_1"
			r.Prices, r.Money, r.Tax = []eventschemas.BillingPrice{{Price: "price_growth", Quantity: 1}}, euros(4950), 790
		}},
		{"invoice.payment_failed", strings.Replace(invoice, `"amount_paid":9900`, `"amount_paid":0,"amount_remaining":9900,"attempt_count":3`, 1), func(r *eventschemas.BillingReported) {
			r.Kind, r.Subject, r.AccountID, r.Customer, r.PaymentID, r.Money, r.Attempt = "failure", "sub_1", accountID, "cus_1", "in_1", euros(9900), 3
			r.Prices = []eventschemas.BillingPrice{{Price: "price_growth", Quantity: 1}}
		}},
		{"invoice.payment_failed", `{"id":"in_2","customer":"cus_1","billing_reason":"subscription_update"}`, func(r *eventschemas.BillingReported) {
			r.Kind, r.Customer, r.PaymentID = "failure", "cus_1", "in_2"
		}},
		{"checkout.session.async_payment_failed", strings.Replace(session, `"paid"`, `"unpaid"`, 1), func(r *eventschemas.BillingReported) {
			r.Kind, r.AccountID, r.Customer, r.PaymentID, r.Money = "failure", accountID, "cus_1", "pi_1", euros(4900)
			r.Prices = []eventschemas.BillingPrice{{Price: "price_small", Quantity: 1}}
		}},
		{"invoice_payment.paid", invoicePayment, func(r *eventschemas.BillingReported) {
			r.Kind, r.InvoiceID, r.PaymentID = "link", "in_1", "pi_9"
		}},
		{"refund.updated", refund, func(r *eventschemas.BillingReported) {
			r.Kind, r.Subject, r.State, r.PaymentID, r.Money = "refund", "re_1", "succeeded", "pi_1", euros(490)
		}},
		{"refund.created", strings.NewReplacer(`"pi_1"`, "null", `490`, `49000`, `"eur"`, `"isk"`).Replace(refund), func(r *eventschemas.BillingReported) {
			r.Kind, r.Subject, r.State, r.PaymentID, r.Money = "refund", "re_1", "succeeded", "ch_1", &eventschemas.Money{Minor: 490, Currency: "ISK"}
		}},
		{"refund.created", strings.NewReplacer(`490`, `5000`, `"eur"`, `"mga"`).Replace(refund), func(r *eventschemas.BillingReported) { // ISO 4217 has two decimals
			r.Kind, r.Subject, r.State, r.PaymentID, r.Money = "refund", "re_1", "succeeded", "pi_1", &eventschemas.Money{Minor: 500000, Currency: "MGA"}
		}},
		{"refund.created", strings.Replace(refund, `"eur"`, `"mru"`, 1), func(r *eventschemas.BillingReported) {
			r.Kind, r.Subject, r.State, r.PaymentID, r.Money = "refund", "re_1", "succeeded", "pi_1", &eventschemas.Money{Minor: 490, Currency: "MRU"}
		}},
		{"charge.dispute.created", dispute, func(r *eventschemas.BillingReported) {
			r.Kind, r.Subject, r.State, r.PaymentID, r.Money = "dispute", "dp_1", "needs_response", "pi_1", euros(4900)
		}},
		{"customer.subscription.updated", subscription, func(r *eventschemas.BillingReported) {
			r.Kind, r.Subject, r.State, r.Customer, r.AccountID = "subscription", "sub_1", "active", "cus_1", accountID
			r.Prices = []eventschemas.BillingPrice{{Price: "price_growth", Quantity: 1}}
		}},
	} {
		want := base(c.eventType)
		c.want(&want)
		got, ok := billing.FromStripe(event(c.eventType, c.object))
		if !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s becomes\n%+v, %t, want\n%+v", c.eventType, got, ok, want)
		}
	}
}

func TestFromStripe_EventsWithoutEffect_AreIgnored(t *testing.T) {
	for eventType, object := range map[string]string{
		"charge.succeeded": "{}", "charge.refunded": "{}", "payment_intent.succeeded": "{}", "invoice.payment_succeeded": "{}", "customer.created": "{}",
		"checkout.session.expired": "{}", "checkout.session.completed": `{"mode":"setup","payment_status":"no_payment_required"}`,
		"charge.failed": "{}", "payment_intent.payment_failed": "{}", "checkout.session.async_payment_failed": `{"mode":"subscription"}`,
		"invoice.payment_failed": `{"id":"in_1","customer":"cus_1","billing_reason":"manual"}`,                                           // of another product
		"invoice.paid":           `{"id":"in_1","billing_reason":"subscription_create","amount_paid":0,"lines":{"data":[{"amount":0}]}}`, // a trial
	} {
		if got, ok := billing.FromStripe(event(eventType, object)); ok {
			t.Errorf("%s becomes %+v, want none", eventType, got)
		}
	}
	ofPack := strings.NewReplacer("subscription_cycle", "manual", `"id":"in_1"`, `"id":"in_1","metadata":{"granted_by":"checkout.session"}`).Replace(invoice)
	if got, ok := billing.FromStripe(event("invoice.paid", ofPack)); ok {
		t.Errorf("the invoice of a pack, which its session grants, becomes %+v, want none", got)
	}
}

func TestFromStripe_EventsThatCannotBeUsed_HaveAProblem(t *testing.T) {
	for _, c := range []struct {
		event billing.StripeEvent
		kind  string
		want  string
	}{
		{event("treasury.transaction.created", "{}"), "", "unknown"},
		{event("refund.created", strings.Replace(refund, `"re_1"`, "1", 1)), "", "not a refund"},
		{event("refund.created", `nonsense`), "", "not a refund"},
		{event("refund.created", `{"id":"re_1","status":"succeeded","amount":1,"currency":"eur"}`), "", "missing"},
		{event("refund.created", strings.Replace(refund, "490", "-490", 1)), "", "out of range"},
		{event("refund.created", strings.Replace(refund, "eur", "euro", 1)), "", "currency"},
		{event("refund.created", strings.NewReplacer("490", "491", "eur", "isk").Replace(refund)), "", "not a whole number of ISK"},
		{event("refund.created", strings.NewReplacer("490", "90071992547409", "eur", "mga").Replace(refund)), "refund", ""},
		{event("refund.created", strings.NewReplacer("490", "90071992547410", "eur", "mga").Replace(refund)), "", "out of range"},
		{event("refund.created", strings.NewReplacer("490", "9223372036854775807", "eur", "mga").Replace(refund)), "", "out of range"},
		{event("refund.created", strings.Replace(refund, "re_1", "re 1", 1)), "", "subject is not an id"},
		{event("invoice.paid", strings.Replace(invoice, "subscription_cycle", "manual", 1)), "", "not that of a subscription. A checkout may have granted its payment: grant its credits with letterhead credits grant only if letterhead payment show pi_… does not find it"},
		{event("invoice.paid", strings.Replace(invoice, `"has_more":false`, `"has_more":true`, 1)), "", "more lines than a webhook contains. Grant its credits with letterhead credits grant only if letterhead payment show in_… does not find it"},
		{event("invoice.paid", strings.Replace(invoice, `"proration":false`, `"proration":true`, 1)), "", "only prorations. Grant its credits with letterhead credits grant only if letterhead payment show in_… does not find it"},
		{event("invoice.paid", strings.Replace(invoice, `1500`, `15000`, 1)), "", "more than its total"},
		{billing.StripeEvent{ID: "evt_1", Type: "refund.created", APIVersion: "2020-08-27", Created: 1795000000, Object: []byte(refund)}, "refund", "API version 2020-08-27"},
		{billing.StripeEvent{ID: "evt_1", Type: "refund.created", APIVersion: "2025-02-24.acacia", Created: 1795000000, Object: []byte(refund)}, "refund", "2025-03-31.basil or a later one"},
		{billing.StripeEvent{ID: "evt_1", Type: "refund.created", APIVersion: "latest", Created: 1795000000, Object: []byte(refund)}, "refund", "API version latest"},
		{event("invoice.paid", strings.Replace(invoice, `"quantity":1`, `"quantity":1,"quantity_decimal":"1.5"`, 1)), "", "the quantity 1.5 of a line is not a whole number"},
		{event("invoice.paid", strings.Replace(invoice, `"quantity":1`, `"quantity":2,"quantity_decimal":"3"`, 1)), "", "the quantity 3 of a line"},
		{event("checkout.session.completed", strings.Replace(session, `"amount_total":4900`, `"amount_total":null`, 1)), "", "its amount_total is null"},
		{billing.StripeEvent{ID: "", Type: "refund.created", APIVersion: billing.StripeVersion, Object: []byte(refund)}, "", "no usable id"},
		{billing.StripeEvent{ID: "evt_1", Type: "refund.created", Created: -1, APIVersion: billing.StripeVersion, Object: []byte(refund)}, "", "no usable time"},
	} {
		got, ok := billing.FromStripe(c.event)
		if !ok || got.Kind != c.kind || !strings.Contains(got.Problem, c.want) || got.EventID == "" {
			t.Errorf("%s %s becomes %+v, %t, want kind %q and a problem with %q", c.event.Type, c.event.Object, got, ok, c.kind, c.want)
		}
	}
}

// releases are versions of Stripe's API that its libraries for Node.js pin: 18.0.0, 18.5.0, 19.3.1, 20.4.1, 21.0.1, 22.3.0,
// 22.6.2 and 23.1.0. Their types have all fields of the objects in this file.
var releases = []string{"2025-03-31.basil", "2025-08-27.basil", "2025-10-29.clover", "2026-02-25.clover", "2026-03-25.dahlia",
	"2026-06-24.dahlia", "2026-08-26.dahlia", "2026-10-28.endive"}

func TestFromStripe_EachVersionSinceBasil_IsRead(t *testing.T) {
	withDecimals := strings.ReplaceAll(invoice, `"quantity":1`, `"quantity":null,"quantity_decimal":"1.000"`)
	for _, version := range releases {
		objects := map[string]string{
			"checkout.session.completed": session, "checkout.session.async_payment_failed": session, "invoice.paid": invoice,
			"invoice.payment_failed": invoice, "invoice_payment.paid": invoicePayment, "refund.created": refund,
			"charge.dispute.created": dispute, "customer.subscription.updated": subscription,
		}
		if version >= "2026-03-25.dahlia" {
			objects["invoice.paid"], objects["invoice.payment_failed"] = withDecimals, withDecimals
		}
		for eventType, object := range objects {
			e := event(eventType, object)
			want, _ := billing.FromStripe(e)
			e.APIVersion = version
			if got, ok := billing.FromStripe(e); !ok || got.Problem != "" || got.Kind == "" || !reflect.DeepEqual(got, want) {
				t.Errorf("%s of %s becomes %+v, %t, want %+v", eventType, version, got, ok, want)
			}
		}
	}
}

func TestCheckEndpoint(t *testing.T) {
	sent := []string{"checkout.session.completed", "checkout.session.async_payment_succeeded", "checkout.session.async_payment_failed",
		"invoice.paid", "invoice.payment_failed", "invoice_payment.paid", "refund.created", "refund.updated", "refund.failed",
		"charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed", "charge.dispute.funds_withdrawn",
		"charge.dispute.funds_reinstated", "customer.subscription.created", "customer.subscription.updated",
		"customer.subscription.deleted", "customer.subscription.paused", "customer.subscription.resumed", "payout.paid"}
	for _, c := range []struct {
		version string
		types   []string
		want    string
	}{
		{"2026-10-28.endive", sent, ""},
		{"2025-03-31.basil", []string{"*"}, ""},
		{"", []string{"*"}, "the default of the Stripe account"},
		{"2025-02-24.acacia", sent, "2025-03-31.basil or a later one"},
		{"2026-10-28.endive", sent[1:], "does not send checkout.session.completed"},
	} {
		if err := billing.CheckEndpoint(c.version, c.types); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %v: %v, want %q", c.version, c.types, err, c.want)
		}
	}
}

// A later version may rename a field. Its events must not be read as if the field were zero.
func TestFromStripe_FieldIsMissing_ProblemNamesIt(t *testing.T) {
	later := strings.NewReplacer(`"amount_paid"`, `"amount_remaining":0,"attempt_count":1,"amount_paid"`,
		`"parent":{"subscription_item_details"`, `"parent":{"invoice_item_details":null,"subscription_item_details"`).Replace(invoice)
	for eventType, c := range map[string]struct {
		object string
		fields []string
	}{
		"checkout.session.completed": {session, []string{"mode", "payment_status", "amount_total", "currency", "payment_intent",
			"total_details", "metadata"}},
		"invoice.paid": {later, []string{"billing_reason", "amount_paid", "total", "currency", "total_taxes", "parent",
			"lines.has_more", "lines.data.amount", "lines.data.pricing", "lines.data.quantity",
			"lines.data.parent.subscription_item_details", "lines.data.parent.invoice_item_details"}},
		"invoice.payment_failed":        {later, []string{"billing_reason", "amount_remaining", "attempt_count"}},
		"invoice_payment.paid":          {invoicePayment, []string{"invoice", "payment"}},
		"refund.created":                {refund, []string{"id", "amount", "currency", "status"}},
		"charge.dispute.closed":         {dispute, []string{"id", "amount", "currency", "status"}},
		"customer.subscription.updated": {subscription, []string{"id", "status", "customer", "items.data.price"}},
	} {
		for _, field := range c.fields {
			name := field[strings.LastIndexByte(field, '.')+1:]
			object := []byte(strings.ReplaceAll(c.object, `"`+name+`":`, `"new_`+name+`":`))
			if i := strings.LastIndex(c.object, `"`+name+`":`); strings.Contains(field, ".data.") {
				object = []byte(c.object[:i] + "\"new_" + c.object[i+1:])
			}
			e := event(eventType, string(object))
			e.APIVersion = "2027-01-27.fennel"
			if got, ok := billing.FromStripe(e); !ok || got.Kind != "" || !strings.Contains(got.Problem, "its field "+field+" is missing") {
				t.Errorf("%s without %s becomes %+v, %t, want a problem that names the field", eventType, field, got, ok)
			}
		}
	}
}

func TestFromStripe_SessionInUnknownState_HasAProblem(t *testing.T) {
	for _, c := range []struct{ name, object, problem string }{
		{"status", strings.Replace(session, `"payment_status":"paid"`, `"payment_status":"partially_paid"`, 1), "its payment_status is unknown"},
		{"no status", strings.Replace(session, `"payment_status":"paid",`, "", 1), "its payment_status is unknown"},
		{"mode", strings.Replace(session, `"mode":"payment"`, `"mode":"invoice"`, 1), "its mode is unknown"},
	} {
		r, ok := billing.FromStripe(event("checkout.session.completed", c.object))
		if !ok || r.Kind != "" || !strings.Contains(r.Problem, c.problem) {
			t.Errorf("%s: %+v, used %t; want the problem %q", c.name, r, ok, c.problem)
		}
	}
}

// TestFromStripe_EventThatCannotBeUsed_KeepsItsIDs checks that an operator can find what the event is about.
func TestFromStripe_EventThatCannotBeUsed_KeepsItsIDs(t *testing.T) {
	type ids struct{ subject, account, customer, payment, invoice string }
	whole := ids{"sub_1", accountID, "cus_1", "in_1", ""}
	for _, c := range []struct {
		eventType, object string
		want              ids
	}{
		{"invoice.paid", strings.Replace(invoice, `"proration":false`, `"proration":true`, 1), whole},
		{"invoice.paid", strings.Replace(invoice, `"has_more":false`, `"has_more":true`, 1), whole},
		{"invoice.paid", strings.Replace(invoice, "subscription_cycle", "manual", 1), whole},
		{"invoice.paid", strings.NewReplacer("price_growth", "price growth", "cus_1", "jane doe").Replace(invoice), ids{"sub_1", accountID, "", "in_1", ""}},
		{"checkout.session.completed", strings.Replace(session, `"payment_status":"paid"`, `"payment_status":"partially_paid"`, 1), ids{"", accountID, "cus_1", "pi_1", ""}},
		{"checkout.session.completed", strings.Replace(session, `"mode":"payment"`, `"mode":"invoice"`, 1), ids{"", accountID, "cus_1", "pi_1", ""}},
		{"refund.created", strings.Replace(refund, "eur", "euro", 1), ids{"re_1", "", "", "pi_1", ""}},
		{"refund.created", strings.Replace(refund, "re_1", "re 1", 1), ids{"", "", "", "pi_1", ""}},
		{"refund.created", `{"id":1}`, ids{}},
		{"invoice_payment.paid", strings.Replace(invoicePayment, "pi_9", "", 1), ids{"", "", "", "", "in_1"}},
		{"customer.subscription.updated", strings.Replace(subscription, `"status":"active"`, `"status":""`, 1), ids{"sub_1", accountID, "cus_1", "", ""}},
	} {
		r, ok := billing.FromStripe(event(c.eventType, c.object))
		got := ids{r.Subject, r.AccountID, r.Customer, r.PaymentID, r.InvoiceID}
		if !ok || r.Kind != "" || r.Problem == "" || got != c.want {
			t.Errorf("%s %s becomes %+v, %t; want a problem, no kind and the ids %+v", c.eventType, c.object, r, ok, c.want)
		}
		if err := billing.Validate(r); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestFromStripe_OtherReference_IsNotStored reads sessions and subscriptions of a shop that uses their references for other
// things.
func TestFromStripe_OtherReference_IsNotStored(t *testing.T) {
	for _, reference := range []string{"jane@example.com", "order-77", strings.ToUpper(accountID), "{" + accountID + "}"} {
		replaced := strings.NewReplacer(accountID, reference)
		for eventType, object := range map[string]string{
			"checkout.session.completed": replaced.Replace(session), "customer.subscription.created": replaced.Replace(subscription),
			"invoice.paid": replaced.Replace(invoice),
		} {
			got, ok := billing.FromStripe(event(eventType, object))
			if !ok || got.Kind == "" || got.AccountID != "" || got.Problem != "" {
				t.Errorf("%s of %s becomes %+v, %t, want a report without an account", eventType, reference, got, ok)
			}
			if enc, err := eventschemas.Encode(got); err != nil || strings.Contains(string(enc.Data), reference) {
				t.Errorf("%s of %s is stored as %s, %v", eventType, reference, enc.Data, err)
			}
		}
	}
}

func TestFromStripe_OtherReference_MetadataNamesTheAccount(t *testing.T) {
	both := strings.Replace(session, `"client_reference_id":"`+accountID, `"client_reference_id":"order-77`, 1)
	if got, ok := billing.FromStripe(event("checkout.session.completed", both)); !ok || got.Kind == "" || got.AccountID != accountID {
		t.Errorf("the session becomes %+v, %t, want one of account %s", got, ok, accountID)
	}
}

// Only metadata links a customer to an account.
func TestFromStripe_SessionNotConfirmedByMetadata_HasNoCustomerToLink(t *testing.T) {
	const other = "6f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c12"
	unnamed := strings.Replace(session, `"account_id":"`+accountID+`",`, "", 1)
	changed := func(object string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(object) }
	subscribes, unpaid := []string{`"mode":"payment"`, `"mode":"subscription"`}, []string{`"paid"`, `"unpaid"`}
	contradicts := strings.Replace(session, `"account_id":"`+accountID, `"account_id":"`+other, 1)
	for name, c := range map[string]struct {
		eventType, object                string
		ignored                          bool
		kind, account, customer, problem string
	}{
		"pack":         {"completed", unnamed, false, "payment", accountID, "", ""},
		"pack, unpaid": {"completed", changed(unnamed, unpaid...), true, "", "", "", ""},
		"pack, failed": {"async_payment_failed", changed(unnamed, unpaid...), false, "failure", accountID,
			"", ""},
		"subscription": {"completed", changed(unnamed, subscribes...), false, "", accountID, "cus_1",
			"only its client_reference_id"},
		"subscription, failed": {"async_payment_failed", changed(unnamed, subscribes...), true, "", "", "", ""},
		"setup": {"completed", changed(unnamed, `"mode":"payment"`, `"mode":"setup"`), true, "",
			"", "", ""},
		"metadata of another shop": {"completed",
			changed(session, `"account_id":"`+accountID, `"account_id":"order-7`), false, "payment", accountID, "", ""},
		"pack, two accounts": {"completed", contradicts, false, "", other, "cus_1", "different accounts"},
		"subscription, two accounts": {"completed", changed(contradicts, subscribes...), false, "", other, "cus_1",
			"different accounts"},
		"pack of no account": {"completed", changed(session, accountID, "order-7"), false, "payment", "",
			"cus_1", ""},
	} {
		r, ok := billing.FromStripe(event("checkout.session."+c.eventType, c.object))
		if ok == c.ignored {
			t.Errorf("%s becomes %+v, used %t", name, r, ok)
		}
		if ok && (r.Kind != c.kind || r.AccountID != c.account || r.Customer != c.customer ||
			!strings.Contains(r.Problem, c.problem) || (r.Problem == "") != (c.problem == "")) {
			t.Errorf("%s becomes %+v, want %+v", name, r, c)
		}
	}
}

// FuzzFromStripe checks that every report can be stored and read, and has no more than the ids and amounts of the event.
func FuzzFromStripe(f *testing.F) {
	for eventType, object := range map[string]string{
		"checkout.session.completed": session, "invoice.paid": invoice, "refund.created": refund, "charge.dispute.closed": dispute,
		"customer.subscription.deleted": subscription, "invoice_payment.paid": invoicePayment, "unknown": "{}",
	} {
		f.Add("evt_1", eventType, billing.StripeVersion, int64(1795000000), []byte(object))
	}
	f.Fuzz(func(t *testing.T, id, eventType, version string, created int64, object []byte) {
		report, ok := billing.FromStripe(billing.StripeEvent{ID: id, Type: eventType, APIVersion: version, Created: created, Object: object})
		if !ok {
			return
		}
		if err := billing.Validate(report); err != nil {
			t.Fatalf("%+v: %v", report, err)
		}
		enc := testmust.Get(eventschemas.Encode(report))(t)
		if err := eventschemas.ValidateJSON(enc.Type, enc.SchemaVersion, enc.Data); err != nil {
			t.Fatalf("%s: %v", enc.Data, err)
		}
		if back, err := eventschemas.Decode(enc.Type, enc.SchemaVersion, enc.Data); err != nil || !reflect.DeepEqual(back, report) {
			t.Fatalf("%+v is read as %+v, %v", report, back, err)
		}
	})
}
