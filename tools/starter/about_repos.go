package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// all-the-package-repos lists the repositories of npm's packages.
const (
	packageRepos        = "all-the-package-repos"
	packageReposVersion = "2.0.3148"
)

const (
	// fewestPackages is the number of packages in a scope from which a scope and an account on GitHub with the
	// same name count as one organization.
	fewestPackages = 3
	// maxRepos limits the package's file, in bytes.
	maxRepos = 1 << 30
)

// gitHubRepo matches the account in a URL of a repository on GitHub.
var gitHubRepo = regexp.MustCompile(`^https://github\.com/([A-Za-z0-9-]+)/`)

// othersAccounts have the name of a brand but belong, or may belong, to others. A review of all matches found them.
var othersAccounts = hostSet("backstage globus magic oxc rive rtm turborepo wyze")

// readRepos returns the accounts on GitHub that have the name of a scope of npm and repositories of at least
// fewestPackages of its packages, in lower case.
func readRepos(folder string) (map[string]bool, error) {
	if err := checkVersion(folder, packageRepos, packageReposVersion); err != nil {
		return nil, err
	}
	path := filepath.Join(folder, "data", "packages.json")
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read source: %w", err)
	}
	defer f.Close()
	count := map[string]int{}
	in := json.NewDecoder(io.LimitReader(f, maxRepos)) // a stream, because the file has four million entries
	if _, err := in.Token(); err != nil {
		return nil, fmt.Errorf("read source %s: %w", path, err)
	}
	for in.More() {
		var repo *string
		name, err := in.Token()
		if err == nil {
			err = in.Decode(&repo)
		}
		if err != nil {
			return nil, fmt.Errorf("read source %s: %w", path, err)
		}
		scope, _, scoped := strings.Cut(strings.TrimPrefix(fmt.Sprint(name), "@"), "/")
		if repo == nil || !scoped {
			continue
		}
		if m := gitHubRepo.FindStringSubmatch(*repo); m != nil && strings.EqualFold(m[1], scope) {
			count[strings.ToLower(scope)]++
		}
	}
	if len(count) == 0 {
		return nil, missing(path, "repositories")
	}
	out := map[string]bool{}
	for account, n := range count {
		if n >= fewestPackages && !othersAccounts[account] {
			out[account] = true
		}
	}
	return out, nil
}

// accounts returns the account on GitHub of each brand whose name, domain and account are one word.
func accounts(brands map[string]string, known map[string]bool) []statement {
	var out []statement
	for domain, name := range brands {
		label, _ := labels(domain)
		if label == flat(name) && known[label] {
			out = append(out, statement{
				Source: packageRepos + " " + packageReposVersion, Method: "npm scope and account", Confidence: 0.85,
				Domain: domain, Name: name, Links: []string{"https://github.com/" + label},
			})
		}
	}
	return out
}
