package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/domain/books"
	"letterhead/domain/operator"
	"letterhead/internal/apikey"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/repeats"
	"letterhead/internal/runs"
	"letterhead/projections/engine"
	"letterhead/projections/operators"
	"letterhead/readapi"
	"letterhead/workers/journal"
)

// serveAdmin serves the admin API at its address, if it has one. The server may be closed in any case. If the default
// address is taken, the system chooses a port. If that fails, too, the node starts without an admin API, and cfg is changed
// to serve metrics with the API, which is on a loopback address then.
func (f *front) serveAdmin(cfg *config.Config, failed chan<- error, logger *slog.Logger) (*http.Server, error) {
	server := readapi.NewServer(&f.admin)
	if cfg.AdminListen == "" {
		return server, nil
	}
	listener, err := net.Listen("tcp", cfg.AdminListen)
	if err != nil && cfg.AdminDefault {
		logger.Info("the default address of the admin API is taken, so it gets another port", "address", cfg.AdminListen)
		host, _, _ := net.SplitHostPort(cfg.AdminListen) // a constant
		if listener, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			cfg.AdminListen = ""
			if cfg.MetricsListen == config.MetricsWithAdmin {
				cfg.MetricsListen = config.MetricsWithAPI
			}
			logger.Warn("the admin API is not served", "error", err, "metrics", cfg.MetricsListen)
			return server, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with LETTERHEAD_ADMIN_LISTEN, or set it to off", cfg.AdminListen, err)
	}
	f.adminURL = "http://" + reachable(listener.Addr().String())
	go func() {
		err := server.Serve(readapi.NewListener(listener, readapi.NewUnroutedAdmin(cfg.BaseURL, logger)))
		if !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve the admin API on %s: %w", listener.Addr(), err)
		}
	}()
	return server, nil
}

// reachable replaces an unspecified or missing host by localhost.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("localhost", port)
	}
	return address
}

// AdminURL returns where this process serves the admin API; "" if it does not.
func (n *Node) AdminURL() string { return n.adminURL }

// adminHandler returns what the node serves at LETTERHEAD_ADMIN_LISTEN.
func (n *Node) adminHandler(ctx context.Context) (http.Handler, error) {
	cfg, deps, err := n.AdminAPI(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Pages = n.Console
	api, err := adminapi.New(cfg, deps)
	if err != nil {
		return nil, err
	}
	return api.Handler(), nil
}

// AdminAPI returns what adminapi.New needs.
func (n *Node) AdminAPI(ctx context.Context) (adminapi.Config, adminapi.Deps, error) {
	cfg := adminapi.Config{
		BaseURL: n.Config.BaseURL, Hosts: n.Config.AdminHosts, CrawlTimeout: n.Config.CrawlTimeout, Logger: n.logger, Registerer: n.metrics, Now: n.clock.Now,
		NewID: func() string { return runs.RequestID(n.runID) }, Visitor: n.visitor,
	}
	requests, err := repeats.New(ctx, n.Store)
	if err != nil {
		return cfg, adminapi.Deps{}, err
	}
	deps := adminapi.Deps{
		Operations: n, Plans: n.Plans, Writer: n.AccountWriter, Reports: n.Billing, Brands: n.Brands, Names: n.Names, Accounts: n.Accounts, Keys: n.Keys, Ledger: n.Ledger,
		Payments: n.Payments, Inbox: n.Inbox, Index: n.BrandReader, Checkpoints: n.Checkpoints, Operators: n.Operators, Actions: n.actions, Failures: n.failures, Repeats: requests, Log: n.Log,
	}
	if n.Config.MetricsListen == config.MetricsWithAdmin {
		deps.Metrics = n.metrics.Handler()
	}
	return cfg, deps, nil
}

// IssueToken makes a token of an operator, and returns once requests with it are accepted. With ErrNotSeen the token
// exists, and is returned as well. Repeating the request issues nothing, and returns the token without its text, which is
// stored nowhere.
func (n *Node) IssueToken(ctx context.Context, by commands.Request, name string, scope operator.Scope, expires time.Time) (adminapi.Token, error) {
	text, key, err := newOperatorToken()
	if err != nil {
		return adminapi.Token{}, err
	}
	id := derivedID(by, "token")
	done, err := n.tokens.IssueToken(ctx, commands.IssueToken{Request: by, TokenID: id, Token: key, Scope: scope, ExpiresAt: expires})
	if errors.Is(err, operator.ErrTokenExists) {
		return n.tokenIssuedBefore(ctx, id, name)
	}
	if err != nil {
		return adminapi.Token{}, err
	}
	named := n.Names.Put(ctx, id, name)
	issued := adminapi.Token{ID: id, Name: name, Scope: scope, Token: text, Last4: key.Last4, State: operators.Active, ExpiresAt: expires.UTC()}
	if expires.IsZero() {
		issued.ExpiresAt = time.Time{}
	}
	if err := errors.Join(named, n.awaitTokens(ctx, done.Position)); err != nil {
		return issued, fmt.Errorf("token %s is issued: %w: %w", id, ErrNotSeen, err)
	}
	return issued, nil
}

// newOperatorToken returns the text of a new token, and the part of it that may be stored.
func newOperatorToken() (string, apikey.Key, error) {
	text, err := apikey.Generate(apikey.Operator, rand.Reader)
	if err != nil {
		return "", apikey.Key{}, err
	}
	key, err := apikey.Parse(text)
	return text, key, err
}

// tokenIssuedBefore returns a token without its text, and stores its name unless the token is revoked or the repeat is
// late.
func (n *Node) tokenIssuedBefore(ctx context.Context, id, name string) (adminapi.Token, error) {
	if err := n.Folded(ctx, operators.Name); err != nil {
		return adminapi.Token{}, err
	}
	row, found, err := n.Operators.Get(ctx, id)
	if err != nil || !found {
		return adminapi.Token{}, cmp.Or(err, operator.ErrUnknownToken)
	}
	names, err := n.Names.Names(ctx, id)
	if err != nil {
		return adminapi.Token{}, err
	}
	token := tokenOf(&row, names, n.clock.Now())
	if token.Name != "" || n.isLate(token.IssuedAt) {
		return token, nil
	}
	if token.State != operators.Revoked {
		token.Name = name
	}
	return token, n.name(ctx, id, name, n.revoked(id))
}

// revoked returns a function that reports whether a token is revoked, whose name may be erased.
func (n *Node) revoked(id string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		if err := n.Folded(ctx, operators.Name); err != nil {
			return false, err
		}
		row, found, err := n.Operators.Get(ctx, id)
		return found && !row.RevokedAt.IsZero(), err
	}
}

