package sqlite

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"letterhead/internal/eventlog"
)

// Tokens stand for frequent or long parts of a packed text. They are control bytes, which valid JSON has only between
// its values and the encoder of events does not write.
//
//	1 + 16 bytes  "UUID", canonical and in lower case, with its quotes
//	2             the text in quotes with which the packed text begins: the event's request id
//	3             the actor account:<id> in a stream account-<id>, in quotes
//	4 + 32 bytes  "64 hex digits", in lower case, with the quotes
//	5 + number    {"name": with the name of that number
//	6 + number    ,"name": with the name of that number
//	7 to 31       ,"name": with the name of number token - 7
const (
	tokenUUID = iota + 1
	tokenRequest
	tokenActor
	tokenDigest
	tokenFirst
	tokenNext
	tokenFrequent
	tokens = 32

	accountActor         = "account:"
	uuidText, digestText = 36, 64
	// maxText is the largest text of an event: its data, and its metadata in quotes.
	maxText = eventlog.MaxEventBytes + 2*5
)

// packedNames are the names that packed data has as numbers. Their order never changes, and a name may only be added
// at the end, together with a new formatVersion, because older releases cannot read its number. The frequent ones
// are first.
var packedNames = [...]string{
	"credits", "request_id", "brand_id", "domain", "record_revision", "key_id", "idempotency_key_hash", "request_hash",
	"hold_id", "deadline", "cause", "item", "reason", "payment_id", "money", "currency", "kind", "hash", "last4",
	"holder", "plan", "account_id", "month", "searches", "logos", "at",
	"charge_id", "grant_id", "fee_id", "refund_id", "crawl_id", "minor", "tax", "expires_at", "scopes", "origins",
	"entries", "keys_used", "requests", "from", "to", "note_id", "text", "policy", "lane", "allowed_ms", "outcome",
	"remember_seconds", "detail", "record", "evidence", "final_url", "etag", "last_modified", "source", "field", "value",
	"name", "description", "long_description", "links", "colors", "fonts", "images", "og_image", "company",
	"quality_score", "nsfw", "restriction", "complete", "url", "type", "theme", "formats", "tags", "id", "format",
	"background", "width", "height", "size", "hex", "brightness", "origin", "origin_id", "weights", "employees",
	"founded_year", "location", "industries", "ticker", "tickers", "city", "state", "country", "country_code", "region",
	"subregion", "slug", "emoji", "score", "parent", "code", "message", "method", "confidence", "head",
	"last_event_id", "witnesses", "remembered", "position", "digest", "transactions", "totals", "ledger_account",
	"commodity", "change", "balance", "accounts", "root", "note", "token_id", "scope", "link_id", "person",
	"session_id", "email", "processor", "event_id", "event_type", "created_at", "subject", "customer", "invoice_id",
	"grant_kind", "prices", "attempt", "problem", "price", "quantity", "low_balance", "webhook", "failed_at",
	"notice_id", "destination",
}

// maxPackedName is the length of the longest packed name.
const maxPackedName = 20

var (
	packedNumbers = numbersOf(packedNames[:])
	nibbles       = nibblesOf("0123456789abcdef")
)

func numbersOf(names []string) map[string]byte {
	numbers := make(map[string]byte, len(names))
	for i, name := range names {
		numbers[name] = byte(i)
	}
	return numbers
}

func nibblesOf(digits string) (values [256]byte) {
	for i := range values {
		values[i] = byte(strings.IndexByte(digits, byte(i))) // above 15 for other letters
	}
	return values
}

// pack appends a text that begins with the request id in quotes. The packed text is never longer. It reports whether
// the text can be packed.
func pack(b, text []byte, request, account string) (packed []byte, ok bool) {
	for at := 0; at < len(text); {
		c, n := text[at], 0
		switch {
		case c < tokens:
			return b, false
		case c == '"' && at > len(request)+1 && quotes(text[at:], "", request):
			b, n = append(b, tokenRequest), len(request)+2
		case c == '"' && quotes(text[at:], accountActor, account):
			b, n = append(b, tokenActor), len(accountActor)+len(account)+2
		case c == '"':
			b, n = packDigits(b, text[at:])
		case c == ',' || c == '{':
			b, n = packName(b, text[at:])
		}
		if n == 0 {
			b, n = append(b, c), 1
		}
		at += n
	}
	return b, true
}

