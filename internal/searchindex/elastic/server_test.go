package elastic_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"letterhead/internal/searchindex"
	"letterhead/internal/testmust"
)

// version follows an alias in the names in the cluster.
var version = fmt.Sprintf("_v%d", searchindex.Analysis)

// call calls the cluster directly, like an operator.
func call(t testing.TB, method, url, body string) (int, []byte) {
	t.Helper()
	req := testmust.Get(http.NewRequest(method, url, strings.NewReader(body)))(t)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	defer res.Body.Close()
	answer := testmust.Get(io.ReadAll(res.Body))(t)
	return res.StatusCode, answer
}

// must is like call but fails the test on an error.
func must(t testing.TB, method, url, body string) []byte {
	t.Helper()
	status, answer := call(t, method, url, body)
	if status >= 300 {
		t.Fatalf("%s %s: %d %s; want less than 300", method, url, status, answer)
	}
	return answer
}

type entry struct {
	Name    string
	Aliases []string
}

// indices lists the indices and aliases of an alias in the cluster.
func indices(t testing.TB, server, alias string) []entry {
	t.Helper()
	var found struct{ Indices []entry }
	testmust.Succeed(t, json.Unmarshal(must(t, "GET", server+"/_resolve/index/"+alias+"*?expand_wildcards=all", ""), &found))
	return found.Indices
}

func wipe(t testing.TB, server, alias string) {
	for _, i := range indices(t, server, alias) {
		must(t, "DELETE", server+"/"+i.Name, "")
	}
	call(t, "DELETE", server+"/_index_template/"+alias+version, "")
}
