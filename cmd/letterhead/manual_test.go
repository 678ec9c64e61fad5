package main

import (
	"bytes"
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"letterhead/internal/testmust"
)

// make release keeps what the test writes.
var manualFolder = flag.String("manual", "", "absolute path of a folder for man pages and completions")

func TestManual_EveryCommand_HasPageAndCompletion(t *testing.T) {
	folder := cmp.Or(*manualFolder, t.TempDir())
	pages := filepath.Join(folder, "man1")
	testmust.Succeed(t, os.MkdirAll(pages, 0o755))
	root := newRoot(&environment{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}})
	root.DisableAutoGenTag = true // it has the day of the build
	header := &doc.GenManHeader{Section: "1", Source: "Letterhead " + version, Manual: "Letterhead"}
	testmust.Succeed(t, doc.GenManTree(root, header, pages))
	testmust.Succeed(t, root.GenBashCompletionFileV2(filepath.Join(folder, "letterhead.bash"), true))
	testmust.Succeed(t, root.GenZshCompletionFile(filepath.Join(folder, "letterhead.zsh")))
	testmust.Succeed(t, root.GenFishCompletionFile(filepath.Join(folder, "letterhead.fish"), true))
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if !c.IsAvailableCommand() && c != root {
			return
		}
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		page := string(testmust.Get(os.ReadFile(filepath.Join(pages, name)))(t))
		if !strings.Contains(page, ".SH NAME") || !strings.Contains(page, ".SH SYNOPSIS") {
			t.Errorf("%s has no name and synopsis:\n%s", name, page)
		}
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(root)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := testmust.Get(os.ReadFile(filepath.Join(folder, "letterhead."+shell)))(t)
		if !bytes.Contains(script, []byte("__complete")) {
			t.Errorf("the completion for %s does not ask the program", shell)
		}
	}
}
