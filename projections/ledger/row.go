package ledger

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// A row is short because nearly every event has one:
//
//   - its type is a number;
//   - a UUID is 16 bytes;
//   - a key is its place among the first keys of the account;
//   - the id of a charge is NULL if it follows from the account, the request and the domain;
//   - an index finds a request by the end of its id.
//
// Rows of wideVersion, which the previous release reads, have texts instead. SQL is written for them, and sqlFor
// translates it.

const (
	uuidBytes = 16
	// tailAt is the first byte of a packed id that the index of requests has. All requests of a process begin with the
	// same bytes.
	tailAt = 13
	// packedText is where a text that is not a UUID begins.
	packedText = uuidBytes + 1
	// maxKeys limits the keys of an account that rows refer to by their place.
	maxKeys = 8
)

// types are the types of the events that accounts have. A row has the place of its type, from 1 on, so types may only
// be appended.
var types = slices.Concat([]string{
	eventschemas.CreditsCharged{}.EventType(), eventschemas.CreditsHeld{}.EventType(),
	eventschemas.HoldReleased{}.EventType(), eventschemas.ChargeKept{}.EventType(),
	eventschemas.KeyIssued{}.EventType(), eventschemas.KeyRevoked{}.EventType(),
}, rareTypes)

// wide translates CREATE to tables of wideVersion.
var wide = strings.NewReplacer("SMALLINT", "TEXT", "request_id   BYTEA  NOT NULL",
	"request_id TEXT NOT NULL, request_hash BIGINT NOT NULL", "charge_id    BYTEA", "charge_id TEXT", "hold_id      BYTEA",
	"hold_id TEXT", "payment_id   BYTEA", "payment_id TEXT", "key_id       BYTEA", "key_id TEXT",
	",\n\tkeys     BYTEA", "")

// numbers are the numbers of types, and compact translates SQL from rows of wideVersion.
var numbers, compact = func() (map[string]int64, *strings.Replacer) {
	numbers := make(map[string]int64, len(types))
	pairs := []string{"e.request_hash", fmt.Sprintf("substr(e.request_id, %d)", tailAt+1)}
	for i, name := range types {
		numbers[name] = int64(i + 1)
		pairs = append(pairs, "'"+name+"'", fmt.Sprint(i+1))
	}
	return numbers, strings.NewReplacer(pairs...)
}()

// sqlFor returns SQL for tables of a version.
func sqlFor(t *projections.Tables, text string) string {
	if t.Version == wideVersion {
		return t.SQL(strings.ReplaceAll(text, "a.keys", "NULL"))
	}
	return t.SQL(compact.Replace(text))
}

// storedType returns the value of a type. No row has that of a type that accounts do not have.
func storedType(t *projections.Tables, name string) any {
	if t.Version == wideVersion {
		return name
	}
	return numbers[name]
}

// storedID returns the value of an id; NULL if it is empty.
func storedID(t *projections.Tables, id string) any {
	switch {
	case id == "":
		return nil
	case t.Version == wideVersion:
		return id
	}
	return pack(id)
}

// storedRequest returns the value of a request's id, and the one that the index has.
func storedRequest(t *projections.Tables, id string) (value, indexed any) {
	if t.Version == wideVersion {
		return id, hash(id)
	}
	packed := pack(id)
	return packed, packed[tailAt:]
}

// pack returns the 16 bytes of a UUID in its canonical form. The bytes of any other text are longer, and the index has
// a hash and the text.
func pack(id string) []byte {
	if u, err := uuid.Parse(id); err == nil && len(id) == 36 && !strings.ContainsAny(id, "ABCDEF") {
		return u[:]
	}
	b := make([]byte, packedText, packedText+len(id))
	binary.BigEndian.PutUint64(b[uuidBytes-8:], uint64(hash(id)))
	return append(b, id...)
}

