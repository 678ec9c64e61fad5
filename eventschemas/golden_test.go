package eventschemas_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// Golden files are never changed, because they represent data in existing logs. The flag only writes missing
// files, for a new type or version.
var writeMissing = flag.Bool("write-missing-golden", false, "write golden files that do not exist yet")

func ptr[T any](v T) *T { return &v }

const (
	accountID = "0a1b2c3d-4e5f-4061-8273-8495a6b7c8d9"
	requestID = "req_01JD0000000000000000000001"
	acmeID    = "12864c63-ac45-5d92-8400-971f92fe7d18"
	hashA     = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	hashB     = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
)

var moment = time.Date(2026, 11, 21, 8, 44, 1, 234567000, time.UTC)

// golden maps every golden file to the event that it decodes to in this release. When a version 2 is
// added, the line of version 1 stays, and its value becomes the output of the upcaster.
var golden = map[string]eventschemas.Event{
	"AccountOpened.v1":     eventschemas.AccountOpened{AccountID: accountID, Holder: "hld_7", Plan: "free"},
	"PlanChanged.v1":       eventschemas.PlanChanged{From: "free", To: "growth"},
	"AccountSuspended.v1":  eventschemas.AccountSuspended{Reason: "chargeback"},
	"AccountNoted.v1":      eventschemas.AccountNoted{Text: "Pays by invoice from 2027 on."},
	"AccountNoted.v1.full": eventschemas.AccountNoted{NoteID: "n-1", Text: "Pays by invoice from 2027 on."},
	"AccountReinstated.v1": eventschemas.AccountReinstated{},
	"AccountClosed.v1":     eventschemas.AccountClosed{Reason: "asked by its holder"},
	"CreditsGranted.v1": eventschemas.CreditsGranted{
		GrantID: "grant-1", Kind: "topup", Credits: 10_000, PaymentID: "pay_123", Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}, Reason: "pack M",
	},
	"CreditsGranted.v1.least": eventschemas.CreditsGranted{GrantID: "free", Kind: "free", Credits: 50},
	"CreditsGranted.v2": eventschemas.CreditsGranted{
		GrantID: "grant-1", Kind: "topup", Credits: 10_000, PaymentID: "pay_123", Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}, Tax: 782, Reason: "pack M",
	},
	"CreditsGranted.v2.least": eventschemas.CreditsGranted{GrantID: "free", Kind: "free", Credits: 50},
	"CreditsHeld.v2": eventschemas.CreditsHeld{
		HoldID: "hold-1", Credits: 1, Deadline: moment.Add(68500 * time.Millisecond), RequestID: requestID, Domain: "acme.com", KeyID: "key-1",
	},
	"CreditsHeld.v2.least": eventschemas.CreditsHeld{
		HoldID: "hold-1", Credits: 1, Deadline: moment.Add(68500 * time.Millisecond), RequestID: requestID, Domain: "acme.com",
	},
	"CreditsHeld.v1.least": eventschemas.CreditsHeld{
		HoldID: "hold-1", Credits: 1, Deadline: moment.Add(68500 * time.Millisecond), RequestID: requestID, Domain: "acme.com",
	},
	"CreditsHeld.v1": eventschemas.CreditsHeld{
		HoldID: "hold-1", Credits: 1, Deadline: moment.Add(68500 * time.Millisecond), RequestID: requestID, Domain: "acme.com",
	},
	"CreditsCharged.v1": eventschemas.CreditsCharged{
		ChargeID: "charge-1", Credits: 1, RequestID: requestID, BrandID: acmeID, Domain: "acme.com", RecordRevision: 1<<53 + 1,
		HoldID: "hold-1", Item: "3", IdempotencyKeyHash: hashA, RequestHash: hashB,
	},
	"CreditsCharged.v1.least": eventschemas.CreditsCharged{
		ChargeID: "charge-1", Credits: 1, RequestID: requestID, BrandID: acmeID, Domain: "xn--bcher-kva.de",
	},
	"CreditsCharged.v2": eventschemas.CreditsCharged{
		ChargeID: "charge-1", Credits: 1, RequestID: requestID, BrandID: acmeID, Domain: "acme.com", RecordRevision: 1<<53 + 1,
		HoldID: "hold-1", Item: "3", IdempotencyKeyHash: hashA, RequestHash: hashB, KeyID: "key-1",
	},
	"CreditsCharged.v2.least": eventschemas.CreditsCharged{
		ChargeID: "charge-1", Credits: 1, RequestID: requestID, BrandID: acmeID, Domain: "xn--bcher-kva.de",
	},
	"HoldReleased.v1":         eventschemas.HoldReleased{HoldID: "hold-1", Credits: 1, Cause: "expired"},
	"ChargeReversed.v2":       eventschemas.ChargeReversed{ChargeID: "charge-1", Credits: 1, RequestID: requestID, Reason: "client_gone", Note: "the answer was empty", KeyID: "key-1"},
	"ChargeReversed.v2.least": eventschemas.ChargeReversed{ChargeID: "charge-1", Credits: 1, RequestID: requestID, Reason: "operator"},
	"ChargeReversed.v1.least": eventschemas.ChargeReversed{ChargeID: "charge-1", Credits: 1, RequestID: requestID, Reason: "operator"},
	"ChargeReversed.v1":       eventschemas.ChargeReversed{ChargeID: "charge-1", Credits: 1, RequestID: requestID, Reason: "client_gone"},
	"ChargeKept.v1":           eventschemas.ChargeKept{ChargeID: "charge-1", RequestID: requestID},
	"PaymentRefunded.v1":      eventschemas.PaymentRefunded{RefundID: "refund-1", PaymentID: "pay_123", Credits: 10_000, Money: &eventschemas.Money{Minor: 500, Currency: "JPY"}},
	"PaymentRefunded.v1.least": eventschemas.PaymentRefunded{
		RefundID: "refund-1", PaymentID: "pay_123", Credits: 1,
	},
	"PaymentFeeRecorded.v1": eventschemas.PaymentFeeRecorded{FeeID: "txn_1", PaymentID: "pay_123", Money: eventschemas.Money{Minor: 145, Currency: "EUR"}},
	"PaymentFeeRecorded.v1.returned": eventschemas.PaymentFeeRecorded{
		FeeID: "txn_2", PaymentID: "pay_123", Money: eventschemas.Money{Minor: -145, Currency: "EUR"},
	},
	"BreakageRecognized.v1": eventschemas.BreakageRecognized{Credits: 40, Policy: "terms of 2026-01: credits of closed accounts lapse"},
	"RefundReversed.v1":     eventschemas.RefundReversed{RefundID: "dp_1", PaymentID: "pay_123", Credits: 10_000, Money: &eventschemas.Money{Minor: 500, Currency: "JPY"}},
	"BillingReported.v1": eventschemas.BillingReported{
		Processor: "stripe", EventID: "evt_1", Type: "invoice.paid", CreatedAt: moment, Kind: "payment", Subject: "sub_1", State: "paid",
		AccountID: accountID, Customer: "cus_1", PaymentID: "in_1", InvoiceID: "in_2", GrantKind: "subscription", Credits: 1000,
		Prices: []eventschemas.BillingPrice{{Price: "price_1", Quantity: 1}}, Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}, Tax: 782, Problem: "why",
	},
	"BillingReported.v1.failure": eventschemas.BillingReported{
		Processor: "stripe", EventID: "evt_2", Type: "invoice.payment_failed", CreatedAt: moment, Kind: "failure", Customer: "cus_1", PaymentID: "in_1",
		Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}, Attempt: 2,
	},
	"BillingReported.v1.least": eventschemas.BillingReported{Processor: "stripe", EventID: "evt_1", CreatedAt: moment},
	"BillingSettled.v1":        eventschemas.BillingSettled{Outcome: "inbox", Reason: "why", AccountID: accountID, Plan: "growth"},
	"BillingSettled.v1.least":  eventschemas.BillingSettled{Outcome: "applied"},
	"BillingReopened.v1":       eventschemas.BillingReopened{},
	"KeyIssued.v1":             eventschemas.KeyIssued{KeyID: "key-1", Hash: hashA, Last4: "x9Yz", Kind: "secret"},
	"KeyIssued.v2.limited": eventschemas.KeyIssued{
		KeyID: "key-1", Hash: hashA, Last4: "x9Yz", Kind: "publishable", ExpiresAt: &moment,
		Scopes: []string{"search"}, Origins: []string{"http://localhost:3000", "https://*.acme.com:8443", "https://acme.com"},
	},
	"KeyIssued.v2":         eventschemas.KeyIssued{KeyID: "key-1", Hash: hashA, Last4: "x9Yz", Kind: "secret"},
	"KeyRevoked.v1":        eventschemas.KeyRevoked{KeyID: "key-1"},
	"KeyLimitSet.v1":       eventschemas.KeyLimitSet{KeyID: "key-1", Limit: 1000, Period: "month"},
	"KeyLimitSet.v1.least": eventschemas.KeyLimitSet{KeyID: "key-1"},
	"UsageTicked.v1": eventschemas.UsageTicked{Entries: []eventschemas.UsageEntry{
		{AccountID: accountID, Month: "2026-11", Searches: 12, Logos: 340, KeysUsed: []eventschemas.KeyUsed{{KeyID: "key-1", At: moment}, {KeyID: "key-2", At: moment.Add(-time.Second)}}},
		{AccountID: accountID, Month: "2026-12", Searches: 1},
	}},
	"LogosAllotted.v1":             eventschemas.LogosAllotted{Requests: 50},
	"BrandDiscovered.v1":           eventschemas.BrandDiscovered{BrandID: acmeID, Domain: "acme.com"},
	"CrawlRequested.v1":            eventschemas.CrawlRequested{CrawlID: "crawl-1", Domain: "acme.com", Cause: "lookup", Priority: "live", AllowedMS: 8500},
	"CrawlSucceeded.v1":            crawled(nil),
	"CrawlSucceeded.v1.restricted": crawledRestricted(),
	"CrawlSucceeded.v2":            crawled(nil),
	"CrawlSucceeded.v2.restricted": crawledRestricted(),
	"CrawlSucceeded.v3":            crawled(&eventschemas.IconsByConvention{Assets: []string{hashA}, Linked: []string{"acme-group.com", "globex.co.uk"}}),
	"CrawlSucceeded.v3.restricted": crawledRestricted(),
	"CrawlConfirmed.v1":            eventschemas.CrawlConfirmed{CrawlID: "crawl-2", ETag: `"def"`, LastModified: "Sun, 22 Nov 2026 08:00:00 GMT"},
	"CrawlConfirmed.v1.least":      eventschemas.CrawlConfirmed{CrawlID: "crawl-2"},
	"CrawlFailed.v1":               eventschemas.CrawlFailed{CrawlID: "crawl-3", Outcome: "fetch_failed", RememberSeconds: 3600, Detail: "The connection was refused."},
	"BrandImported.v1": eventschemas.BrandImported{
		BrandID: acmeID, Domain: "acme.com", Source: "simple-icons 16.37.0", Record: emptyRecord("Acme <&> Söhne"), Evidence: []eventschemas.Evidence{
			{Field: "name", Source: "simple-icons 16.37.0", Method: "title", Confidence: 0.9},
		},
	},
	"BrandImported.v2": eventschemas.BrandImported{
		BrandID: acmeID, Domain: "acme.com", Source: "simple-icons 16.37.0", Record: emptyRecord("Acme <&> Söhne"),
		Evidence: []eventschemas.Evidence{
			{Field: "name", Source: "simple-icons 16.37.0", Method: "title", Confidence: 0.9},
		},
	},
	"FieldOverridden.v1": eventschemas.FieldOverridden{Field: "colors",
		Value: eventschemas.JSONText(`[{"hex":"#ff0000","type":"accent","brightness":54}]`)},
	"FieldOverridden.v3": eventschemas.FieldOverridden{Field: "colors",
		Value:  eventschemas.JSONText(`[{"hex":"#ff0000","type":"accent","brightness":54}]`),
		Reason: "the site shows an old color"},
	"FieldOverridden.v2":       eventschemas.FieldOverridden{Field: "colors", Value: eventschemas.JSONText(`[{"hex":"#ff0000","type":"accent","brightness":54}]`), Reason: "the site shows an old color"},
	"FieldOverridden.v1.least": eventschemas.FieldOverridden{Field: "name", Value: eventschemas.JSONText(`null`)},
	"FieldOverridden.v3.least": eventschemas.FieldOverridden{Field: "name", Value: eventschemas.JSONText(`null`)},
	"FieldOverridden.v2.least": eventschemas.FieldOverridden{Field: "name", Value: eventschemas.JSONText(`null`)},
	"OverrideRemoved.v1":       eventschemas.OverrideRemoved{Field: "colors"},
	"BrandClaimed.v1":          eventschemas.BrandClaimed{},
	"BrandWithdrawn.v1":        eventschemas.BrandWithdrawn{Reason: "demanded by its owner"},
	"PeriodEnded.v1":           eventschemas.PeriodEnded{Month: "2026-10"},
	"PeriodClosed.v1": eventschemas.PeriodClosed{
		Month: "2026-10", Position: 40, Digest: hashA, Transactions: 3, Totals: []eventschemas.PeriodTotal{
			{LedgerAccount: "payments", Commodity: "EUR", Change: 4900, Balance: 9800},
			{LedgerAccount: "revenue", Commodity: "EUR", Change: -120, Balance: -120},
		},
	},
	"CheckpointBegun.v1": eventschemas.CheckpointBegun{},
	"LedgerCheckpointed.v1": eventschemas.LedgerCheckpointed{
		Accounts: 3, Root: hashA, Position: 40,
		Note: "brands.example.com/ledger\n1\nMTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=\n\n— brands.example.com/ledger Zm9v\n",
	},
	"OperatorTokenIssued.v1":       eventschemas.OperatorTokenIssued{TokenID: "token-1", Hash: hashA, Last4: "9c0Z", Scope: "finance", ExpiresAt: &moment},
	"OperatorTokenRevoked.v1":      eventschemas.OperatorTokenRevoked{TokenID: "token-1"},
	"OperatorLinkIssued.v1":        eventschemas.OperatorLinkIssued{LinkID: "link-1", Hash: hashA, Scope: "admin", ExpiresAt: moment},
	"NoticesSet.v1":                eventschemas.NoticesSet{LowBalance: 100, Webhook: true, Email: true},
	"NoticeAttempted.v1":           eventschemas.NoticeAttempted{NoticeID: requestID, Destination: "webhook", Attempt: 1},
	"NoticeSettled.v1":             eventschemas.NoticeSettled{NoticeID: requestID, Destination: "webhook", Attempt: 10, Outcome: "dead_lettered", Reason: "status_503"},
	"NoticeSettled.v1.least":       eventschemas.NoticeSettled{NoticeID: requestID, Destination: "email", Outcome: "outdated"},
	"PaymentFailed.v1":             eventschemas.PaymentFailed{PaymentID: "in_1", Attempt: 2, FailedAt: moment, Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}},
	"PaymentFailed.v1.least":       eventschemas.PaymentFailed{PaymentID: "pi_1", FailedAt: moment},
	"NoticeReopened.v1":            eventschemas.NoticeReopened{NoticeID: requestID, Destination: "email"},
	"SignInLinkIssued.v1":          eventschemas.SignInLinkIssued{LinkID: "link-1", Hash: hashA, Person: "owner", ExpiresAt: moment},
	"SignedIn.v1":                  eventschemas.SignedIn{SessionID: "session-1", LinkID: "link-1", Hash: hashB, Person: "owner", ExpiresAt: moment},
	"SignedOut.v1":                 eventschemas.SignedOut{SessionID: "session-1"},
	"SignedOutEverywhere.v1":       eventschemas.SignedOutEverywhere{Person: "owner"},
	"SignedOutEverywhere.v1.least": eventschemas.SignedOutEverywhere{},
	"SignInEmailSet.v1":            eventschemas.SignInEmailSet{Email: true},
	"SignInEmailSet.v1.full":       eventschemas.SignInEmailSet{Person: "p2", Email: true},
	"LossAccepted.v1": eventschemas.LossAccepted{
		Head: 40, LastEventID: accountID, Reason: "the disk was replaced", Witnesses: []eventschemas.LossWitness{
			{Name: "head marker", Remembered: 45, Detail: "its events from position 41 on are missing"},
			{Name: "snapshot of account-" + accountID, Remembered: 0, Detail: "it is of revision 44, the stream ends at revision 39"},
		},
	},
}

