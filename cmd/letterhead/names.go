package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/commands"
	"letterhead/domain/notices"
	"letterhead/internal/accountnames"
	"letterhead/node"
)

// damagedName is a row of the table of holders that is not used.
type damagedName struct {
	ID   string `json:"id"` // with the escapes of a Go string, because damaged bytes may not be printable
	Is   string `json:"is"`
	Then string `json:"then"` // the command that sets it again
}

// damagedNameOf describes a row. Its id may be damaged, too.
func damagedNameOf(id string) damagedName {
	quoted := strconv.Quote(id)
	id = quoted[1 : len(quoted)-1]
	d := damagedName{id, "the name of an account's holder, a key or a token",
		"letterhead names repair '" + id + "' --name NAME"}
	if of, ok := strings.CutPrefix(id, accountnames.EmailPrefix); ok {
		account, person, named := strings.Cut(of, "/")
		d.Is, d.Then = "the address for sign-in links of account "+account, "letterhead account sign-in-email "+account
		if named {
			d.Is, d.Then = d.Is+", person "+person, d.Then+" --person "+person
		}
		d.Then += " --email ADDRESS"
	}
	for _, destination := range notices.Destinations {
		if account, ok := strings.CutPrefix(id, commands.DestinationID("", destination)); ok {
			d.Is = "the " + destination + " for notices of account " + account
			d.Then = "letterhead account notices " + account + " --" + destination + " …"
		}
	}
	return d
}

func namesCommand(e *environment) *cobra.Command {
	c := group("names", "List and repair damaged names and addresses", namesRepair(e))
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(node.ToRead, func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		_, damaged, err := n.Stores.Names.Check(ctx)
		if err != nil {
			return err
		}
		shown := newList(e.stdout, *asJSON, "ID\tIS\tSET IT AGAIN WITH")
		for _, id := range damaged {
			d := damagedNameOf(id)
			if err := shown.add(d, d.ID, d.Is, d.Then); err != nil {
				return err
			}
		}
		if err := shown.end(); err != nil || len(damaged) == 0 {
			return err
		}
		return fmt.Errorf("%d names or addresses are damaged", len(damaged))
	})
	return c
}

func namesRepair(e *environment) *cobra.Command {
	c := command("repair ID", "Set a damaged name again, or erase it")
	c.Annotations = map[string]string{ifUnanswered: `: run "letterhead names" to see`}
	name := c.Flags().String("name", "", "the name")
	erase := c.Flags().Bool("erase", false, "erase the row; its account, key or token is then shown with its id")
	c.RunE = e.onFolder(node.ToWrite, func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		id := args[0]
		if (*name == "") != *erase {
			return misuse("either --name or --erase is needed")
		}
		_, damaged, err := n.Stores.Names.Check(ctx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(damaged, func(d string) bool { return d == id || damagedNameOf(d).ID == id })
		if at < 0 {
			return fmt.Errorf("no damaged name has the id %q; \"letterhead names\" lists the damaged ones", id)
		}
		id = damaged[at]
		if *erase {
			err = n.Stores.Names.Erase(ctx, id)
		} else if err = commands.CheckName("name", *name); err != nil {
			return misuse("--%s", strings.TrimPrefix(err.Error(), "the field "))
		} else if d := damagedNameOf(id); !strings.HasPrefix(d.Then, "letterhead names repair") {
			return misuse("it is %s; set it with %q", d.Is, d.Then)
		} else {
			err = n.Stores.Names.Put(ctx, id, *name)
		}
		if err != nil {
			return err
		}
		return e.printf("%q is repaired\n", id)
	})
	return c
}
