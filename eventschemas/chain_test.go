package eventschemas_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/eventschemas"
)

func links() []eventschemas.ChainLink {
	stream := "account-" + accountID
	return []eventschemas.ChainLink{
		{
			Stream: stream, Revision: 0, EventID: uuid.MustParse("14696afb-7c17-5da0-859c-ea352143f620"), Type: "AccountOpened",
			SchemaVersion: 1, OccurredAt: moment, Actor: "operator:console",
			Data: []byte(`{"account_id":"` + accountID + `","holder":"hld_7","plan":"free"}`),
		},
		{
			Stream: stream, Revision: 1, EventID: uuid.MustParse("e47e08be-bc9e-5ca0-8646-c9f699b4b754"), Type: "AccountReinstated",
			SchemaVersion: 2, OccurredAt: moment.Truncate(time.Second).Add(time.Second), Actor: "account:ü", RequestID: "req_1", Data: []byte("{}"),
		},
		{OccurredAt: time.Unix(0, 0).Add(-time.Microsecond)},
	}
}

// The vectors were computed from the definition by another program (Python's hashlib and struct). They must
// never change, because every stored chain depends on them.
func TestChainVectors(t *testing.T) {
	want := []string{
		"d0abd9df3b9224ead069add0b8a079c07eb42e7b36f2a4cfeff71d80299a17fc",
		"343d6aff49e7341a96389ac8856d377733f8f2f3bfb3d2c0242e6cecd11db77d",
		"bb31690bbbcfd02bdb81746da502c98b8320c5fbd1cfdb9d450568471318a537",
	}
	var previous eventschemas.Hash
	for i, link := range links() {
		previous = link.Next(previous)
		if got := hex.EncodeToString(previous[:]); got != want[i] {
			t.Errorf("link %d: got %s, want %s", i, got, want[i])
		}
	}
}

// The test implements the definition a second time, byte by byte.
func TestChainLink_MatchesDefinition(t *testing.T) {
	link := links()[1]
	previous := links()[0].Next(eventschemas.Hash{})
	var message bytes.Buffer
	number := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	for _, part := range [][]byte{
		previous[:], []byte(link.Stream), number(link.Revision), link.EventID[:], []byte(link.Type),
		number(uint64(link.SchemaVersion)), number(uint64(link.OccurredAt.UnixMicro())),
		[]byte(link.Actor), []byte(link.RequestID), link.Data,
	} {
		message.Write(number(uint64(len(part))))
		message.Write(part)
	}
	if got, want := link.Next(previous), eventschemas.Hash(sha256.Sum256(message.Bytes())); got != want {
		t.Errorf("got %x, want %x", got, want)
	}
}

func TestChainLink_EveryFieldCounts(t *testing.T) {
	link := links()[1]
	var previous eventschemas.Hash
	seen := map[eventschemas.Hash]string{link.Next(previous): "the link itself"}
	another := func(name string, changed eventschemas.ChainLink, previous eventschemas.Hash) {
		hash := changed.Next(previous)
		if as, ok := seen[hash]; ok {
			t.Errorf("%s has the same hash as %s", name, as)
		}
		seen[hash] = name
	}
	change := func(name string, by func(*eventschemas.ChainLink)) {
		changed := link
		by(&changed)
		another(name, changed, previous)
	}
	another("previous", link, eventschemas.Hash{31: 1})
	change("stream", func(l *eventschemas.ChainLink) { l.Stream += "x" })
	change("revision", func(l *eventschemas.ChainLink) { l.Revision++ })
	change("event id", func(l *eventschemas.ChainLink) { l.EventID[15]++ })
	change("type", func(l *eventschemas.ChainLink) { l.Type += "x" })
	change("version", func(l *eventschemas.ChainLink) { l.SchemaVersion++ })
	change("time", func(l *eventschemas.ChainLink) { l.OccurredAt = l.OccurredAt.Add(time.Microsecond) })
	change("actor", func(l *eventschemas.ChainLink) { l.Actor += "x" })
	change("request", func(l *eventschemas.ChainLink) { l.RequestID += "x" })
	change("data", func(l *eventschemas.ChainLink) { l.Data = []byte("{ }") })
	change("a byte moved from actor to request", func(l *eventschemas.ChainLink) { l.Actor, l.RequestID = "account:", "ü"+l.RequestID })
	change("a byte moved from request to data", func(l *eventschemas.ChainLink) { l.RequestID, l.Data = "req_", append([]byte("1"), l.Data...) })
}

func TestChainLink_IgnoresTimeZone(t *testing.T) {
	link := links()[0]
	elsewhere := link
	elsewhere.OccurredAt = link.OccurredAt.In(time.FixedZone("UTC+2", 7200)).Add(999 * time.Nanosecond)
	if link.Next(eventschemas.Hash{}) != elsewhere.Next(eventschemas.Hash{}) {
		t.Error("the hash depends on the time zone")
	}
}

func TestEventIDVectors(t *testing.T) {
	for _, c := range []struct{ stream, key, eventType, subject, want string }{
		{"account-1", "req-1", "CreditsCharged", "", "6fdebba2-ba40-5db4-91d3-b94986284902"},
		{"brand-acme.com", "crawl-1", "CrawlFailed", "ü", "e98d6301-7617-50c0-9717-c869691d908e"},
		{"", "", "", "", "8254521b-f97a-5eb5-84c7-f8279ac60594"},
	} {
		got := eventschemas.EventID(c.stream, c.key, c.eventType, c.subject)
		if got.String() != c.want || got.Version() != 5 {
			t.Errorf("EventID%+v = %s", c, got)
		}
	}
}

func TestEventID_DifferentDecisions_Differ(t *testing.T) {
	seen := map[uuid.UUID][4]string{}
	for _, parts := range [][4]string{
		{"a", "b", "c", "d"}, {"ab", "", "c", "d"}, {"", "ab", "c", "d"}, {"a", "bc", "", "d"}, {"a", "b", "cd", ""},
		{"a", "b", "", "cd"}, {"abcd", "", "", ""}, {"", "", "", "abcd"}, {"a\x00b", "", "c", "d"},
	} {
		id := eventschemas.EventID(parts[0], parts[1], parts[2], parts[3])
		if other, ok := seen[id]; ok {
			t.Errorf("%q and %q have the same id %s", parts, other, id)
		}
		seen[id] = parts
	}
}
