package openapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"os"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/readapi/openapi"
)

// make client generates types from what the test writes.
var descriptionFile = flag.String("description", "", "absolute path of a file for the description of a service at 127.0.0.1:8080")

func TestClient_ForTypeScript_HasTypesOfThisDescription(t *testing.T) {
	served := testmust.Get(openapi.JSON("http://127.0.0.1:8080"))(t)
	if *descriptionFile != "" {
		testmust.Succeed(t, os.WriteFile(*descriptionFile, served, 0o644))
		return
	}
	generated := testmust.Get(os.ReadFile("../../clients/typescript/src/schema.ts"))(t)
	header, _, _ := strings.Cut(string(generated), "\n\n")
	if sum := sha256.Sum256(served); !strings.Contains(header, hex.EncodeToString(sum[:])) {
		t.Errorf("clients/typescript/src/schema.ts was generated from another description: run make client, and commit the file")
	}
}
