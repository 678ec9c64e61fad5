//go:build services

package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"letterhead/internal/email/emailtest"
	"letterhead/internal/testlink"
	"letterhead/internal/testwait"
)

const (
	// mixedClients and mixedAccounts share the mixed requests. Every fourth account has few credits.
	mixedClients, mixedAccounts = 48, 24
	fewCredits                  = 20
	// awayAtMost is the maximum duration of one fault among the mixed requests.
	awayAtMost = 5 * time.Second
	// retryAfter is how long a client waits after a 503.
	retryAfter = 100 * time.Millisecond
	// noticesSettledWithin includes the pause of five minutes after a second failed attempt.
	noticesSettledWithin = 6 * time.Minute
)

// mixedBrands are brands of the starter index with logos.
var mixedBrands = []string{hit, "stripe.com", "figma.com", "spotify.com", "gitlab.com", "docker.com", "notion.so"}

// mixedLoad is a load of all kinds of requests on many accounts, over all API nodes.
type mixedLoad struct {
	*cluster
	token    string // of an operator
	logo     string // path
	accounts []*mixedAccount
	sent     atomic.Int64
	all      *tally // every request to an API for clients
	acts     atomic.Int64
	unsure   atomic.Int64         // acts that not every node was seen to follow in time
	killed   atomic.Pointer[node] // until every node serves again: it need not answer
}

// mixedAccount is an account and what the clients know about it.
type mixedAccount struct {
	customer
	few  bool
	seen *tally // look-ups

	mu       sync.Mutex
	repeated map[string]bool // idempotency keys of look-ups, and whether one was answered with a brand
	moved    map[string]int  // credits of answered grants, by payment id, and of refunds, by refund id
	payments []string        // granted
}

// The test sends -requests mixed requests: look-ups of many accounts, half of them repeated under an idempotency key
// until they are answered, searches, files, crawls, grants, refunds and changes of keys. Meanwhile -faults kills,
// freezes and disconnections occur, one after the other. Every answer must be right, or 503 or 504, and only a killed
// node may give none. Each node must serve again after each fault. At the end everything must be exact: each answered
// charge and each grant and refund is in the ledger once, no charge is there twice, no balance was overspent, the read
// models match the streams, the chains are intact, and all notices are settled.
// Rules 1, 2, 7, 8, 9.
func TestMixedRequests_UnderFaults_EndExact(t *testing.T) {
	c := whole(t)
	since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	mails := emailtest.Start(t, emailtest.Config{})
	c.sendsMail(t, mails.Addr())
	m := &mixedLoad{cluster: c, logo: c.storedLogo(t), all: newTally()}
	var issued struct{ Token string }
	decode(t, c.apis[0].must(t, "admin", "token", "issue", "--name", "mixed", "--scope", "admin", "--json"), &issued)
	m.token = issued.Token
	for i := range mixedAccounts {
		a := &mixedAccount{few: i%4 == 0, seen: newTally(), repeated: map[string]bool{}, moved: map[string]int{}}
		if a.few {
			a.customer = c.apis[i%apiNodes].open(t, "custom", fewCredits)
			c.apis[0].must(t, "account", "notices", a.id, "--low-balance", "5", "--email", "a@example.com")
		} else {
			a.customer = c.apis[i%apiNodes].open(t, "custom", enoughCredits+*mixedRequests)
		}
		m.accounts = append(m.accounts, a)
	}
	probe, probed := c.apis[0].open(t, "custom", enoughCredits), newTally()

	var faulted atomic.Bool
	began := time.Now()
	var load sync.WaitGroup
	for client := range mixedClients {
		load.Go(func() {
			for turn := client; !t.Failed() && (m.sent.Load() < int64(*mixedRequests) || !faulted.Load()); turn++ {
				m.request(turn)
			}
		})
	}
	load.Go(func() {
		var last string // unserved probe
		defer func() {
			if t.Failed() {
				t.Logf("the last request that was not served: %s", last)
			}
			faulted.Store(true)
		}()
		for i := range *mixedFaults {
			at := int64(*mixedRequests) * int64(i+1) / int64(*mixedFaults+1)
			until(t, 20*time.Minute, "the load continues", func() bool { return m.sent.Load() >= at || t.Failed() })
			f, away := m.anyFault(t, i), rand.N(awayAtMost)
			if err := f.begin(c); err != nil {
				t.Error(err)
				return
			}
			<-time.After(away) // the load continues
			if err := errors.Join(f.end(c), c.lost); err != nil {
				t.Error(err)
				return
			}
			took := until(t, recoveredWithin, "every node serves again after: "+f.name, func() bool {
				for _, n := range c.apis {
					known, err := n.get(lookup(hit), probe.secret)
					probed.lookup(known, err)
					found, searchErr := n.get("/v1/search?q=github", probe.secret)
					if errors.Join(err, searchErr) != nil || known.status != http.StatusOK || found.status != http.StatusOK {
						last = fmt.Sprintf("look-up %s, search %s: %s %v", known, found, found.body, errors.Join(err, searchErr))
						return false
					}
				}
				return true
			})
			m.killed.Store(nil)
			t.Logf("fault %d: %s for %s: every node served again %s later (%d requests)", i+1, f.name,
				away.Round(10*time.Millisecond), took.Round(10*time.Millisecond), m.sent.Load())
		}
	})
	load.Wait()
	t.Logf("%d requests and %d acts of operators (%d unconfirmed) in %s: %s", m.sent.Load(), m.acts.Load(), m.unsure.Load(),
		time.Since(began).Round(time.Second), m.all)
	m.all.check(t, len(m.all.unanswered)) // of killed nodes; see send

	for _, n := range c.all() {
		if !n.alive() {
			t.Errorf("%s exited", n.name)
		}
	}
	c.mend(t)
	c.caughtUp(t)
	c.agree(t, probe, probed)
	undelivered := c.apis[0].must(t, "ledger", "undelivered", "--since", since, "--json")
	for _, a := range m.accounts {
		m.exact(t, a, undelivered)
	}
	c.verified(t)
	m.noticesSettled(t, mails)
}

