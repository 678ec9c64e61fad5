package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are the command lines that help texts show, by the path of the command without the program's name.
var examples = map[string][]string{
	"account create": {"account create --name Acme --plan growth", "account create --name Acme --json"},
	"account show": {"account show 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11",
		"account show 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --as-of 2026-10 --json"},
	"account list": {"account list", "account list --sort -balance --plan growth",
		"account list --as-of 2026-10-31 --json"},
	"account plan": {"account plan 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 growth"},
	"account notices": {
		"account notices 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11",
		"account notices 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --low-balance 100 --webhook https://example.com/letterhead --email billing@example.com",
		"account notices 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --retry 0b7d2c9a-1c55-5b8e-8a3f-6d2f9b1e4a77",
		"account notices --public-key",
	},
	"account login-link": {
		"account login-link --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11",
		"account login-link --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --person p2 --json",
	},
	"account sign-out": {
		"account sign-out 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11",
		"account sign-out 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --person p2",
	},
	"account sign-in-email": {
		"account sign-in-email 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11",
		"account sign-in-email 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --email ann@example.com",
		"account sign-in-email 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --person p2 --email bob@example.com",
	},
	"account note":      {"account note 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 pays-by-invoice"},
	"account suspend":   {"account suspend 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11"},
	"account reinstate": {"account reinstate 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11"},
	"account close":     {"account close 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11"},
	"admin login-link": {"admin login-link --operator Jane --scope admin",
		"admin login-link --operator Jane --scope support --json"},
	"admin token issue": {"admin token issue --name billing --scope finance",
		"admin token issue --name audit --scope read --expires 720h --json"},
	"admin token list": {"admin token list"},
	"admin token revoke": {"admin token revoke 0b7d2c9a-1c55-4b8e-8a3f-6d2f9b1e4a77",
		"admin token revoke 0b7d2c9a-1c55-4b8e-8a3f-6d2f9b1e4a77 --erase-name"},
	"names": {"names", "names --json"},
	"names repair": {"names repair 0b7d2c9a-1c55-4b8e-8a3f-6d2f9b1e4a77 --name Acme",
		"names repair 0b7d2c9a-1c55-4b8e-8a3f-6d2f9b1e4a77 --erase"},
	"archive":               {"archive --before 2026-10-01 --to archived.jsonl.zst"},
	"backup":                {"backup ./backup", "backup s3://backups/letterhead?region=eu-central-1"},
	"billing checkout":      {"billing checkout --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --pack small"},
	"billing inbox":         {"billing inbox", "billing inbox --json"},
	"billing inbox show":    {"billing inbox show evt_1"},
	"billing inbox dismiss": {"billing inbox dismiss evt_1 --reason granted-by-hand"},
	"billing inbox replay": {
		"billing inbox replay evt_1", "billing inbox replay --all",
	},
	"billing link": {
		"billing link --customer cus_1 --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11",
		"billing link --payment pi_1 --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11",
	},
	"billing reconcile": {"billing reconcile balance.csv",
		"billing reconcile balance.csv --from 2026-11 --to 2026-11 --opening EUR=104.50 --json",
		"billing reconcile balance.csv --record-fees"},
	"books revenue":  {"books revenue --json", "books revenue --by plan --from 2026-01 --to 2026-06"},
	"books deferred": {"books deferred --at 2026-10 --csv"},
	"books usage":    {"books usage --by account --from 2026-10"},
	"books breakage": {"books breakage --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --policy terms-section-4",
		"books breakage --closed-before 2026-01 --policy terms-section-4 --yes --json"},
	"books close":         {"books close 2026-10"},
	"books status":        {"books status --json"},
	"books trial-balance": {"books trial-balance --at 2026-10", "books trial-balance --chart codes.yaml --csv"},
	"journal export": {"journal export -o journal.csv",
		"journal export --from 2026-11 --to 2026-11 --format hledger -o november.journal"},
	"brand get":      {"brand get github.com", "brand get github.com --as-of 2026-10"},
	"brand list":     {"brand list", "brand list --status failed --json", "brand list --claimed --sort -quality"},
	"brand override": {`brand override acme.com name '"Acme"' --reason register`},
	"brand remove-override": {
		"brand remove-override acme.com name",
	},
	"brand claim":    {"brand claim acme.com"},
	"brand withdraw": {"brand withdraw acme.com"},
	"crawl":          {"crawl https://acme.com", "crawl --file page.html --url https://acme.com --explain"},
	"credits grant": {
		"credits grant --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --amount 1000 --payment-id pi_1 --money 4900 --currency EUR --tax 782",
		"credits grant --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --amount 50 --kind adjustment --reason goodwill",
	},
	"credits refund": {
		"credits refund --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --payment-id pi_1",
		"credits refund --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --payment-id pi_1 --refund-id re_1 --amount 100",
	},
	"credits reverse": {"credits reverse --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --request-id 01f3a2c4"},
	"dev generate": {"dev generate --data ./generated",
		"dev generate --data ./generated --accounts 1000 --events 1000000 --seed 7"},
	"doctor":      {"doctor", "doctor --json"},
	"events tail": {"events tail --stream account-", "events tail --from 0 --type CreditsCharged --no-follow"},
	"events replay": {"events replay --stream brand-github.com",
		"events replay --from-kafka --from-beginning --no-follow", "events replay --from-kafka --verify"},
	"health": {"health", "health --listen 127.0.0.1:8081"},
	"key issue": {
		"key issue --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --kind publishable --name website --scope search --origin https://www.acme.com",
		"key issue --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --name ci --expires 90d",
	},
	"key list": {
		"key list --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11",
		"key list --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --state active --sort -used",
		"key list --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --as-of 2026-10-31T12:00:00Z",
	},
	"key revoke": {"key revoke 0b7d2c9a-1c55-4b8e-8a3f-6d2f9b1e4a77"},
	"ledger check": {"ledger check november.txt",
		"ledger check november.txt --key brands.example.com.pub --since october.txt"},
	"ledger checkpoint": {"ledger checkpoint", "ledger checkpoint --since 2026-11-21"},
	"ledger key":        {"ledger key", "ledger key --rotate", "ledger key --new brands.example.com/ledger"},
	"ledger prove": {
		"ledger prove --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --month 2026-10 -o october.txt",
	},
	"ledger show": {"ledger show --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --last 20",
		"ledger show --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --from 2026-10 --to 2026-11-15 --json"},
	"ledger undelivered": {"ledger undelivered --since 2026-11-21T15:04:05Z",
		"ledger undelivered --since 2026-11-21T15:04:05Z --reverse"},
	"ledger verify": {"ledger verify", "ledger verify --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11"},
	"logo":          {"logo github.com -o github.png", "logo github.com --size 64 --format webp -o github.webp"},
	"migrate":       {"migrate --to esdb://events:2113?tls=true --database postgres://letterhead@database/letterhead --assets s3://brands"},
	"payment fee":   {"payment fee pi_1 --money 145", "payment fee pi_1 --money 1500 --currency EUR --fee-id txn_1"},
	"payment list":  {"payment list", "payment list --sort -paid --state refunded"},
	"payment show":  {"payment show pi_1"},
	"projections list": {"projections list", "projections list --state set_aside",
		"projections list --sort -lag --json"},
	"projections rebuild": {
		"projections rebuild ledger",
		"projections rebuild --all",
		"projections rebuild ledger payments --json",
	},
	"projections verify": {"projections verify"},
	"recover accept-loss": {
		"recover accept-loss",
	},
	"restore": {"restore ./backup --data ./restored"},
	"serve": {"serve",
		"serve --data /var/lib/letterhead --listen 0.0.0.0:8080 --base-url https://brands.example.com",
		"serve --roles api,crawler"},
	"statement show": {"statement show 2026-11 --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11",
		"statement show 2026-11 --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --csv"},
	"upgrade status": {"upgrade status"},
	"upgrade finish": {"upgrade finish"},
}

// addExamples sets the examples of all commands below c.
func addExamples(c *cobra.Command, path string) {
	for _, child := range c.Commands() {
		of := strings.TrimSpace(path + " " + child.Name())
		addExamples(child, of)
		for i, line := range examples[of] {
			if i > 0 {
				child.Example += "\n"
			}
			child.Example += "  letterhead " + line
		}
	}
}