func emptyRecord(name string) eventschemas.Record {
	r := eventschemas.Record{Name: &name, Company: eventschemas.EmptyCompany(), QualityScore: 0.4}
	return r.Normalized()
}

// crawled returns a success with a value in every field, and with icons that were found by convention or nil.
func crawled(icons *eventschemas.IconsByConvention) eventschemas.CrawlSucceeded {
	return eventschemas.CrawlSucceeded{
		CrawlID: "crawl-1", Record: fullRecord(), FinalURL: "https://www.acme.com/en?a=1&b=2", ETag: `W/"abc"`,
		LastModified: "Sat, 21 Nov 2026 08:00:00 GMT",
		Evidence: []eventschemas.Evidence{
			{Field: "logos", Source: "https://www.acme.com/favicon.ico", Method: "link rel=icon", Confidence: 0.75},
			{Field: "name", Source: "https://www.acme.com/", Method: "og:site_name", Confidence: 1},
		},
		ByConvention: icons,
	}
}

// crawledRestricted returns a success whose record is only a restriction.
func crawledRestricted() eventschemas.CrawlSucceeded {
	record := eventschemas.Record{NSFW: true,
		Restriction: &eventschemas.Restriction{Code: "nsfw", Message: "The site is adult content."}}
	return eventschemas.CrawlSucceeded{
		CrawlID: "crawl-1", FinalURL: "https://acme.com/", Evidence: []eventschemas.Evidence{}, Record: record.Normalized(),
	}
}