// sendsMail restarts the sweeper with a mail server, until the test ends.
func (c *cluster) sendsMail(t *testing.T, server string) {
	t.Helper()
	env := c.sweeper.env
	restart := func(env []string) {
		c.sweeper.kill()
		c.sweeper.env = env
		c.mend(t)
	}
	restart(append(slices.Clone(env), "LETTERHEAD_SMTP_URL=smtp://"+server, "LETTERHEAD_MAIL_FROM=a@example.com"))
	t.Cleanup(func() { restart(env) })
}

// anyFault returns the i-th fault. The first six are of six kinds.
func (m *mixedLoad) anyFault(t *testing.T, i int) fault {
	some := func(nodes []*node) *node { return nodes[rand.IntN(len(nodes))] }
	killed := func(n *node) fault {
		kill := func(*cluster) error { m.killed.Store(n); n.kill(); return nil }
		return fault{n.name + " killed", kill, func(*cluster) error { return n.start() }}
	}
	frozen := func(n *node) fault {
		return fault{n.name + " frozen", func(*cluster) error { return n.freeze() }, func(*cluster) error { return n.thaw() }}
	}
	cutOff := func(n *node, service string, how func(*testlink.Link)) fault {
		return fault{n.name + " cut off from " + service, func(*cluster) error { how(n.links[service]); return nil },
			func(*cluster) error { n.links[service].Resume(); return nil }}
	}
	kinds := []func() fault{
		func() fault { return killed(some(m.apis)) },
		func() fault { return stopped(t, eventStore) },
		func() fault { return stopped(t, postgres) },
		func() fault { return frozen(some(m.projectors)) },
		func() fault { return frozen(some(m.apis)) },
		func() fault { return killed(some(m.relays)) },
		func() fault { return hung(t, eventStore) },
		func() fault { return killed(some(m.projectors)) },
		func() fault { return hung(t, postgres) },
		func() fault { return killed(some(m.crawlers)) },
		func() fault { return cutOff(some(m.apis), eventStore, (*testlink.Link).Refuse) },
		func() fault { return stopped(t, elasticsearch) },
		func() fault { return cutOff(some(m.apis), postgres, (*testlink.Link).Hang) },
		func() fault { return killed(m.sweeper) },
		func() fault { return frozen(some(m.relays)) },
	}
	if controlled() {
		kinds = append(kinds, func() fault { return stopped(t, kafkaBroker) }, func() fault { return hung(t, kafkaBroker) })
	}
	return kinds[i%len(kinds)]()
}

// request sends one request of a random kind, or one act of an operator.
func (m *mixedLoad) request(turn int) {
	a := m.accounts[rand.IntN(len(m.accounts))]
	brand := lookup(mixedBrands[turn%len(mixedBrands)])
	paid := []int{http.StatusOK}
	if a.few {
		paid = append(paid, http.StatusPaymentRequired)
	}
	switch kind := rand.IntN(100); {
	case kind < 40:
		m.look(a, turn, brand, paid...)
	case kind < 60:
		m.repeat(a, turn, brand, paid)
	case kind < 72:
		m.send(a, turn, "/v1/search?q=github", a.secret, nil, http.StatusOK)
	case kind < 86:
		m.send(a, turn, "/v1/me", a.secret, nil, http.StatusOK)
	case kind < 95:
		m.send(a, turn, m.logo, "", nil, http.StatusOK)
	case kind < 96:
		unknown := lookup(nowhere())
		if inLab() && turn%2 == 0 {
			unknown = lookup(siteOfMixed) + "?refresh=true"
		}
		m.look(a, turn, unknown, append(paid, http.StatusNotFound, http.StatusBadGateway)...)
	case kind < 98:
		m.grant(a, turn)
	case kind < 99:
		m.refund(a, turn)
	default:
		m.changeKey(a, turn)
	}
}

