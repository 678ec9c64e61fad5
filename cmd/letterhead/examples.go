package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are the command lines that help texts show, by the path of the command without the program's name.
var examples = map[string][]string{
	"account create":      {"account create --name Acme --plan growth", "account create --name Acme --json"},
	"account show":        {"account show 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11"},
	"account list":        {"account list", "account list --sort -balance --plan growth", "account list --json"},
	"account plan":        {"account plan 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 growth"},
	"account suspend":     {"account suspend 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11"},
	"account reinstate":   {"account reinstate 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11"},
	"account close":       {"account close 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11"},
	"archive":             {"archive --before 2026-10-01 --to archived.jsonl.zst"},
	"backup":              {"backup ./backup", "backup s3://backups/letterhead?region=eu-central-1"},
	"books revenue":       {"books revenue --json", "books revenue --by plan --from 2026-01 --to 2026-06"},
	"books deferred":      {"books deferred --at 2026-10 --csv"},
	"books usage":         {"books usage --by account --from 2026-10"},
	"books trial-balance": {"books trial-balance --at 2026-10"},
	"brand get":           {"brand get github.com"},
	"brand list":          {"brand list", "brand list --status failed --json"},
	"brand override":      {`brand override acme.com name '"Acme"'`},
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
	"credits reverse":    {"credits reverse --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --request-id 01f3a2c4"},
	"doctor":             {"doctor", "doctor --json"},
	"events tail":        {"events tail --stream account-", "events tail --from 0 --type CreditsCharged --no-follow"},
	"events replay":      {"events replay --stream brand-github.com", "events replay --from-kafka --from-beginning --no-follow", "events replay --from-kafka --verify"},
	"health":             {"health", "health --listen 127.0.0.1:8081"},
	"key issue":          {"key issue --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --kind publishable --name website"},
	"key list":           {"key list --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11", "key list --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --state active --sort -used"},
	"key revoke":         {"key revoke 0b7d2c9a-1c55-4b8e-8a3f-6d2f9b1e4a77"},
	"ledger show":        {"ledger show --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --last 20", "ledger show --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11 --from 2026-10 --to 2026-11-15 --json"},
	"ledger undelivered": {"ledger undelivered --since 2026-11-21T15:04:05Z", "ledger undelivered --since 2026-11-21T15:04:05Z --reverse"},
	"ledger verify":      {"ledger verify", "ledger verify --account 5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11"},
	"logo":               {"logo github.com -o github.png", "logo github.com --size 64 --format webp -o github.webp"},
	"migrate":            {"migrate --to esdb://events:2113?tls=true --database postgres://letterhead@database/letterhead --assets s3://brands"},
	"payment list":       {"payment list", "payment list --sort -paid --state refunded"},
	"payment show":       {"payment show pi_1"},
	"projections list":   {"projections list"},
	"projections rebuild": {
		"projections rebuild ledger",
		"projections rebuild --all",
	},
	"projections verify": {"projections verify"},
	"recover accept-loss": {
		"recover accept-loss",
	},
	"restore":        {"restore ./backup --data ./restored"},
	"serve":          {"serve", "serve --data /var/lib/letterhead --listen 0.0.0.0:8080 --base-url https://brands.example.com", "serve --roles api,crawler"},
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
