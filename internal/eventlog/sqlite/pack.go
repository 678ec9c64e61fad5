package sqlite

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"letterhead/internal/eventlog"
)

// The data of a packed event is its JSON with tokens in place of texts that are frequent or long. Tokens are control
// bytes, which valid JSON has only between its values and the encoder of events does not write; data with one of
// them is stored as it is.
//
//	1 + 16 bytes  "UUID", canonical and in lower case, with its quotes
//	2             the event's request id, in quotes
//	3 + 32 bytes  "64 hex digits", in lower case, with the quotes
//	4 + number    {"name": with the name of that number
//	5 + number    ,"name": with the name of that number
//	6 to 31       ,"name": with the name of number token - 6
const (
	tokenUUID = iota + 1
	tokenRequest
	tokenDigest
	tokenFirst
	tokenNext
	tokenFrequent
	tokens = 32

	uuidText, digestText = 36, 64
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

// pack appends packed data, which is never longer than the data, and reports whether the data can be packed.
func pack(b, data []byte, request string) (packed []byte, ok bool) {
	for at := 0; at < len(data); {
		c, n := data[at], 0
		switch {
		case c < tokens:
			return b, false
		case c == '"':
			b, n = packText(b, data[at:], request)
		case c == ',' || c == '{':
			b, n = packName(b, data[at:])
		}
		if n == 0 {
			b, n = append(b, c), 1
		}
		at += n
	}
	return b, true
}

// packText packs a text in quotes at the beginning of data, and returns its length; 0 if it remains as it is.
func packText(b, data []byte, request string) (packed []byte, length int) {
	quoted := func(n int) bool { return len(data) > n+1 && data[n+1] == '"' }
	switch {
	case request != "" && quoted(len(request)) && string(data[1:len(request)+1]) == request:
		return append(b, tokenRequest), len(request) + 2
	case quoted(uuidText):
		if packed, ok := appendUUID(append(b, tokenUUID), data[1:uuidText+1]); ok {
			return packed, uuidText + 2
		}
	case quoted(digestText):
		if packed, ok := appendHex(append(b, tokenDigest), data[1:digestText+1]); ok {
			return packed, digestText + 2
		}
	}
	return b, 0
}

func packName(b, data []byte) (packed []byte, length int) {
	if len(data) < 2 || data[1] != '"' {
		return b, 0
	}
	end := bytes.IndexByte(data[2:min(len(data), maxPackedName+3)], '"') + 2
	if end < 2 || end+1 >= len(data) || data[end+1] != ':' {
		return b, 0
	}
	number, known := packedNumbers[string(data[2:end])]
	switch {
	case !known:
		return b, 0
	case data[0] == '{':
		b = append(b, tokenFirst, number)
	case number < tokens-tokenFrequent:
		b = append(b, tokenFrequent+number)
	default:
		b = append(b, tokenNext, number)
	}
	return b, end + 2
}

var errCutOff = errors.New("its packed content is cut off")

// unpack appends the data of which packed was made.
func unpack(b, packed []byte, request string) (data []byte, err error) {
	for begun := len(b); len(packed) > 0; {
		n := 0
		for n < len(packed) && packed[n] >= tokens {
			n++
		}
		b, packed = append(b, packed[:n]...), packed[n:]
		if len(packed) == 0 {
			break
		}
		token, first := packed[0], byte(',')
		packed = packed[1:]
		operand := 0
		switch token {
		case tokenUUID:
			operand = 16
		case tokenDigest:
			operand = 32
		case tokenFirst, tokenNext:
			operand = 1
		}
		if len(packed) < operand {
			return b, errCutOff
		}
		number := int(token) - tokenFrequent
		switch token {
		case tokenUUID:
			b = append(appendUUIDText(append(b, '"'), packed), '"')
		case tokenRequest:
			b = append(append(append(b, '"'), request...), '"')
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
				return b, fmt.Errorf("its packed data has no valid token at byte %d", len(b)-begun)
			}
			b = append(append(append(b, first, '"'), packedNames[number]...), '"', ':')
		}
		if packed = packed[operand:]; len(b)-begun > eventlog.MaxEventBytes {
			return b, fmt.Errorf("its packed data has more than %d bytes", eventlog.MaxEventBytes)
		}
	}
	return b, nil
}

// appendUUID appends the 16 bytes of a canonical UUID in lower case, and reports whether the text is one.
func appendUUID[T []byte | string](b []byte, text T) (id []byte, ok bool) {
	if len(text) != uuidText || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
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
func appendHex[T []byte | string](b []byte, text T) (decoded []byte, ok bool) {
	for i := 0; i+1 < len(text); i += 2 {
		high, low := nibbles[text[i]], nibbles[text[i+1]]
		if high|low > 15 {
			return b, false
		}
		b = append(b, high<<4|low)
	}
	return b, true
}