// send sends a request to a node, or, as a proxy does, to the next one if the node refuses connections.
func (m *mixedLoad) send(a *mixedAccount, turn int, path, key string, header http.Header,
	right ...int) (got answer, err error) {
	for try := range m.apis {
		n, killed := m.apis[(turn+try)%apiNodes], m.killed.Load()
		got, err = n.send(http.MethodGet, path, key, nil, header)
		m.all.count(got, err)
		if err != nil && n != killed && n != m.killed.Load() {
			m.all.mistake("GET %s on %s, which was not killed: %v", path, n.name, err)
		}
		if err != nil { // also if it was refused: the HTTP client repeats a GET whose connection broke
			a.seen.count(got, err)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	m.sent.Add(1)
	busy := got.status == http.StatusServiceUnavailable || got.status == http.StatusGatewayTimeout
	if err == nil && !busy && !slices.Contains(right, got.status) {
		m.all.mistake("GET %s: %s: %s", path, got, got.body)
	}
	if err != nil || busy {
		<-time.After(retryAfter)
	}
	return got, err
}

// look sends a look-up once.
func (m *mixedLoad) look(a *mixedAccount, turn int, path string, right ...int) {
	if got, err := m.send(a, turn, path, a.secret, nil, right...); err == nil {
		a.seen.lookup(got, nil)
	}
}

// repeat sends a look-up under an idempotency key, over the nodes in turn, until it is answered.
func (m *mixedLoad) repeat(a *mixedAccount, turn int, path string, right []int) {
	key := random() + random()
	var last answer
	_, ok := testwait.Until(takeoverTimeout, func() bool {
		var err error
		last, err = m.send(a, turn, path, a.secret, http.Header{"Idempotency-Key": {key}}, right...)
		turn++
		if err != nil { // this attempt or another one of its key is charged; see exact
			return false
		}
		return slices.Contains(right, last.status)
	})
	if !ok {
		m.all.mistake("a look-up was not answered within %s: %s", takeoverTimeout, last)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.repeated[key] = last.status == http.StatusOK
}

// act sends a request to the admin API of the nodes in turn, until it is answered. It returns the body, nil if it was
// rejected, and whether every node was seen to follow. That fails if the read models cannot follow for ten seconds.
func (m *mixedLoad) act(turn int, method, path string, content any, right ...int) (answered []byte, confirmed bool) {
	m.acts.Add(1)
	body, err := json.Marshal(content)
	if err != nil || content == nil {
		body = nil
	}
	header := http.Header{"Idempotency-Key": {random() + random()}, "Content-Type": {"application/json"}}
	var last answer
	_, ok := testwait.Until(takeoverTimeout, func() bool {
		n := m.apis[turn%apiNodes]
		turn++
		last, err = (&node{process: n.process, url: n.admin}).send(method, path, m.token, body, header)
		return err == nil && last.status != http.StatusServiceUnavailable
	})
	if !ok || !slices.Contains(right, last.status) {
		m.all.mistake("%s %s: %s, %v: %s", method, path, last, err, last.body)
		return nil, false
	}
	// A replayed answer says nothing about the present state.
	confirmed = last.header.Get("X-Unconfirmed") == "" && last.header.Get("Idempotency-Replayed") == ""
	if !confirmed {
		m.unsure.Add(1)
	}
	return last.body, confirmed
}

func (m *mixedLoad) grant(a *mixedAccount, turn int) {
	id := "pay_" + random() + random()
	grant := map[string]any{"credits": 7, "payment_id": id}
	if body, _ := m.act(turn, http.MethodPost, "/admin/accounts/"+a.id+"/grants", grant, http.StatusOK); body != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.moved[id] = 7
		a.payments = append(a.payments, id)
	}
}

// refund refunds a part of a payment of an account with enough credits: a refund may take a balance below zero.
func (m *mixedLoad) refund(a *mixedAccount, turn int) {
	a.mu.Lock()
	payment := ""
	if n := len(a.payments); n > 0 && !a.few {
		payment, a.payments = a.payments[n-1], a.payments[:n-1]
	}
	a.mu.Unlock()
	if payment == "" {
		m.grant(a, turn)
		return
	}
	id := "re_" + random() + random()
	refund := map[string]any{"credits": 3, "payment_id": payment, "refund_id": id}
	if body, _ := m.act(turn, http.MethodPost, "/admin/accounts/"+a.id+"/refunds", refund, http.StatusOK); body != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.moved[id] = -3
	}
}

// changeKey issues a key, uses it, and revokes it. No node accepts it after a confirmed revocation.
func (m *mixedLoad) changeKey(a *mixedAccount, turn int) {
	var key struct{ ID, Key string }
	named := map[string]any{"name": "mixed"}
	body, confirmed := m.act(turn, http.MethodPost, "/admin/accounts/"+a.id+"/keys", named, http.StatusCreated)
	if body == nil || json.Unmarshal(body, &key) != nil || key.ID == "" {
		return
	}
	if key.Key != "" && confirmed { // an answer to a repeat does not have it
		m.send(a, turn, "/v1/me", key.Key, nil, http.StatusOK)
	}
	if _, confirmed = m.act(turn, http.MethodDelete, "/admin/keys/"+key.ID, nil, http.StatusOK); !confirmed || key.Key == "" {
		return
	}
	for i := range m.apis {
		m.send(a, turn+i, "/v1/me", key.Key, nil, http.StatusUnauthorized)
	}
}

// exact checks the ledger of an account.
func (m *mixedLoad) exact(t *testing.T, a *mixedAccount, undelivered string) {
	t.Helper()
	reader := m.apis[0]
	byKey := map[string][]string{} // requests that were charged
	for _, e := range reader.events(t, "account-"+a.id, "CreditsCharged") {
		var charged struct {
			RequestID string `json:"request_id"`
			Key       string `json:"idempotency_key_hash"`
		}
		decode(t, string(e.Data), &charged)
		if charged.Key != "" {
			byKey[charged.Key[:32]] = append(byKey[charged.Key[:32]], charged.RequestID)
		}
	}
	lines := reader.ledger(t, a.customer)
	net := charges(lines)
	for key, answered := range a.repeated {
		sum := sha256.Sum256([]byte(key))
		cost := 0
		for _, request := range byKey[hex.EncodeToString(sum[:])[:32]] {
			if cost += net[request]; net[request] == 1 {
				a.seen.paid[request] = answered
			}
		}
		if answered && cost != 1 || cost > 1 {
			t.Errorf("the look-up under the idempotency key %s cost %d credits, want 1 (answered: %t)", key, cost, answered)
		}
	}
	found := map[string]int{}
	for _, l := range lines {
		if l.Balance < 0 {
			t.Errorf("the balance of %s was %d at revision %d", a.id, l.Balance, l.Revision)
		}
		switch l.Type {
		case "CreditsGranted":
			found[l.PaymentID] += l.Amount
		case "PaymentRefunded":
			found[l.RefundID] += l.Amount
		case "CreditsCharged":
			silent := net[l.RequestID] == 1 && !a.seen.paid[l.RequestID]
			if silent && !strings.Contains(undelivered, l.RequestID) {
				t.Errorf("the charge of request %s has no answer and is not listed as undelivered", l.RequestID)
			}
		}
	}
	for id, credits := range a.moved {
		if found[id] != credits {
			t.Errorf("%s moved %d credits, want %d", id, found[id], credits)
		}
	}
	m.agree(t, a.customer, a.seen)
}

// noticesSettled waits until no notice is open. Each delivered one must have arrived.
func (m *mixedLoad) noticesSettled(t *testing.T, mails *emailtest.Server) {
	t.Helper()
	states := map[string]int{}
	var notices []struct {
		ID    string `json:"notice_id"`
		State string
	}
	until(t, noticesSettledWithin, "all notices are settled", func() bool {
		clear(states)
		notices = nil
		for _, a := range m.accounts {
			var shown struct {
				Notices []struct {
					ID    string `json:"notice_id"`
					State string
				}
			}
			if !a.few {
				continue
			}
			decode(t, m.apis[0].must(t, "account", "notices", a.id, "--json"), &shown)
			notices = append(notices, shown.Notices...)
		}
		for _, n := range notices {
			states[n.State]++
		}
		return states["open"] == 0
	})
	t.Logf("notices: %v", states)
	var sent strings.Builder
	for _, mail := range mails.Messages() {
		sent.WriteString(mail.Data)
	}
	for _, n := range notices {
		if n.State == "delivered" && !strings.Contains(sent.String(), n.ID) {
			t.Errorf("notice %s counts as delivered, but has not arrived", n.ID)
		}
	}
	if len(notices) == 0 || states["dead_lettered"] > 0 {
		t.Errorf("notices: %v, want some, and none that cannot be delivered", states)
	}
}
