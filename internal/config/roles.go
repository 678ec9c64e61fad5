package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Embedded is the value of a setting whose part lives in the data folder, or in the process.
const Embedded = "embedded"

// Role is what a process of the distributed shape does. Any number of processes may have each role.
type Role string

// Roles. Every role also serves /healthz, /readyz and /metrics.
const (
	RoleAPI       Role = "api"       // answers clients; needs no way out to the internet
	RoleCrawler   Role = "crawler"   // fetches sites; the only one that needs a way out
	RoleProjector Role = "projector" // folds the log into the read models and the search index; one leads
	RoleRelay     Role = "relay"     // copies the log to the broker's lanes; one leads each lane
	RoleSweeper   Role = "sweeper"   // ends overdue holds and crawls; one leads
	RoleRefresher Role = "refresher" // asks for crawls of records that grow old; one leads
)

// AllRoles are the roles in the order in which they are documented.
func AllRoles() []Role {
	return []Role{RoleAPI, RoleCrawler, RoleProjector, RoleRelay, RoleSweeper, RoleRefresher}
}

func parseRoles(v string) ([]Role, error) {
	if v == "all" {
		return AllRoles(), nil
	}
	var roles []Role
	for _, part := range strings.Split(v, ",") {
		role := Role(strings.TrimSpace(part))
		if !slices.Contains(AllRoles(), role) {
			return nil, fmt.Errorf("%q is no role; roles are all, or some of %v", role, AllRoles())
		}
		if !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	return roles, nil
}

// Has says whether this process has a role.
func (c Config) Has(role Role) bool { return slices.Contains(c.Roles, role) }

// Shared says that other processes serve from the same event log.
func (c Config) Shared() bool { return c.EventStore != Embedded }

// check reports settings that do not go together.
func (c Config) check() error {
	some := len(c.Roles) > 0 && len(c.Roles) < len(AllRoles()) // none when they could not be read
	var errs []error
	needs := func(missing bool, text string) {
		if missing {
			errs = append(errs, errors.New(text))
		}
	}
	if !c.Shared() {
		needs(some, "LETTERHEAD_ROLES: an event store in the data folder belongs to one process, which must have all roles; set LETTERHEAD_EVENTSTORE to an EventStoreDB to run them apart")
		return errors.Join(errs...)
	}
	needs(c.Database == Embedded, "LETTERHEAD_DATABASE: nodes that share an event store must share a database; set a postgres:// URL")
	needs(c.Assets == "", "LETTERHEAD_ASSETS: nodes that share an event store must share a bucket of assets; set an s3:// URL, or a file:/// URL of a folder that all of them see")
	if some {
		needs(c.Broker == Embedded, "LETTERHEAD_BROKER: roles that run apart need a broker between them; set a kafka:// URL")
		needs(c.Search == Embedded, "LETTERHEAD_SEARCH: roles that run apart must share a search index; set the URL of an Elasticsearch")
	}
	return errors.Join(errs...)
}

// CheckServe reports what `letterhead serve` needs beside what every command needs.
func (c Config) CheckServe() error {
	var errs []error
	if c.Shared() && c.Has(RoleAPI) && !c.baseURLSet {
		errs = append(errs, errors.New("LETTERHEAD_BASE_URL: nodes that share an event store answer with the same URLs; set how clients reach the service, such as the proxy's address"))
	}
	if c.Pprof && (c.MetricsListen == "" || c.MetricsListen == MetricsWithAPI) {
		errs = append(errs, errors.New("LETTERHEAD_PPROF: profiles are not served where clients are; set LETTERHEAD_METRICS_LISTEN to an address that only operators reach, such as 127.0.0.1:9091"))
	}
	return errors.Join(errs...)
}

// maxNode bounds a node's name; longer host names are cut.
const maxNode = 63

// hostName returns the host's name in the letters that a node's name may have.
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
