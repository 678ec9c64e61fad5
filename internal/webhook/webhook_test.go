package webhook_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"letterhead/internal/testmust"
	"letterhead/internal/webhook"
)

func TestHeaders_VerifyWithPublicKey(t *testing.T) {
	made := testmust.Get(webhook.NewKey(rand.Reader))(t)
	key, err := webhook.ParseKey(made.Private() + "\n")
	if err != nil || key.Public() != made.Public() {
		t.Fatalf("a key that was printed is read as %v, %v", key, err)
	}
	public := testmust.Get(base64.StdEncoding.DecodeString(strings.TrimPrefix(key.Public(), "whpk_")))(t)
	h := key.Headers("msg_1", time.Unix(1_800_000_000, 9), []byte(`{"a":1}`))
	signature, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(h["Webhook-Signature"], "v1a,"))
	if err != nil || h["Webhook-Id"] != "msg_1" || h["Webhook-Timestamp"] != "1800000000" {
		t.Fatalf("headers %v, %v", h, err)
	}
	for signed, valid := range map[string]bool{
		`msg_1.1800000000.{"a":1}`: true, `msg_2.1800000000.{"a":1}`: false, `msg_1.1800000001.{"a":1}`: false, `msg_1.1800000000.{"a":2}`: false,
	} {
		if ed25519.Verify(public, []byte(signed), signature) != valid {
			t.Errorf("the signature is valid for %s: %v, want %v", signed, !valid, valid)
		}
	}
}

func TestParseKey_Faulty_ErrorOmitsKey(t *testing.T) {
	key := testmust.Get(webhook.NewKey(rand.Reader))(t)
	good := key.Private()
	other := []byte(good)
	other[60]++ // in the public half
	for _, text := range []string{"", "whsk_", good[5:], good[:40], "whpk_" + good[5:], good + "AA", string(other)} {
		if _, err := webhook.ParseKey(text); !errors.Is(err, webhook.ErrKey) || len(text) > 5 && strings.Contains(err.Error(), text) {
			t.Errorf("ParseKey(%q) = %v", text, err)
		}
	}
	if text := fmt.Sprintf("%v %s", key, key); strings.Contains(text, good[10:]) {
		t.Errorf("a printed key shows %s", text)
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("whsk_AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		key, err := webhook.ParseKey(text)
		if err == nil && key.Private() != strings.TrimSpace(text) {
			t.Errorf("%q is printed as another key", text)
		}
	})
}
