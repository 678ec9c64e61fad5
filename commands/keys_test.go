package commands

import (
	"crypto/rand"
	"testing"

	"letterhead/internal/apikey"
	"letterhead/internal/testmust"
)

func testKey(t testing.TB) apikey.Key {
	t.Helper()
	text, err := apikey.Generate(apikey.Secret, rand.Reader)
	testmust.Succeed(t, err)
	key, err := apikey.Parse(text)
	testmust.Succeed(t, err)
	return key
}
