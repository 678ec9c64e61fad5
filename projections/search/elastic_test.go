package search_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"letterhead/internal/testmust"
)

// call sends a request to the cluster, bypassing the index, to clean up.
func call(t *testing.T, method, url string) []byte {
	t.Helper()
	req := testmust.Get(http.NewRequest(method, url, nil))(t)
	res := testmust.Get(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	body := testmust.Get(io.ReadAll(res.Body))(t)
	return body
}

func elasticNames(t *testing.T, server, alias string) []string {
	t.Helper()
	var found struct{ Indices []struct{ Name string } }
	testmust.Succeed(t, json.Unmarshal(call(t, "GET", server+"/_resolve/index/"+alias+"*"), &found))
	var names []string
	for _, i := range found.Indices {
		names = append(names, i.Name)
	}
	return names
}
