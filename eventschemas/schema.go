package eventschemas

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed schemas
var embedded embed.FS

// schemaBase makes the file names absolute, which references between schemas require. No server has this URL.
const schemaBase = "https://letterhead.invalid/events/"

func schemaDir() fs.FS {
	dir, err := fs.Sub(embedded, "schemas")
	if err != nil {
		panic(err) // the name is a constant of an embedded file
	}
	return dir
}

// schemaFile returns the name of the schema file of one version of a type.
func schemaFile(eventType string, version int) string {
	return fmt.Sprintf("%s.v%d.json", eventType, version)
}

// compileSchemas compiles the schema of every version of every type. A version without a file is
// skipped; Check reports it.
func (r *Registry) compileSchemas() (map[string]*jsonschema.Schema, error) {
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	compiler.UseLoader(noRemoteSchemas{})
	files, err := r.schemaDocuments()
	if err != nil {
		return nil, err
	}
	for name, doc := range files {
		if err := compiler.AddResource(schemaBase+name, doc); err != nil {
			return nil, fmt.Errorf("schema %s: %w", name, err)
		}
	}
	out := make(map[string]*jsonschema.Schema)
	for _, name := range r.names {
		for v := 1; v <= r.byName[name].version(); v++ {
			file := schemaFile(name, v)
			if _, ok := files[file]; !ok {
				continue
			}
			schema, err := compiler.Compile(schemaBase + file)
			if err != nil {
				return nil, fmt.Errorf("schema %s: %w", file, err)
			}
			out[file] = schema
		}
	}
	return out, nil
}

// schemaDocuments reads every schema file, by its path below the folder.
func (r *Registry) schemaDocuments() (map[string]any, error) {
	out := make(map[string]any)
	err := fs.WalkDir(r.files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".json" {
			return err
		}
		data, err := fs.ReadFile(r.files, name)
		if err != nil {
			return err
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
		if err != nil {
			return fmt.Errorf("schema %s: %w", name, err)
		}
		out[name] = doc
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read schemas: %w", err)
	}
	return out, nil
}

// noRemoteSchemas rejects schemas that are not among the files, so that a reference never causes a request.
type noRemoteSchemas struct{}

func (noRemoteSchemas) Load(url string) (any, error) {
	return nil, fmt.Errorf("schema %s is not among the schema files", url)
}