// quotes reports whether text begins with prefix and value in quotes; text[0] is a quote.
func quotes(text []byte, prefix, value string) bool {
	begin := len(prefix) + 1
	end := begin + len(value)
	return len(text) > end && text[end] == '"' && string(text[1:begin]) == prefix && string(text[begin:end]) == value
}

// packDigits packs a UUID or a digest at the beginning of text and returns its length; 0 if there is none.
func packDigits(b, text []byte) (packed []byte, length int) {
	if end := uuidText + 1; len(text) > end && text[end] == '"' {
		if packed, ok := appendUUID(append(b, tokenUUID), text[1:end]); ok {
			return packed, end + 1
		}
	}
	if end := digestText + 1; len(text) > end && text[end] == '"' {
		if packed, ok := appendHex(append(b, tokenDigest), text[1:end]); ok {
			return packed, end + 1
		}
	}
	return b, 0
}

func packName(b, text []byte) (packed []byte, length int) {
	if len(text) < 2 || text[1] != '"' {
		return b, 0
	}
	end := bytes.IndexByte(text[2:min(len(text), maxPackedName+3)], '"') + 2
	if end < 2 || end+1 >= len(text) || text[end+1] != ':' {
		return b, 0
	}
	number, known := packedNumbers[string(text[2:end])]
	switch {
	case !known:
		return b, 0
	case text[0] == '{':
		b = append(b, tokenFirst, number)
	case number < tokens-tokenFrequent:
		b = append(b, tokenFrequent+number)
	default:
		b = append(b, tokenNext, number)
	}
	return b, end + 2
}

var errCutOff = errors.New("its packed content is cut off")

// unpack replaces b by the text of which packed was made.
func unpack(b, packed []byte, account string) (text []byte, err error) {
	b = b[:0]
	for len(packed) > 0 && len(b) <= maxText {
		token, operand, first := packed[0], 0, byte(',')
		if token >= tokens {
			b, packed = append(b, token), packed[1:]
			continue
		}
		switch token {
		case tokenUUID:
			operand = 16
		case tokenDigest:
			operand = 32
		case tokenFirst, tokenNext:
			operand = 1
		}
		if packed = packed[1:]; len(packed) < operand {
			return b, errCutOff
		}
		number := int(token) - tokenFrequent
		switch token {
		case tokenUUID:
			b = append(appendUUIDText(append(b, '"'), packed), '"')
		case tokenRequest:
			end := bytes.IndexByte(b[min(1, len(b)):], '"') + 2
			if end < 2 || b[0] != '"' {
				return b, errors.New("its packed content has no request id")
			}
			b = append(b, b[:end]...)
		case tokenActor:
			b = append(append(append(append(b, '"'), accountActor...), account...), '"')
		case tokenDigest:
			b = append(hex.AppendEncode(append(b, '"'), packed[:operand]), '"')
		case tokenFirst:
			first = '{'
			fallthrough
		case tokenNext:
			number = int(packed[0])
			fallthrough
		default:
			if number < 0 || number >= len(packedNames) {
				return b, fmt.Errorf("its packed content has no valid token at byte %d", len(b))
			}
			b = append(append(append(b, first, '"'), packedNames[number]...), '"', ':')
		}
		packed = packed[operand:]
	}
	if len(b) > maxText {
		return b, fmt.Errorf("its packed content has more than %d bytes", maxText)
	}
	return b, nil
}

// appendUUID appends the 16 bytes of a canonical UUID in lower case, and reports whether the 36 letters are one.
func appendUUID(b, text []byte) (id []byte, ok bool) {
	if text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return b, false
	}
	var digits [2 * 16]byte
	copy(digits[:8], text)
	copy(digits[8:12], text[9:])
	copy(digits[12:16], text[14:])
	copy(digits[16:20], text[19:])
	copy(digits[20:], text[24:])
	return appendHex(b, digits[:])
}

func appendUUIDText(b, id []byte) []byte {
	var text [uuidText]byte
	hex.Encode(text[:], id[:4])
	hex.Encode(text[9:], id[4:6])
	hex.Encode(text[14:], id[6:8])
	hex.Encode(text[19:], id[8:10])
	hex.Encode(text[24:], id[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return append(b, text[:]...)
}

// appendHex decodes hex digits in lower case; package hex accepts both cases.
func appendHex(b, text []byte) (decoded []byte, ok bool) {
	for i := 0; i+1 < len(text); i += 2 {
		high, low := nibbles[text[i]], nibbles[text[i+1]]
		if high|low > 15 {
			return b, false
		}
		b = append(b, high<<4|low)
	}
	return b, true
}