// fullRecord returns a record in which every field has a value.
func fullRecord() eventschemas.Record {
	asset := eventschemas.Asset{ID: hashA, Format: "png", Background: ptr("transparent"), Width: ptr(512), Height: ptr(256), Size: 20481}
	vector := eventschemas.Asset{ID: hashB, Format: "svg", Size: 734}
	return eventschemas.Record{
		Name:            ptr("Acme"),
		Description:     ptr("Makes everything \u2028 & <more>."),
		LongDescription: ptr("Acme makes everything. 🧨"),
		Links:           []eventschemas.Link{{Name: "github", URL: "https://github.com/acme"}},
		Logos: []eventschemas.Logo{
			{Type: "logo", Theme: ptr("dark"), Formats: []eventschemas.Asset{vector, asset}, Tags: []string{"wordmark"}},
			{Type: "icon", Formats: []eventschemas.Asset{}, Tags: []string{}},
		},
		Colors:  []eventschemas.Color{{Hex: "#ff0000", Type: "accent", Brightness: 54}},
		Fonts:   []eventschemas.Font{{Name: "Open Sans", Type: "body", Origin: "google", OriginID: ptr("Open+Sans"), Weights: []int{400, 700}}},
		Images:  []eventschemas.Image{{Type: "banner", Formats: []eventschemas.Asset{{ID: hashB, Format: "jpeg", Width: ptr(1200), Height: ptr(630), Size: 90001}}, Tags: []string{}}},
		OGImage: ptr("https://acme.com/share.jpg?sig=a&b"),
		Company: &eventschemas.Company{
			Employees: ptr(51), FoundedYear: ptr(1949), Kind: ptr("PUBLIC_COMPANY"),
			Location: &eventschemas.Location{City: ptr("Köln"), Country: ptr("Germany"), CountryCode: ptr("DE"), Region: ptr("Europe")},
			Industries: []eventschemas.Industry{{
				ID: "17", Name: "Explosives", Slug: "explosives", Emoji: "🧨", Score: 0.875,
				Parent: &eventschemas.IndustryParent{ID: "1", Name: "Industry", Slug: "industry", Emoji: "🏭"},
			}},
			Ticker: ptr("XETRA:ACM"), Tickers: []string{"ACM"},
		},
		QualityScore: 0.9375, Complete: true,
	}
}

