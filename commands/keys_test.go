package commands

import (
	"crypto/rand"
	"testing"

	"letterhead/internal/apikey"
	"letterhead/internal/testmust"
)

func testKey(t testing.TB) apikey.Key {
	t.Helper()
	text := testmust.Get(apikey.Generate(apikey.Secret, rand.Reader))(t)
	key := testmust.Get(apikey.Parse(text))(t)
	return key
}
