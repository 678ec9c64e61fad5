package main

import (
	"errors"
	"strings"
	"testing"

	"letterhead/commands"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

func TestReasons_EmailAddress_IsRefusedByEachCommand(t *testing.T) {
	folder, account := openAccount(t)
	n := openNode(t, folder)
	err := n.Writers.Billing.Record(t.Context(), n.Operator(), eventschemas.BillingReported{
		Processor: "stripe", EventID: "evt_1", Type: "customer.subscription.created", Kind: "subscription", Subject: "sub_1", State: "active", Customer: "cus_1",
	})
	name := "Acme"
	_, imported := n.Writers.Brands.ImportBrand(t.Context(), commands.ImportBrand{Request: n.Operator(), Domain: "acme.com", Source: "test 1", Record: eventschemas.Record{Name: &name, Company: eventschemas.EmptyCompany()}})
	testmust.Succeed(t, errors.Join(err, imported, n.Close()))
	const reason = "asked by ann@example.com"
	for _, args := range [][]string{
		{"account", "note", account, reason},
		{"credits", "grant", "--account", account, "--amount", "1", "--kind", "adjustment", "--reason", reason},
		{"brand", "override", "acme.com", "name", `"Acme Inc."`, "--reason", reason},
		{"billing", "inbox", "dismiss", "evt_1", "--reason", reason},
	} {
		if code, _, said := commandLine(t.Context(), append(args, "--data", folder)...); code != exitUsage || !strings.Contains(said, "holds an e-mail address. Events are permanent") {
			t.Errorf("%v ended with %d: %s", args, code, said)
		}
	}
}