func goldenFile(name string) string { return filepath.Join("testdata", "golden", name+".json") }

// typeAndVersion parses the name of a golden file, such as "CreditsGranted.v1.least".
func typeAndVersion(t testing.TB, name string) (string, int) {
	t.Helper()
	parts := strings.Split(name, ".")
	if len(parts) < 2 || len(parts[1]) != 2 || parts[1][0] != 'v' {
		t.Fatalf("golden file %s is not named <Type>.v<version>[.<case>]", name)
	}
	return parts[0], int(parts[1][1] - '0')
}

func readGolden(t testing.TB, name string) []byte {
	t.Helper()
	data := testmust.Get(os.ReadFile(goldenFile(name)))(t)
	return bytes.TrimSuffix(data, []byte("\n"))
}

func TestGoldenFiles(t *testing.T) {
	for name, want := range golden {
		t.Run(name, func(t *testing.T) {
			if *writeMissing {
				writeGolden(t, name, want)
			}
			eventType, version := typeAndVersion(t, name)
			data := readGolden(t, name)
			if err := eventschemas.ValidateJSON(eventType, version, data); err != nil {
				t.Error(err)
			}
			got := testmust.Get(eventschemas.Decode(eventType, version, data))(t)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("Decode = \n%+v, want\n%+v", got, want)
			}
			if version != eventschemas.Current().Version(eventType) {
				return // an old version is encoded as the current one
			}
			encoded := testmust.Get(eventschemas.Encode(want))(t)
			if encoded.Type != eventType || encoded.SchemaVersion != version || !bytes.Equal(encoded.Data, data) {
				t.Fatalf("Encode = %s version %d\n%s, want\n%s", encoded.Type, encoded.SchemaVersion, encoded.Data, data)
			}
		})
	}
}

