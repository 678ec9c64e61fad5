package e2e

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"letterhead/internal/testmust"
)

var (
	formField  = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
	formAction = regexp.MustCompile(`<form [^>]*action="([^"]*)"`)
)

// The first start leaves a link to the dashboard, which signs in once.
func TestFirstStart_SignInLink_SignsInOnce(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	n := launch(t, data)
	link := linkOfFirstStart(t, n, data, "dashboard")
	for range 2 { // looking at the link does not use it up
		if page, response := visit(t, http.MethodGet, link, nil, nil); response.StatusCode != http.StatusOK || !strings.Contains(page, "<button") || len(response.Cookies()) > 0 {
			t.Fatalf("status %d, cookies %v:\n%s", response.StatusCode, response.Cookies(), page)
		}
	}
	page, _ := visit(t, http.MethodGet, link, nil, nil)
	form := url.Values{}
	for _, field := range formField.FindAllStringSubmatch(page, -1) {
		form.Set(html.UnescapeString(field[1]), html.UnescapeString(field[2]))
	}
	action := n.url + html.UnescapeString(formAction.FindStringSubmatch(page)[1])
	_, entered := visit(t, http.MethodPost, action, form, nil)
	if entered.StatusCode != http.StatusSeeOther || len(entered.Cookies()) != 1 {
		t.Fatalf("status %d, cookies %v", entered.StatusCode, entered.Cookies())
	}
	if page, response := visit(t, http.MethodGet, n.url+"/dashboard", nil, entered.Cookies()); response.StatusCode != http.StatusOK || !strings.Contains(page, "50") {
		t.Errorf("the dashboard: status %d:\n%s", response.StatusCode, page)
	}
	if _, response := visit(t, http.MethodPost, action, form, nil); response.StatusCode == http.StatusSeeOther || len(response.Cookies()) > 0 {
		t.Errorf("the link was used again: status %d, cookies %v", response.StatusCode, response.Cookies())
	}

	n.stop()
	again := start(t, data)
	again.out.waitFor(t, `dashboard .*account login-link --account`, again.done)
	if _, response := visit(t, http.MethodGet, again.url+"/dashboard", nil, entered.Cookies()); response.StatusCode != http.StatusOK {
		t.Errorf("after a restart the session is not open: status %d", response.StatusCode)
	}
}

// The first start leaves a link to the operators' console, which admits an administrator.
// Rule 13.
func TestFirstStart_OperatorLink_IsInAFileOfItsOwner(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	n := launch(t, data, "LETTERHEAD_STARTER=off")
	admin := n.out.waitFor(t, `admin API\s+(http://\S+)/admin/`, n.done)[1]
	link := linkOfFirstStart(t, n, data, "operators")
	if !strings.HasPrefix(link, admin+"/sign-in?token=") {
		t.Errorf("the link leads to %.40s", link)
	}
	u, err := url.Parse(link)
	testmust.Succeed(t, err)
	form := url.Values{"token": {u.Query().Get("token")}}
	if page, resp := visit(t, http.MethodGet, link, nil, nil); resp.StatusCode != http.StatusOK || !strings.Contains(page, "Sign in as an operator") || len(resp.Cookies()) > 0 {
		t.Errorf("the link answers %d with the cookies %v:\n%s", resp.StatusCode, resp.Cookies(), page)
	}
	_, signedIn := visit(t, http.MethodPost, admin+"/sign-in", form, nil)
	if signedIn.StatusCode != http.StatusSeeOther || len(signedIn.Cookies()) != 1 {
		t.Fatalf("the button of the link answers %d with the cookies %v", signedIn.StatusCode, signedIn.Cookies())
	}
	cookies := signedIn.Cookies()
	if page, resp := visit(t, http.MethodGet, admin+"/accounts", nil, cookies); resp.StatusCode != http.StatusOK || !strings.Contains(page, "first account") {
		t.Errorf("the page of accounts answers %d:\n%s", resp.StatusCode, page)
	}
	for _, path := range []string{"/accounts", "/books", "/operators", "/sign-in"} {
		if _, resp := visit(t, http.MethodGet, n.url+path, nil, cookies); resp.StatusCode != http.StatusNotFound {
			t.Errorf("the public address answers %s with %d, want %d", path, resp.StatusCode, http.StatusNotFound)
		}
	}
	if _, resp := visit(t, http.MethodPost, admin+"/sign-in", form, nil); resp.StatusCode != http.StatusGone || len(resp.Cookies()) > 0 {
		t.Errorf("the used link answers %d with the cookies %v", resp.StatusCode, resp.Cookies())
	}
	out, errs, code := letterhead(t, data, "admin", "login-link", "--operator", "Jane", "--scope", "read")
	if code != 0 || !strings.HasPrefix(out, admin+"/sign-in?token=") || strings.Count(out, "\n") != 1 {
		t.Errorf("admin login-link ended with %d: %.40s\n%s", code, out, errs)
	}
	n.stop()
	again := start(t, data)
	again.out.waitFor(t, `operators .*admin login-link --operator NAME --scope admin`, again.done)
}

// linkOfFirstStart returns the link that the first start of a server without a terminal has written to a file, which the
// line of a name in its output names.
func linkOfFirstStart(t *testing.T, n *node, data, name string) string {
	t.Helper()
	file := n.out.waitFor(t, `(?m)^  `+name+`\s+(\S+)   \(signs in once`, n.done)[1]
	n.listening()
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || filepath.Dir(file) != data {
		t.Errorf("the file of the link is %s: %v, %v, want mode 0600 in the data folder", file, info, err)
	}
	text, err := os.ReadFile(file)
	testmust.Succeed(t, err)
	link := strings.TrimSuffix(string(text), "\n")
	if strings.Contains(n.out.String(), link) {
		t.Error("the output is not a terminal, but the link was printed")
	}
	return link
}

// visit sends a request as a browser does, without following redirects, and returns the page.
func visit(t *testing.T, method, address string, form url.Values, cookies []*http.Cookie) (string, *http.Response) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	testmust.Succeed(t, err)
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range cookies {
		request.AddCookie(c)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	testmust.Succeed(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	testmust.Succeed(t, err)
	return string(body), response
}
