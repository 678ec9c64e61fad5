// Program counter is a small service on the kernel; see docs/kernel.md. Its counters cannot exceed a limit.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"letterhead/commands/streamwriter"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
	"letterhead/projections/engine"
)

const prefix, limit = "counter-", 1000 // of the names of streams, and of a sum

// added is the only event.
type added struct{ N int64 }

func (added) EventType() string { return "Added" }

type encoder struct{}

func (encoder) Encode(ev eventlog.Body) (eventlog.Encoded, error) {
	data, err := json.Marshal(ev)
	return eventlog.Encoded{Type: ev.EventType(), SchemaVersion: 1, Data: data}, err
}

func decode(_ string, _ int, data []byte) (eventlog.Body, error) {
	var ev added
	err := json.Unmarshal(data, &ev)
	return ev, err
}

// counter is the state of a stream.
type counter struct {
	streamwriter.Plain
	sum    int64
	events uint64
	at     time.Time
	before *counter
}

func (c *counter) Apply(ev eventlog.Body, at time.Time) {
	c.sum, c.events, c.at = c.sum+ev.(added).N, c.events+1, at
}

func (c *counter) Revisions() uint64 { return c.events }
func (c *counter) LastAt() time.Time { return c.at }
func (c *counter) Begin()            { before := *c; c.before = &before }
func (c *counter) Commit()           { c.before = nil }
func (c *counter) Rollback()         { *c = *c.before }
func (c *counter) Reset()            { *c = counter{} }

// add is the command.
type add struct {
	streamwriter.PlainCommand[*counter]
	n int64
}

func (c add) Decide(s *counter, _ time.Time) (streamwriter.Decision, error) {
	if sum := s.sum + c.n; sum < 0 || sum > limit {
		return streamwriter.Decision{}, fmt.Errorf("the sum would be %d; it must be 0 to %d", sum, limit)
	}
	return streamwriter.Decision{Events: []eventlog.Body{added{c.n}}}, nil
}

var kind = streamwriter.Kind[*counter]{
	Label:   "counter",
	Open:    func(name string) (string, *counter, error) { return prefix + name, &counter{}, nil },
	Encoder: encoder{},
	Decode:  decode,
	EventID: func(stream, decision, eventType, subject string) uuid.UUID {
		return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%q", []string{stream, decision, eventType, subject}))
	},
	Identify: func(_ eventlog.Body, r streamwriter.Request) (string, string, error) { return r.ID, "", nil },
	Final:    func(error) bool { return false }, NeedsOperator: func(error) bool { return false },
}

// table is the table of the read model: the sum of each counter.
var table = projections.Keyed[string, int64]{
	Name:    "counters",
	Key:     projections.TextKey("name"),
	Columns: []projections.Column[int64]{projections.Number("sum", func(sum *int64) *int64 { return sum })},
	Compare: strings.Compare,
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err) // the log and the database need no Close
	}
}

// open opens the event log and the database, in folders or at servers.
func open(ctx context.Context, logAt, dbAt string) (eventlog.Log, *sqlstore.Store) {
	if strings.Contains(logAt, "://") {
		return must(esdb.Open(ctx, esdb.Config{ConnectionString: logAt})), must(sqlstore.Open(ctx,
			sqlstore.Config{URL: dbAt}))
	}
	return must(sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(logAt, "events.db")})),
		must(sqlstore.Open(ctx, sqlstore.Config{Path: filepath.Join(dbAt, "models.db")}))
}

func main() {
	logAt, dbAt := flag.String("log", ".", "the event log"), flag.String("db", ".", "the database of the read model")
	flag.Parse()
	ctx, args := context.Background(), append(flag.Args(), "")
	events, store := open(ctx, *logAt, *dbAt)
	model := projections.NewModel("counters", store, projections.Version{
		Number: 1, Streams: []string{prefix}, Tables: []projections.Table{table.Table()},
		NewFold: table.Fold(10_000,
			projections.Subjects, func(rows *projections.Rows[string, int64], e *projections.Event) error {
				*rows.Change(e.Subject) += e.Body.(added).N
				return nil
			}),
	})
	runner := must(engine.New(engine.Config{Decode: decode}, events, store, &model))
	check(runner.Start(ctx))
	go func() { check(runner.Run(ctx)) }()
	switch {
	case args[0] == "add" && len(args) == 4:
		counters := must(streamwriter.New(streamwriter.Config{Shared: store.Shared()}, kind, events, nil))
		command := add{n: must(strconv.ParseInt(args[2], 10, 64))}
		check(counters.Do(ctx, args[1], streamwriter.Request{ID: uuid.NewString(), Actor: "cli"}, command))
	case args[0] == "rebuild":
		check(runner.Rebuild(ctx, nil, nil))
	case args[0] == "list":
		check(runner.CatchUp(ctx))
		check(model.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
			return table.Each(ctx, q, t, func(name string, sum int64) { fmt.Println(name, sum) }, "ORDER BY name")
		}))
	default:
		log.Fatal("usage: counter [-log FOLDER|esdb://…] [-db FOLDER|postgres://…] add NAME N | list | rebuild")
	}
}