// Until an upgrade is finished this release writes exactly the bytes that the previous release would write,
// without fields that are new in this release.
// Rule 8.
func TestEncoder_PreviousVersion_UntilUpgradeFinished(t *testing.T) {
	format := eventschemas.Format - 1
	encoder := eventschemas.NewEncoder(func() int { return format })
	for name, ev := range golden {
		eventType, version := typeAndVersion(t, name)
		if version != eventschemas.Current().Version(eventType) {
			continue
		}
		format = eventschemas.Format - 1
		before, err := encoder.Encode(ev)
		if errors.Is(err, eventschemas.ErrNotYet) {
			continue
		}
		testmust.Succeed(t, err)
		if err := eventschemas.ValidateJSON(before.Type, before.SchemaVersion, before.Data); err != nil {
			t.Error(err)
		}
		if before.SchemaVersion < version {
			old := strings.Replace(name, fmt.Sprintf(".v%d", version), fmt.Sprintf(".v%d", before.SchemaVersion), 1)
			if want := readGolden(t, old); !bytes.Equal(before.Data, want) {
				t.Errorf("%s encoded as version %d is\n%s\nwant\n%s", name, before.SchemaVersion, before.Data, want)
			}
		}
		format = eventschemas.Format
		after, err := encoder.Encode(ev)
		if want := readGolden(t, name); err != nil || after.SchemaVersion != version || !bytes.Equal(after.Data, want) {
			t.Errorf("%s after the upgrade: version %d\n%s\n%v", name, after.SchemaVersion, after.Data, err)
		}
	}
	format = 0
	if _, err := encoder.Encode(eventschemas.CreditsCharged{}); !errors.Is(err, eventschemas.ErrUnknownVersion) {
		t.Errorf("Encode with data format 0: %v, want ErrUnknownVersion", err)
	}
}

func writeGolden(t *testing.T, name string, ev eventschemas.Event) {
	t.Helper()
	if _, err := os.Stat(goldenFile(name)); err == nil {
		return
	}
	encoded := testmust.Get(eventschemas.Encode(ev))(t)
	testmust.Succeed(t, os.WriteFile(goldenFile(name), append(encoded.Data, '\n'), 0o644))
}

func TestEveryVersionHasAGoldenFile(t *testing.T) {
	for _, eventType := range eventschemas.Types() {
		for v := 1; v <= eventschemas.Current().Version(eventType); v++ {
			if _, ok := golden[eventType+".v"+string(rune('0'+v))]; !ok {
				t.Errorf("%s version %d has no golden file", eventType, v)
			}
		}
	}
	files := testmust.Get(filepath.Glob(goldenFile("*")))(t)
	if len(files) != len(golden) {
		t.Errorf("there are %d golden files and %d values; golden files must not be deleted", len(files), len(golden))
	}
}
