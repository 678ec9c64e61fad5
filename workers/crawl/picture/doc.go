// Package picture finds a brand's logos: it lists what a page offers as one, reads the files, tells what
// each shows, drops what shows the same twice or nothing, and stores the rest in the formats that are
// served. It fetches nothing itself.
package picture
