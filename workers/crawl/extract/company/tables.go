package company

import (
	_ "embed"

	"letterhead/workers/crawl/table"
)

//go:embed tables.txt
var tablesText string

// tables has the section of each variable that is read from tables.txt.
var tables = table.Must(tablesText)
