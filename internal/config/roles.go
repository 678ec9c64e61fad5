package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"letterhead/internal/eventlog/stores"
)

// Embedded is the value of a setting whose store is in the data folder or in the process.
const Embedded = "embedded"

// Role is a task of a process in a distributed installation. Any number of processes may have each role.
type Role string

// Every role also serves /healthz, /readyz and /metrics.
const (
	RoleAPI       Role = "api"       // serves clients; needs no internet access
	RoleCrawler   Role = "crawler"   // fetches sites; needs internet access
	RoleProjector Role = "projector" // folds the log into the read models and the search index; one process leads
	RoleRelay     Role = "relay"     // copies the log to the topics of the broker; one process leads each topic
	// ends overdue holds and crawls, and sends notices, for which it needs internet access; one process leads
	RoleSweeper   Role = "sweeper"
	RoleRefresher Role = "refresher" // requests crawls of old records; one process leads
)

// AllRoles returns all roles in the documented order.
func AllRoles() []Role {
	return []Role{RoleAPI, RoleCrawler, RoleProjector, RoleRelay, RoleSweeper, RoleRefresher}
}

func parseRoles(v string) ([]Role, error) {
	if v == "all" {
		return AllRoles(), nil
	}
	var roles []Role
	for part := range strings.SplitSeq(v, ",") {
		role := Role(strings.TrimSpace(part))
		if !slices.Contains(AllRoles(), role) {
			return nil, fmt.Errorf("%q is not a role; use all, or some of %v", role, AllRoles())
		}
		if !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	return roles, nil
}

// Has reports whether this process has a role.
func (c Config) Has(role Role) bool { return slices.Contains(c.Roles, role) }

// Shared reports whether other processes can use the same event log.
func (c Config) Shared() bool { return stores.Of(c.EventStore).Shared }

// check reports settings that contradict each other.
func (c Config) check() error {
	some := len(c.Roles) > 0 && len(c.Roles) < len(AllRoles()) // false if Roles could not be parsed
	var errs []error
	needs := func(missing bool, text string) {
		if missing {
			errs = append(errs, errors.New(text))
		}
	}
	needs(c.SMTP.IsSet() && c.MailFrom == nil,
		"LETTERHEAD_MAIL_FROM: e-mail needs a sender; set it, or remove LETTERHEAD_SMTP_URL")
	needs(!c.SMTP.IsSet() && c.MailFrom != nil,
		"LETTERHEAD_SMTP_URL: e-mail needs a mail server; set it, or remove LETTERHEAD_MAIL_FROM")
	if !c.Shared() {
		needs(some, "LETTERHEAD_ROLES: an event store in the data folder belongs to one process, which must have all roles; set LETTERHEAD_EVENTSTORE to an EventStoreDB to run them apart")
		return errors.Join(errs...)
	}
	needs(c.Database == Embedded,
		"LETTERHEAD_DATABASE: nodes that share an event store must share a database; set a postgres:// URL")
	needs(c.Assets == "", "LETTERHEAD_ASSETS: nodes that share an event store must share a bucket of assets; set an s3:// URL, or a file:/// URL of a folder that all of them see")
	if some {
		needs(c.Broker == Embedded,
			"LETTERHEAD_BROKER: roles that run apart need a broker between them; set a kafka:// URL")
		needs(c.Search == Embedded,
			"LETTERHEAD_SEARCH: roles that run apart must share a search index; set the URL of an Elasticsearch")
	}
	return errors.Join(errs...)
}

// CheckServe checks what `letterhead serve` needs in addition to other commands.
func (c Config) CheckServe() error {
	var errs []error
	if c.Shared() && c.Has(RoleAPI) && !c.baseURLSet {
		errs = append(errs, errors.New("LETTERHEAD_BASE_URL: nodes that share an event store answer with the same URLs; set how clients reach the service, such as the proxy's address"))
	}
	if c.MetricsListen == MetricsWithAdmin && c.AdminListen == "" {
		errs = append(errs, errors.New(
			"LETTERHEAD_METRICS_LISTEN: there is no admin API to serve metrics with; set LETTERHEAD_ADMIN_LISTEN"))
	}
	if c.Pprof && !c.OwnMetricsListen() {
		errs = append(errs, errors.New("LETTERHEAD_PPROF: profiles are not served where clients are; set LETTERHEAD_METRICS_LISTEN to an address that only operators reach, such as 127.0.0.1:9091"))
	}
	return errors.Join(errs...)
}

// OwnMetricsListen reports whether health and metrics have an address of their own.
func (c Config) OwnMetricsListen() bool {
	return c.MetricsListen != "" && c.MetricsListen != MetricsWithAPI && c.MetricsListen != MetricsWithAdmin
}

// RefusesUntilBegun reports whether clients cannot connect before the node can answer: a proxy repeats only that.
func (c Config) RefusesUntilBegun() bool { return c.Shared() && c.Has(RoleAPI) && c.OwnMetricsListen() }

// maxNode limits a node's name; longer host names are truncated.
const maxNode = 63

// hostName returns the host's name, reduced to the letters of a node's name.
func hostName() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "main"
	}
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(nodeLetters, r) {
			return r
		}
		return '-'
	}, name)
	return name[:min(len(name), maxNode)]
}