func unpack(b []byte) (string, error) {
	switch {
	case len(b) == uuidBytes:
		return uuid.UUID(b).String(), nil
	case len(b) >= packedText:
		return string(b[packedText:]), nil
	}
	return "", fmt.Errorf("an id has %d bytes", len(b))
}

// idOf returns the id that a column of either version has.
func idOf(stored any) (string, error) {
	if b, ok := stored.([]byte); ok {
		return unpack(b)
	}
	id, _ := stored.(string) // NULL is no id
	return id, nil
}

// keyOf is idOf for an account's key.
func keyOf(stored any, keys []byte) (string, error) {
	b, ok := stored.([]byte)
	if !ok || len(b) != 1 {
		return idOf(stored)
	}
	if at := int(b[0]) * uuidBytes; at+uuidBytes <= len(keys) {
		return unpack(keys[at : at+uuidBytes])
	}
	return "", fmt.Errorf("the account has no key %d", b[0])
}

// key returns the value of a key's id, and adds the key to those of the account.
func (s *standing) key(t *projections.Tables, id string) any {
	value := storedID(t, id)
	packed, _ := value.([]byte)
	if len(packed) != uuidBytes {
		return value
	}
	place := 0
	for ; place*uuidBytes < len(s.keys); place++ {
		if string(s.keys[place*uuidBytes:][:uuidBytes]) == string(packed) {
			return []byte{byte(place)}
		}
	}
	if place == maxKeys {
		return value
	}
	s.keys = append(s.keys, packed...)
	return []byte{byte(place)}
}

// charge returns the value of the id of an event's charge.
func charge(t *projections.Tables, e *projections.Event, d *described) any {
	value := storedID(t, d.chargeID)
	if packed, _ := value.([]byte); len(packed) == uuidBytes && e.Type == types[0] {
		// The domain as it is read again.
		if uuid.UUID(packed) == chargeID(e.Subject, d.requestID, sqlstore.Storable(d.domain)) {
			return nil
		}
	}
	return value
}

// chargeID returns the id of the only charge of a request for a domain; see account.Account.ChargeID.
func chargeID(accountID, requestID, domain string) uuid.UUID {
	return eventschemas.EventID(account.Stream(accountID), requestID, types[0], domain)
}

// ids sets the type and the ids of an entry from the columns of either version.
func (e *Entry) ids(typ, request, charge, hold, payment, key any, keys []byte) error {
	number, numbered := typ.(int64)
	if e.Type, _ = typ.(string); numbered {
		if number < 1 || int(number) > len(types) {
			return fmt.Errorf("there is no type %d", number)
		}
		e.Type = types[number-1]
	}
	var errs [5]error
	e.RequestID, errs[0] = idOf(request)
	e.HoldID, errs[1] = idOf(hold)
	e.PaymentID, errs[2] = idOf(payment)
	e.ChargeID, errs[3] = idOf(charge)
	e.KeyID, errs[4] = keyOf(key, keys)
	if number == 1 && charge == nil {
		e.ChargeID = chargeID(e.AccountID, e.RequestID, e.Domain).String()
	}
	return cmp.Or(errs[:]...)
}

// Arguments of queries whose values depend on the version of the tables. indexedArg is of the index of requests.
type (
	typeArg    string
	idArg      string
	requestArg string
	indexedArg string
	keyArg     struct{ accountID, keyID string }
)

// bind returns the values of arguments.
func bind(ctx context.Context, q projections.Queryer, t *projections.Tables, args []any) ([]any, error) {
	values := slices.Clone(args)
	for i, arg := range args {
		switch arg := arg.(type) {
		case typeArg:
			values[i] = storedType(t, string(arg))
		case idArg:
			values[i] = storedID(t, string(arg))
		case requestArg:
			values[i], _ = storedRequest(t, string(arg))
		case indexedArg:
			_, values[i] = storedRequest(t, string(arg))
		case keyArg:
			s, err := find(ctx, q, t, arg.accountID)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return nil, err
			}
			values[i] = (&standing{keys: s.keys}).key(t, arg.keyID)
		}
	}
	return values, nil
}
