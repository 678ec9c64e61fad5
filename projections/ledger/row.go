package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/projections"
)

// A row is short because nearly every event has one:
//
//   - its type is a number;
//   - a UUID is 16 bytes;
//   - a key is its place among the first keys of the account;
//   - the id of a charge is no bytes if it follows from the account, the request and the domain;
//   - an index finds a request by the last bytes of its id.
//
// Rows of wideVersion, which the previous release reads, have texts and a hash of the request's id instead.

const (
	// uuidBytes is the length of a UUID, and canonicalBytes that of its canonical text, which is in lower case.
	uuidBytes, canonicalBytes = 16, 36
	// tailAt is the first of the bytes of a packed id that the index of requests has. All requests of a process begin
	// with the same bytes.
	tailAt = 13
	// maxKeys limits the keys of an account that rows refer to by their place.
	maxKeys = 8
)

// types are the types of the events that accounts have. A row has the place of its type, from 1 on, so types may only
// be appended.
var types = slices.Concat([]string{
	eventschemas.CreditsCharged{}.EventType(), eventschemas.CreditsHeld{}.EventType(),
	eventschemas.HoldReleased{}.EventType(), eventschemas.ChargeKept{}.EventType(),
	eventschemas.KeyIssued{}.EventType(), eventschemas.KeyRevoked{}.EventType(),
}, rareTypes, []string{eventschemas.KeyLimitSet{}.EventType()})

// wide translates SQL for tables of wideVersion. The order of the columns is the one of the previous release, because
// a scrub compares tables of both releases.
var wide = strings.NewReplacer("SMALLINT", "TEXT", "request_id   BYTEA ",
	"request_hash BIGINT NOT NULL,\n\trequest_id TEXT", "BYTEA,", "TEXT,", ",\n\tkeys     BYTEA", "", "a.keys", "NULL")

// compact translates SQL for tables of version.
var compact = func() *strings.Replacer {
	pairs := []string{"request_hash", fmt.Sprintf("substr(request_id, %d, %d)", tailAt+1, uuidBytes-tailAt)}
	for i, name := range types {
		pairs = append(pairs, "'"+name+"'", strconv.Itoa(i+1))
	}
	return strings.NewReplacer(pairs...)
}()

// sqlFor returns SQL for tables of a version.
func sqlFor(t *projections.Tables, text string) string {
	if t.Version == wideVersion {
		return t.SQL(wide.Replace(text))
	}
	return t.SQL(compact.Replace(text))
}

// storedType returns the value of a type; 0 for one that accounts do not have.
func storedType(t *projections.Tables, name string) any {
	if t.Version == wideVersion {
		return name
	}
	return int64(slices.Index(types, name) + 1)
}

// storedRequest returns the value of a request's id.
func storedRequest(t *projections.Tables, id string) any {
	if t.Version == wideVersion {
		return id
	}
	return pack(id)
}

// storedTail returns the value that the index of requests has.
func storedTail(t *projections.Tables, id string) any {
	if t.Version == wideVersion {
		return hash(id)
	}
	return pack(id)[tailAt:uuidBytes]
}

// storedID returns the value of another id; NULL if it is empty.
func storedID(t *projections.Tables, id string) any {
	if id == "" {
		return nil
	}
	return storedRequest(t, id)
}

// storedKey returns the value of the id of a key of an account whose first keys are packed in keys.
func storedKey(t *projections.Tables, id string, keys []byte) any {
	value := storedID(t, id)
	packed, _ := value.([]byte)
	for place := range len(keys) / uuidBytes {
		if bytes.Equal(keys[place*uuidBytes:][:uuidBytes], packed) {
			return []byte{byte(place)}
		}
	}
	return value
}

// pack returns the 16 bytes of a UUID in its canonical form. Any other text follows 17 bytes that end in a hash and 0.
func pack(id string) []byte {
	if len(id) == canonicalBytes && !strings.ContainsAny(id, "ABCDEF") {
		if u, err := uuid.Parse(id); err == nil {
			return u[:]
		}
	}
	b := make([]byte, uuidBytes+1, uuidBytes+1+len(id))
	binary.BigEndian.PutUint64(b[uuidBytes-8:], uint64(hash(id)))
	return append(b, id...)
}

// column is scanned from a type or an id of either version. NULL leaves the text empty.
type column struct {
	text *string
	keys *[]byte // of the account, if the column has keys
}

// Scan implements sql.Scanner.
func (c column) Scan(stored any) error {
	text, wide := stored.(string)
	number, _ := stored.(int64)
	b, _ := stored.([]byte)
	if len(b) == 1 && c.keys != nil && (int(b[0])+1)*uuidBytes <= len(*c.keys) {
		b = (*c.keys)[int(b[0])*uuidBytes:][:uuidBytes]
	}
	switch {
	case wide:
		*c.text = text
	case number >= 1 && number <= int64(len(types)):
		*c.text = types[number-1]
	case len(b) == uuidBytes:
		*c.text = uuid.UUID(b).String()
	case len(b) > uuidBytes:
		*c.text = string(b[uuidBytes+1:])
	case stored != nil:
		return fmt.Errorf("%v is neither a type nor an id", stored)
	}
	return nil
}

// chargeID returns the id of the only charge of a request for a domain; see account.Account.ChargeID.
func chargeID(accountID, requestID, domain string) string {
	return eventschemas.EventID(account.Stream(accountID), requestID, types[0], domain).String()
}

// arg is an argument of a query, and keyArg the id of an account's key, whose value depends on the tables.
type (
	arg struct {
		stored func(t *projections.Tables, text string) any
		text   string
	}
	keyArg struct{ accountID, keyID string }
)

// bind returns the values of arguments.
func bind(ctx context.Context, q projections.Queryer, t *projections.Tables, args []any) ([]any, error) {
	values := slices.Clone(args)
	for i, a := range args {
		switch a := a.(type) {
		case arg:
			values[i] = a.stored(t, a.text)
		case keyArg:
			s, err := find(ctx, q, t, a.accountID)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return nil, err
			}
			values[i] = storedKey(t, a.keyID, s.keys)
		}
	}
	return values, nil
}
