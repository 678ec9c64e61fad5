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
	req, err := http.NewRequest(method, url, nil)
	testmust.Succeed(t, err)
	res, err := http.DefaultClient.Do(req)
	testmust.Succeed(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	testmust.Succeed(t, err)
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
