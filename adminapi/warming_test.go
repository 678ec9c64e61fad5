package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/operations"
)

func listBody(t *testing.T, text string) string {
	t.Helper()
	return string(testmust.Get(json.Marshal(map[string]string{"list": text}))(t))
}

func TestWarming_NonsenseInList_IsCountedWithLines(t *testing.T) {
	s := start(t)
	s.get("/admin/crawls/warming").rejected(http.StatusNotFound, "No list")
	text := "\ufeffCompany;Website\r\nAcme;ACME.com\r\nAcme 2;https://www.acme.com/about\r\n\r\nServer;192.0.2.7\r\nMail;jane@example.org\r\nBücher;bücher.example.com\r\nIDN;münchen.de\r\nNothing\r\nHost;localhost\r\n\"Quoted; Inc\";\"quoted.net\"\r\n"
	var w operations.Warmed
	s.post("/admin/crawls/warming", listBody(t, text)).want(http.StatusAccepted, &w)
	if w.Accepted != 5 || w.Duplicates != 1 || w.Rejected != 3 || len(w.First) != 3 || w.First[0].Line != 5 || w.First[0].Text != "192.0.2.7" || !strings.Contains(w.First[0].Reason, "IP address") || w.First[1].Line != 9 || w.First[2].Line != 10 {
		t.Errorf("the answer is %+v %+v", w, w.DomainList)
	}
	var now operations.Warmed
	s.get("/admin/crawls/warming").want(http.StatusOK, &now)
	if now.ID != w.ID || now.State != "running" || now.Accepted != 5 || now.DomainList != nil {
		t.Errorf("the progress is %+v", now)
	}
}

func TestWarming_Began_SecondConflictsUntilCancelled(t *testing.T) {
	s := start(t)
	first := request{method: "POST", path: "/admin/crawls/warming", body: listBody(t, "acme.com\n"), key: "first"}
	var w, again operations.Warmed
	s.send(first).want(http.StatusAccepted, &w)
	if s.send(first).want(http.StatusAccepted, &again); again.ID != w.ID || again.Rejected != 0 {
		t.Errorf("the repeat is %+v, want %s", again, w.ID)
	}
	s.post("/admin/crawls/warming", listBody(t, "example.org")).rejected(http.StatusConflict, "cancel it")
	s.send(request{method: "DELETE", path: "/admin/crawls/warming"}).want(http.StatusOK, &again)
	if again.State != "cancelled" {
		t.Errorf("the list is %+v", again)
	}
	s.send(request{method: "DELETE", path: "/admin/crawls/warming"}).rejected(http.StatusNotFound, "No list")
	if s.send(first).want(http.StatusAccepted, &again); again.State != "cancelled" {
		t.Errorf("the repeat after the end began %+v", again)
	}
	s.post("/admin/crawls/warming", listBody(t, "example.org")).want(http.StatusAccepted, &again)
	if again.State != "running" || again.ID == w.ID {
		t.Errorf("the second list is %+v", again)
	}
}

func TestWarming_UnusableList_IsRejected(t *testing.T) {
	s := start(t)
	var long strings.Builder
	for i := range 100_001 {
		fmt.Fprintf(&long, "d%d.com\n", i)
	}
	for text, part := range map[string]string{"": "no lines", "domain\n\n": "no lines", "\n10.0.0.1\nx\n": "line 2", long.String(): "100001 domains"} {
		s.post("/admin/crawls/warming", listBody(t, text)).rejected(http.StatusBadRequest, part)
	}
	s.post("/admin/crawls/warming", listBody(t, strings.Repeat("x", 9<<20))).rejected(http.StatusRequestEntityTooLarge, "bytes")
	var w operations.Warmed
	s.post("/admin/crawls/warming", listBody(t, strings.TrimSuffix(long.String(), "d100000.com\n"))).want(http.StatusAccepted, &w)
	if w.Accepted != 100_000 {
		t.Errorf("accepted %d", w.Accepted)
	}
}
