package sqlite

import (
	"bytes"
	"errors"
	"strings"

	"letterhead/internal/eventlog"
)

// A token replaces a frequent or long part of the text. It is a control byte, which valid JSON has only between its
// values and the encoder of events does not write.
//
//	1 + 16 bytes  "UUID", canonical and in lower case, with its quotes
//	2 + 32 bytes  "64 hex digits", in lower case, with the quotes
//	3             the text in quotes with which the packed text begins: the event's request id
//	4             the actor account:<id> in a stream account-<id>, in quotes
//	5 to 31       packedNames[token - 5]
const (
	tokenUUID = iota + 1
	tokenDigest
	tokenRequest
	tokenActor
	tokenName
	tokens = 32

	// maxText is the largest text of an event: its data, and its metadata in quotes.
	maxText = eventlog.MaxEventBytes + 2*5
	maxName = 24

	hexDigits = "0123456789abcdef"
)

// packedNames are the names in the events of look-ups. They never change, because rows have their numbers.
var packedNames = [tokens - tokenName]string{
	`{"charge_id":`, `,"credits":`, `,"request_id":`, `,"brand_id":`, `,"domain":`, `,"record_revision":`, `,"hold_id":`,
	`,"item":`, `,"idempotency_key_hash":`, `,"request_hash":`, `,"key_id":`, `{"hold_id":`, `,"deadline":`, `,"cause":`,
	`,"reason":`, `{"grant_id":`, `,"kind":`, `,"payment_id":`, `,"money":`, `,"currency":`, `{"account_id":`,
	`,"month":`, `,"searches":`, `,"logos":`, `,"keys_used":`, `{"key_id":`, `,"at":`,
}

var (
	nameTokens = make(map[string]byte)
	nibbles    [256]byte // one more than the value of the digit, in lower case; 0 for other letters
	// digits has, by token, the number of bytes in each group of hex digits between dashes.
	digits = [...][]int{tokenUUID: {4, 2, 2, 2, 6}, tokenDigest: {32}}
)

func init() {
	for i, name := range packedNames {
		nameTokens[name] = tokenName + byte(i)
	}
	for i, digit := range []byte(hexDigits) {
		nibbles[digit] = byte(i) + 1
	}
}

// appendActor appends the actor of a stream account-<id>, in quotes; of no use for other streams.
func appendActor(b []byte, stream string) []byte {
	return append(append(append(b, `"account:`...), strings.TrimPrefix(stream, "account-")...), '"')
}

// pack appends a text that begins with the request id; request and actor are in quotes. The packed text is never
// longer. It reports whether the text can be packed.
func pack(b, text, request, actor []byte) (packed []byte, ok bool) {
	for at := 0; at < len(text); {
		rest, n := text[at:], 0
		switch c := rest[0]; {
		case c < tokens:
			return b, false
		case c == ',' || c == '{':
			n = bytes.IndexByte(rest[:min(len(rest), maxName)], ':') + 1
			if token := nameTokens[string(rest[:n])]; token > 0 {
				b = append(b, token)
			} else {
				n = 0
			}
		case c != '"':
		case at >= len(request) && bytes.HasPrefix(rest, request):
			b, n = append(b, tokenRequest), len(request)
		case bytes.HasPrefix(rest, actor):
			b, n = append(b, tokenActor), len(actor)
		default:
			if b, n = packDigits(b, rest, tokenUUID); n == 0 {
				b, n = packDigits(b, rest, tokenDigest)
			}
		}
		if n == 0 {
			b, n = append(b, rest[0]), 1
		}
		at += n
	}
	return b, true
}

// packDigits packs the digits in quotes at the beginning of text and returns their length; 0 if there are none.
func packDigits(b, text []byte, token byte) (packed []byte, length int) {
	packed, at := append(b, token), 0
	for _, n := range digits[token] {
		if len(text) < at+2*n+2 || at > 0 && text[at] != '-' {
			return b, 0
		}
		for at++; n > 0; n-- {
			high, low := nibbles[text[at]]-1, nibbles[text[at+1]]-1
			if high|low > 15 {
				return b, 0
			}
			packed, at = append(packed, high<<4|low), at+2
		}
	}
	if text[at] != '"' {
		return b, 0
	}
	return packed, at + 1
}

var errPacked = errors.New("its packed content is invalid")

// unpack replaces b by the text of which packed was made.
func unpack(b, packed []byte, stream string) (text []byte, err error) {
	b = b[:0]
	for len(packed) > 0 && len(b) <= maxText {
		token := packed[0]
		packed = packed[1:]
		switch {
		case token >= tokens:
			b = append(b, token)
		case token >= tokenName:
			b = append(b, packedNames[token-tokenName]...)
		case token == tokenActor:
			b = appendActor(b, stream)
		case token == tokenRequest:
			end := bytes.IndexByte(b[min(1, len(b)):], '"') + 2
			if end < 2 || b[0] != '"' {
				return b, errPacked
			}
			b = append(b, b[:end]...)
		case token == 0:
			return b, errPacked
		default:
			before := byte('"')
			for _, n := range digits[token] {
				if len(packed) < n {
					return b, errPacked
				}
				b = append(b, before)
				for _, v := range packed[:n] {
					b = append(b, hexDigits[v>>4], hexDigits[v&15])
				}
				packed, before = packed[n:], '-'
			}
			b = append(b, '"')
		}
	}
	if len(b) > maxText {
		return b, errPacked
	}
	return b, nil
}