// RevokeToken revokes a token, and returns once requests with it are rejected on every node. With ErrNotSeen it is
// revoked, and not every node was seen to follow.
func (n *Node) RevokeToken(ctx context.Context, by commands.Request, id string) (repeated bool, err error) {
	done, err := n.tokens.RevokeToken(ctx, by, id)
	if err != nil {
		return false, err
	}
	if err := n.awaitTokens(ctx, done.Position); err != nil {
		return done.Repeated, fmt.Errorf("token %s is revoked: %w: %w", id, ErrNotSeen, err)
	}
	return done.Repeated, nil
}

// awaitTokens waits until the read model of tokens, which every request reads, is at a position.
func (n *Node) awaitTokens(ctx context.Context, position eventlog.Position) error {
	ctx, cancel := context.WithTimeout(ctx, enforceTimeout)
	defer cancel()
	return n.Runner.WaitFor(ctx, operators.Name, position)
}

// Tokens returns the selected tokens of operators, without their texts, at most limit, the newest first.
func (n *Node) Tokens(ctx context.Context, s operators.Selection, limit int) ([]adminapi.Token, error) {
	if err := n.Folded(ctx, operators.Name); err != nil {
		return nil, err
	}
	s.At = n.clock.Now()
	rows, err := n.Operators.List(ctx, s, limit)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	names, err := n.Names.Names(ctx, ids...)
	if err != nil {
		return nil, err
	}
	all := make([]adminapi.Token, len(rows))
	for i := range rows {
		all[i] = tokenOf(&rows[i], names, s.At)
	}
	return all, nil
}

// tokenOf returns a token as the admin API answers it at a time, with its name among those by id.
func tokenOf(row *operators.Token, names map[string]string, at time.Time) adminapi.Token {
	return adminapi.Token{ID: row.ID, Name: names[row.ID], Scope: row.Scope, Last4: row.Last4, State: row.State(at),
		IssuedAt: row.IssuedAt, IssuedBy: row.IssuedBy, ExpiresAt: row.ExpiresAt, RevokedAt: row.RevokedAt, RevokedBy: row.RevokedBy}
}

// ReadModels returns the state of every read model and of the search index.
func (n *Node) ReadModels(ctx context.Context) ([]engine.Status, error) {
	models, err := n.Runner.List(ctx)
	if err != nil {
		return nil, err
	}
	index, err := n.SearchStatus(ctx)
	return append(models, index), err
}

// Months returns the months of the books from that of the first event to the running one.
func (n *Node) Months(ctx context.Context) ([]adminapi.Month, error) {
	now := n.clock.Now()
	months, err := journal.Status(ctx, n.Log, now)
	if err != nil {
		return nil, err
	}
	all := make([]adminapi.Month, len(months))
	for i, m := range months {
		all[i] = adminapi.Month{Month: m.Month.Format(books.MonthLayout), State: m.State(now)}
		if p := m.Closing; p != nil {
			all[i] = closedMonth(p)
		}
	}
	return all, nil
}

// FoldBooks folds the books of all accounts, as journal.Fold does.
func (n *Node) FoldBooks(ctx context.Context, until time.Time, moved func(at time.Time, h *books.Holder, currency string, m books.Movement)) (*books.Ledger, error) {
	return journal.Fold(ctx, n.Log, until, nil, moved)
}

// Balances returns the balances of the ledger accounts before a time, or now if it is zero.
func (n *Node) Balances(ctx context.Context, until time.Time) ([]books.Posting, error) {
	return journal.Balances(ctx, n.Log, until, nil)
}

// Ready returns why the node does not serve everything; "" if it does.
func (n *Node) Ready() string {
	s := n.readiness()
	if s.Status == statusReady {
		return ""
	}
	return cmp.Or(s.Reason, s.Status)
}
