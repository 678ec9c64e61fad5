package main

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
)

func TestDivide_ByChangedFiles(t *testing.T) {
	const account, commands, lab, mcp, readapi = "letterhead/domain/account", "letterhead/commands", "letterhead/tools/lab", "letterhead/readapi/mcp", "letterhead/readapi"
	packages := []pkg{
		{account, "domain/account", []string{account}, false},
		{commands, "commands", []string{commands, account}, true},
		{lab, "tools/lab", []string{lab}, true},
		{mcp, "readapi/mcp", nil, true},
		{readapi, "readapi", []string{readapi, commands, account}, true},
	}
	for i := range maxRace {
		name := fmt.Sprintf("workers/w%d", i)
		packages = append(packages, pkg{"letterhead/" + name, name, []string{"letterhead/" + name}, true})
	}
	for name, tc := range map[string]struct{ changed, touched, race []string }{
		"a package":                      {[]string{"readapi/a.go"}, []string{readapi}, []string{readapi}},
		"a package that others use":      {[]string{"domain/account/a.go"}, []string{account}, []string{commands, readapi}},
		"a file that tests read":         {[]string{"tools/lab/testdata/a/b"}, []string{lab}, []string{lab}},
		"a package without tests":        {[]string{"readapi/mcp/a.go"}, []string{mcp}, nil},
		"documents":                      {[]string{"docs/a.md", "README.md"}, nil, nil},
		"the dependencies and a package": {[]string{"go.mod", "readapi/a.go"}, []string{commands, readapi}, []string{commands, readapi}},
		"an unknown change":              {nil, nil, []string{commands}},
	} {
		touched, short, race := divide(packages, tc.changed)
		if !reflect.DeepEqual(touched, tc.touched) || !slices.Equal(race, tc.race) || len(touched)+len(short) != len(packages) {
			t.Errorf("%s: touched %q, want %q; race %q, want %q; %d in short", name, touched, tc.touched, race, tc.race, len(short))
		}
	}
}

func TestNeeded_ByChangedFiles(t *testing.T) {
	for _, tc := range []struct{ changed, targets []string }{
		{[]string{"readapi/openapi/openapi.yaml", "readapi/a.go"}, []string{"lint-openapi", "lint-client"}},
		{[]string{"clients/typescript/src/client.ts"}, []string{"lint-client"}},
		{[]string{"docs/api.md"}, nil},
		{[]string{"tools/go.mod", "deploy/Dockerfile"}, []string{"lint-deploy", "vuln"}},
		{nil, []string{"lint-openapi", "lint-client", "lint-deploy", "lint-workflows", "vuln"}},
	} {
		if got := needed(tc.changed); !reflect.DeepEqual(got, tc.targets) {
			t.Errorf("%q needs %q, want %q", tc.changed, got, tc.targets)
		}
	}
}

func TestList_ThisPackage_IsFound(t *testing.T) {
	packages, err := list(".")
	if err != nil || len(packages) != 1 || packages[0].name != "letterhead/tools/affected" || packages[0].concurrent ||
		len(packages[0].uses) == 0 {
		t.Errorf("found %+v, %v", packages, err)
	}
}
