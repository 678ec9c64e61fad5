package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"letterhead/node/datafolder"
)

// version is the release of this source. The Makefile reads this line.
const version = "0.1.0"

// commit is the commit of this source. The linker sets it (see Makefile and deploy/Dockerfile).
var commit = "unknown"

func versionCommand(e *environment) *cobra.Command {
	c := command("version", "Print the version")
	asJSON := jsonFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		object := map[string]any{"version": version, "commit": commit, "go": runtime.Version(),
			"data_format": datafolder.Format}
		return e.print(*asJSON, object, "%s", versionLine())
	}
	return c
}

// versionLine returns the output of the command version and the flag --version.
func versionLine() string {
	return fmt.Sprintf("letterhead %s (commit %s, %s, data format %d)\n", version, commit, runtime.Version(),
		datafolder.Format)
}
