package commands

import (
	"crypto/rand"
	"testing"

	"letterhead/internal/apikey"
)

func testKey(t testing.TB) apikey.Key {
	t.Helper()
	text, err := apikey.Generate(apikey.Secret, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := apikey.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
