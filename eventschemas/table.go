package eventschemas

import "io/fs"

// current is the table of this release.
var current = NewRegistry(schemaDir(), Definitions()...)

// Current returns the registry of this release, which the package's functions use.
func Current() *Registry { return current }

// Schemas returns the embedded JSON Schema files, <Type>.v<version>.json, with the parts that several of
// them refer to under parts/.
func Schemas() fs.FS { return schemaDir() }

// Definitions returns every event type of this release. A new version of a type is added here as a Change;
// docs/upgrade.md lists all files to edit.
func Definitions() []Definition {
	return []Definition{
		// account-<id>
		Define[AccountOpened](),
		Define[PlanChanged](),
		Define[AccountSuspended](),
		Define[AccountReinstated](),
		Define[AccountClosed](),
		Define[AccountNoted]().From(2),
		Define[CreditsGranted](grantNamesItsTax),
		Define[CreditsHeld](holdNamesItsKey),
		Define[CreditsCharged](chargeNamesItsKey),
		Define[HoldReleased](),
		Define[ChargeReversed](reversalHasNote),
		Define[ChargeKept](),
		Define[PaymentRefunded](),
		Define[PaymentFeeRecorded]().From(2),
		Define[BreakageRecognized]().From(2),
		Define[RefundReversed]().From(2),
		Define[KeyIssued](keyHasTerms),
		Define[KeyRevoked](),
		Define[KeyLimitSet]().From(4),
		// usage-<account>-<YYYYMM>, usage-node-<node>
		Define[UsageTicked](),
		Define[LogosAllotted](),
		// brand-<domain>
		Define[BrandDiscovered](),
		Define[CrawlRequested](),
		Define[CrawlSucceeded](crawlHasBareSymbols, crawlHasIconsByConvention),
		Define[CrawlConfirmed](),
		Define[CrawlFailed](),
		Define[BrandImported](importHasBareSymbols),
		Define[FieldOverridden](overrideHasReason, overrideHasBareSymbols),
		Define[OverrideRemoved](),
		Define[BrandClaimed](),
		Define[BrandWithdrawn](),
		// log
		Define[LossAccepted](),
		// books
		Define[PeriodEnded]().From(2),
		Define[PeriodClosed]().From(2),
		// checkpoints
		Define[CheckpointBegun]().From(2),
		Define[LedgerCheckpointed]().From(2),
		// operators
		Define[OperatorTokenIssued]().From(2),
		Define[OperatorTokenRevoked]().From(2),
		Define[OperatorLinkIssued]().From(2),
		// billing-<processor>:<event>
		Define[BillingReported]().From(2),
		Define[BillingSettled]().From(2),
		Define[BillingReopened]().From(2),
		// notices-<account>
		Define[NoticesSet]().From(2),
		Define[NoticeAttempted]().From(2),
		Define[NoticeSettled]().From(2),
		Define[NoticeReopened]().From(2),
		Define[PaymentFailed]().From(2),
		// signins-<account>
		Define[SignInLinkIssued]().From(2),
		Define[SignedIn]().From(2),
		Define[SignedOut]().From(2),
		Define[SignedOutEverywhere]().From(2),
		Define[SignInEmailSet]().From(2),
	}
}

// unchanged is the upcaster of a version that only adds optional fields.
func unchanged(body []byte) ([]byte, error) { return body, nil }

var (
	// chargeNamesItsKey is version 2 of CreditsCharged: it adds key_id, the API key of the request.
	chargeNamesItsKey = Change{Format: 2, Up: unchanged}
	// grantNamesItsTax is version 2 of CreditsGranted: it adds tax.
	grantNamesItsTax = Change{Format: 2, Up: unchanged}
	// overrideHasReason is version 2 of FieldOverridden: it adds reason.
	overrideHasReason = Change{Format: 2, Up: unchanged}
	// holdNamesItsKey is version 2 of CreditsHeld: it adds key_id.
	holdNamesItsKey = Change{Format: 4, Up: unchanged, Down: func(ev Event) any {
		v1 := ev.(CreditsHeld)
		v1.KeyID = ""
		return v1
	}}
	// reversalHasNote is version 2 of ChargeReversed: it adds note and key_id.
	reversalHasNote = Change{Format: 4, Up: unchanged, Down: func(ev Event) any {
		v1 := ev.(ChargeReversed)
		v1.Note, v1.KeyID = "", ""
		return v1
	}}
	// keyHasTerms is version 2 of KeyIssued: it adds expires_at, scopes and origins.
	keyHasTerms = Change{Format: 2, Up: unchanged}
	// crawlHasIconsByConvention is version 3 of CrawlSucceeded: it adds by_convention.
	crawlHasIconsByConvention = Change{Format: 4, Up: unchanged, Down: func(ev Event) any {
		v2 := ev.(CrawlSucceeded)
		v2.ByConvention = nil
		return v2
	}}
	// crawlHasBareSymbols, importHasBareSymbols and overrideHasBareSymbols are versions whose tickers are symbols
	// without an exchange. Those of earlier versions may have one.
	crawlHasBareSymbols    = bareSymbols(func(ev *CrawlSucceeded) error { ev.Record.Company.bareSymbols(); return nil })
	importHasBareSymbols   = bareSymbols(func(ev *BrandImported) error { ev.Record.Company.bareSymbols(); return nil })
	overrideHasBareSymbols = bareSymbols((*FieldOverridden).bareSymbols)
)
