// Command proof-checker verifies a ledger proof with Go's standard library alone, as docs/proofs.md describes the
// format. It shares no code with Letterhead. Of the statement it verifies the balances; it skips the section "since".
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"math/bits"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: proof-checker PUBLIC-KEY FILE")
	}
	file, err := os.ReadFile(os.Args[2])
	if err == nil {
		err = check(string(file), os.Args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// reader reads lines. If something is wrong, it panics with an error that check returns.
type reader struct {
	lines []string
	n     int
}

func (r *reader) need(ok bool, problem string) {
	if !ok {
		panic(fmt.Errorf("line %d: %s", r.n, problem))
	}
}

// next returns the next line without a prefix that it must have, and without the newline.
func (r *reader) next(prefix string) string {
	r.n++
	r.need(r.n < len(r.lines), "the file ends early")
	rest, ok := strings.CutPrefix(r.lines[r.n-1], prefix)
	r.need(ok, "it should begin with "+strconv.Quote(prefix))
	return rest
}

func check(file, key string) (err error) {
	defer func() { err, _ = recover().(error) }()
	r := &reader{lines: strings.Split(file, "\n")}
	account := r.next("letterhead proof 1") + r.next("account ")
	name, provisional := strings.CutSuffix(r.next("month "), " provisional")
	month, err := time.Parse("2006-01", name)
	r.need(err == nil && r.next("")+r.next("") == "checkpoint", "not the beginning of a proof")
	end := month.AddDate(0, 1, 0)
	size, root := r.note(key)
	for r.next("") != "log" { // skips the section "since"
	}
	var made, accountsRoot, owner, last string
	var position, accounts, revision uint64
	_, err = fmt.Sscanf(r.leaf(size-1, size, root), `{"time":%q,"position":%d,"accounts":%d,"root":%q}`,
		&made, &position, &accounts, &accountsRoot)
	r.need(err == nil && provisional == (made < end.Format(layout)),
		"a checkpoint before the month's end is provisional")
	number := r.next("") + r.next("accounts, leaf ")
	index, err := strconv.ParseUint(number, 10, 64)
	r.need(err == nil && index < accounts && strconv.FormatUint(index, 10) == number, "not a leaf of the tree")
	root, _ = hex.DecodeString(accountsRoot)
	_, err = fmt.Sscanf(r.leaf(index, accounts, root), `{"account":%q,"revision":%d,"head":%q}`,
		&owner, &revision, &last)
	r.need(err == nil && owner == account && r.next("")+r.next("") == "events", "not the account's leaf")
	head, opening, closing := make([]byte, 32), int64(0), int64(0)
	for i := uint64(0); i <= revision; i++ {
		at, credits := r.event(i, "account-"+account, &head)
		if at.Before(end) {
			closing += credits
		}
		if at.Before(month) {
			opening = closing
		}
	}
	r.need(hex.EncodeToString(head) == last && r.next("")+r.next("") == "statement",
		"not the last event of the checkpoint")
	statement := strings.Join(r.lines[r.n:], "\n")
	for _, line := range []string{fmt.Sprintf("account_id\": %q", account), fmt.Sprintf("month\": %q", name),
		fmt.Sprintf("opening_balance\": %d", opening), fmt.Sprintf("closing_balance\": %d", closing)} {
		r.need(strings.Contains(statement, "\n \""+line+",\n") && strings.Index(statement, "\n}\n") == len(statement)-3,
			"the statement lacks "+line+", or something follows it")
	}
	return nil
}

// note reads a signed checkpoint and the empty line after it, and returns the size and the root of the log.
func (r *reader) note(key string) (size uint64, root []byte) {
	origin, number, hash := r.next(""), r.next(""), r.next("")
	size, _ = strconv.ParseUint(number, 10, 64)
	root, _ = base64.StdEncoding.DecodeString(hash)
	public, err := base64.StdEncoding.DecodeString(key[min(len(key), len(origin)+10):]) // after name+01234567+
	r.need(err == nil && len(public) == 33 && public[0] == 1 && strings.HasPrefix(key, origin+"+"),
		"signed with another key")
	line := r.next(r.next("") + "— " + origin + " ")
	sig, _ := base64.StdEncoding.DecodeString(line)
	id := sha256.Sum256(append([]byte(origin+"\n"), public...))
	r.need(len(sig) == 68 && base64.StdEncoding.EncodeToString(sig) == line && bytes.Equal(sig[:4], id[:4]) &&
		ed25519.Verify(public[1:], []byte(origin+"\n"+number+"\n"+hash+"\n"), sig[4:]) && size > 0, "wrong signature")
	r.need(r.next("") == "", "more than one signature")
	return size, root
}

// leaf reads the children of each node from a root down to a leaf (RFC 6962).
func (r *reader) leaf(index, size uint64, node []byte) string {
	for size > 1 {
		line, k := r.next(""), uint64(1)<<(bits.Len64(size-1)-1)
		pair, err := hex.DecodeString(strings.Replace(line, " ", "", 1))
		sum := sha256.Sum256(append([]byte{1}, pair...))
		r.need(err == nil && len(pair) == 64 && line == fmt.Sprintf("%x %x", pair[:32],
			pair[32:]) && bytes.Equal(sum[:], node), "not the children of the node above")
		if index < k {
			node, size = pair[:32], k
		} else {
			node, index, size = pair[32:], index-k, size-k
		}
	}
	leaf := r.next("")
	sum := sha256.Sum256([]byte("\x00" + leaf))
	r.need(bytes.Equal(sum[:], node), "not the leaf of the node above")
	return leaf
}

// The form of a time, and that of an event.
var layout, eventLine = "2006-01-02T15:04:05.000000Z", regexp.MustCompile(`^{"revision":(\d+),"id":"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})","type":"(\w+)","schema_version":(\d+),"occurred_at":"(.{26}Z)",` +
	`"actor":("(?:[^"\\]|\\.)*"),"request_id":("(?:[^"\\]|\\.)*"),"hash":"([0-9a-f]{64})","data":(.*)}$`)

// event reads an event, and returns its time and its effect on the balance. It replaces the head of the chain.
func (r *reader) event(revision uint64, stream string, head *[]byte) (time.Time, int64) {
	e := eventLine.FindStringSubmatch(r.next(""))
	r.need(e != nil && e[1] == strconv.FormatUint(revision, 10), "not the next event")
	id, _ := hex.DecodeString(strings.ReplaceAll(e[2], "-", ""))
	version, _ := strconv.ParseUint(e[4], 10, 64)
	at, err := time.Parse(layout, e[5])
	actor, request, body, exact := "", "", struct{ Credits int64 }{},
		func(s string) string { b, _ := json.Marshal(s); return string(b) }
	r.need(err == nil && json.Unmarshal([]byte(e[6]), &actor) == nil && json.Unmarshal([]byte(e[7]), &request) == nil &&
		json.Unmarshal([]byte(e[9]), &body) == nil && at.Format(layout) == e[5] && exact(actor) == e[6] &&
		exact(request) == e[7] && strconv.FormatUint(version, 10) == e[4], "not an event in its exact form")
	h, number := sha256.New(), func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	for _, part := range [][]byte{*head, []byte(stream), number(revision), id, []byte(e[3]), number(version),
		number(uint64(at.UnixMicro())), []byte(actor), []byte(request), []byte(e[9])} {
		h.Write(append(number(uint64(len(part))), part...))
	}
	*head = h.Sum(nil)
	r.need(hex.EncodeToString(*head) == e[8], "it was changed, or does not follow the event above")
	return at, body.Credits * map[string]int64{"CreditsGranted": 1, "ChargeReversed": 1, "CreditsCharged": -1,
		"PaymentRefunded": -1, "RefundReversed": 1, "BreakageRecognized": -1}[e[3]]
}
