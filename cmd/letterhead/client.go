package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/internal/eventlog"
	"letterhead/internal/web"
	"letterhead/node"
	"letterhead/node/admin"
)

// client sends the requests of a command to the admin API: over the socket of the server that holds the data folder, or
// to the same handler in this process.
type client struct {
	ctx         context.Context
	transport   http.RoundTripper
	reads       bool // the command changes nothing, so it takes names and beginnings of ids of accounts
	cmd         *cobra.Command
	args        []string
	header      http.Header // of the last answer
	answer      []byte      // its body
	unconfirmed bool        // something was done, and not every node was seen to follow
	key         string      // of the act, so that a repeat does nothing twice; "" if each request has its own
	repeat      string      // how to try again, if running the same command again would do it twice
}

// onAPI runs a command that is a client of the admin API.
func (e *environment) onAPI(use node.Use, run func(*client) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx := streamwriter.WaitForLoading(cmd.Context())
		through := func(t http.RoundTripper) error {
			x := &client{ctx: ctx, transport: t, cmd: cmd, args: args}
			x.reads = use == node.ToRead && cmd.Annotations[appendsNothing] == ""
			err := run(x)
			if err == nil && x.unconfirmed {
				err = fmt.Errorf("it is recorded, but %w", commands.ErrNotSeen)
			}
			return err
		}
		inside := func(n *node.Node) error {
			api, err := n.CommandAPI(ctx)
			if err != nil {
				return err
			}
			return through(inProcess{api})
		}
		return e.on(use, node.OpenCurrent, inside,
			func(folder string) error { return through(admin.Transport(folder)) },
			func(c node.Command) error { return c.Do(ctx) })
	}
}

// inProcess sends requests to a handler in this process.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := web.NewAnswer()
	p.handler.ServeHTTP(w, r)
	return &http.Response{StatusCode: w.Status, Status: fmt.Sprint(w.Status, " ", http.StatusText(w.Status)),
		Header: w.Header(), Body: io.NopCloser(&w.Body), Request: r}, r.Context().Err()
}

// act makes a command send one request, which it makes from its arguments and flags, and print the answer. The path
// has the names of arguments and flags in braces. The other arguments, and the other flags that are set, are fields of
// the body or, with GET and DELETE, parameters of the query.
func act[T any](e *environment, c *cobra.Command, method, path string, print func(x *client, answer T) error) *cobra.Command {
	use := node.ToWrite
	if method == http.MethodGet || c.Annotations[appendsNothing] != "" {
		use = node.ToRead
	}
	key, repeatable := new(string), method == http.MethodPost && use == node.ToWrite &&
		c.Annotations[ifUnanswered] == ""
	if repeatable {
		key = c.Flags().String("repeat", "",
			"finish an interrupted command without doing anything twice; takes the key that it printed")
		notSent(c, "repeat")
	}
	if use == node.ToRead {
		e.completeAccounts(c, path)
	}
	c.RunE = e.onAPI(use, func(x *client) error {
		if id, err := uuid.Parse(*key); *key != "" && (err != nil || id.String() != *key) {
			return misuse("--repeat takes the key that an interrupted command printed")
		}
		x.key = cmp.Or(*key, uuid.NewString())
		if repeatable {
			x.repeat = "; to try again, repeat the command with --repeat " + x.key
			if end := c.Flags().Lookup("expires"); end != nil && end.Value.String() != "" { // it may count from now
				x.repeat += " --expires " + end.Value.String()
			}
		}
		var answer T
		if err := x.request(method, path, &answer); err != nil {
			return err
		}
		return print(x, answer)
	})
	return c
}

// The annotations of commands.
const (
	appendsNothing = "appends nothing" // it only reads the data folder, with POST
	ifUnanswered   = "if unanswered"   // what to do then, if running it again is not enough
)

// lost is what a repeated command prints for a secret, which only the first answer had.
func lost(what, id, group string) string {
	return fmt.Sprintf("The text of %s %s is lost, because it is not stored: revoke it and issue another "+
		"(letterhead %s revoke %[2]s)\n", what, id, group)
}

// show is act for a command that prints the answer as it is with --json.
func show[T any](e *environment, c *cobra.Command, method, path string, print func(x *client, answer T) error) *cobra.Command {
	asJSON := jsonFlag(c)
	return act(e, c, method, path, func(x *client, answer T) error {
		if *asJSON {
			return e.printf("%s", x.answer)
		}
		return print(x, answer)
	})
}

// The annotations of flags.
const (
	fieldOf = "field" // the name of the flag in a request, if it is another one
	local   = "local" // the flag is not sent
)

// named gives a flag another name in requests.
func named(c *cobra.Command, flag, field string) {
	_ = c.Flags().SetAnnotation(flag, fieldOf, []string{field}) // fails only for a flag that does not exist
}

// notSent keeps flags out of requests.
func notSent(c *cobra.Command, flags ...string) {
	for _, flag := range flags {
		_ = c.Flags().SetAnnotation(flag, local, nil) // as above
	}
}

func fieldName(f *pflag.Flag) string {
	if name := f.Annotations[fieldOf]; len(name) == 1 {
		return name[0]
	}
	return strings.ReplaceAll(f.Name, "-", "_")
}

var placeholder = regexp.MustCompile(`\{[^}]+\}`)

// argument returns an argument by its name in the usage line.
func (x *client) argument(name string) (value string, found bool) {
	i := slices.Index(strings.Fields(x.cmd.Use)[1:], name)
	if i < 0 || i >= len(x.args) {
		return "", false
	}
	return x.args[i], true
}

// fill puts arguments and flags into a path, and returns the others.
func (x *client) fill(path string) (filled string, rest map[string]any, err error) {
	used := map[string]bool{"json": true, "data": true}
	filled = placeholder.ReplaceAllStringFunc(path, func(name string) string {
		name = strings.Trim(name, "{}")
		used[name] = true
		value, isArgument := x.argument(name)
		option := name
		if !isArgument {
			option, value = "--"+name, x.cmd.Flags().Lookup(name).Value.String()
		}
		if err == nil && (name == "account" || strings.HasPrefix(path, "/admin/accounts/{"+name+"}")) {
			value, err = x.accountID(value)
		}
		switch {
		case err != nil:
		case value == "" && !isArgument:
			err = misuse("%s is needed%s", option, hints[name])
		case len(value) <= 2 && strings.Trim(value, ".") == "": // a path cannot have it
			err = misuse("%s is %q", option, value)
		}
		return url.PathEscape(value)
	})
	rest = map[string]any{}
	for i, name := range strings.Fields(x.cmd.Use)[1:] {
		if i < len(x.args) && !used[name] {
			rest[strings.ToLower(name)] = x.args[i]
		}
	}
	x.cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, isLocal := f.Annotations[local]; !isLocal && !used[f.Name] {
			rest[fieldName(f)] = valueOf(f)
		}
	})
	if id, isText := rest["account"].(string); isText && err == nil {
		rest["account"], err = x.accountID(id)
	}
	return filled, rest, err
}

// hints say where to find the values of flags.
var hints = map[string]string{"account": `; "letterhead account list" lists the accounts`}

// valueOf returns the value of a flag as JSON has it.
func valueOf(f *pflag.Flag) any {
	switch f.Value.Type() {
	case "bool", "int", "int64", "uint64":
		return json.RawMessage(f.Value.String())
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	if end, ok := f.Value.(*expiryFlag); ok && end.at.IsZero() {
		return nil
	}
	return f.Value.String()
}

// request sends the request of act, and decodes the answer.
func (x *client) request(method, path string, answer any) error {
	at, rest, err := x.fill(path)
	switch {
	case err != nil:
		return err
	case method == http.MethodGet, method == http.MethodDelete:
		return x.call(method, withQuery(at, rest), nil, answer)
	}
	return x.call(method, at, rest, answer)
}

// withQuery adds parameters to a path. Empty ones are left out.
func withQuery(path string, query map[string]any) string {
	values := url.Values{}
	for name, value := range query {
		text := fmt.Sprint(value)
		if raw, ok := value.(json.RawMessage); ok {
			text = string(raw)
		}
		if text != "" {
			values.Set(name, text)
		}
	}
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	return path
}

// call sends a request, and decodes the answer.
func (x *client) call(method, path string, body, answer any) error {
	resp, err := x.send(method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if x.answer, err = io.ReadAll(resp.Body); err == nil {
		err = json.Unmarshal(x.answer, answer)
	}
	if err != nil {
		return x.unanswered(method, fmt.Errorf("read the answer of the server: %w", err))
	}
	return nil
}

// send sends a request, and returns the answer unless it is an error. The caller must close its body.
func (x *client) send(method, path string, body any) (*http.Response, error) {
	var sent io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(x.ctx, method, "http://localhost"+path, sent)
	if err != nil {
		return nil, err
	}
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", cmp.Or(x.key, uuid.NewString()))
	}
	resp, err := x.transport.RoundTrip(r)
	if err != nil {
		return nil, x.unanswered(method, err)
	}
	x.header = resp.Header
	x.unconfirmed = x.unconfirmed || resp.Header.Get("X-Unconfirmed") != ""
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer resp.Body.Close()
	var problem struct {
		Error struct{ Code, Message string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil || problem.Error.Message == "" {
		return nil, fmt.Errorf("the server answered %s on its admin socket; is it another release?", resp.Status)
	}
	err = &apiError{resp.StatusCode, problem.Error.Code, x.explain(problem.Error.Message)}
	if mayBeDone(err) {
		err = fmt.Errorf("%w%s", err, x.repeat)
	}
	if resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusRequestEntityTooLarge {
		err = usageError{Err: err}
	}
	return nil, err
}

// apiError is an error that the admin API answered.
type apiError struct {
	status        int
	code, message string
}

func (e *apiError) Error() string { return e.message }

// Is reports whether the error has the code of the target.
func (e *apiError) Is(target error) bool {
	return target == eventlog.ErrLoss && e.code == adminapi.CodeLogLost
}

// unansweredError means that a change has no answer, so that it may have been made.
type unansweredError struct{ error }

func (e *unansweredError) Unwrap() error { return e.error }

// unanswered explains what the error of a connection means for a command that changes something. repeat is as of a
// client.
func unanswered(cmd *cobra.Command, err error, repeat string) error {
	if errors.Is(err, admin.ErrNotReached) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted before the server answered")
	}
	then := cmp.Or(repeat, cmd.Annotations[ifUnanswered], "; run it again")
	return &unansweredError{fmt.Errorf("%w; it may have been carried out%s", err, then)}
}

// unanswered is the function of that name for a request that may have been sent.
func (x *client) unanswered(method string, err error) error {
	if method == http.MethodGet || x.cmd.Annotations[appendsNothing] != "" {
		return err
	}
	return unanswered(x.cmd, err, x.repeat)
}

// mayBeDone reports whether a request that failed may have been carried out.
func mayBeDone(err error) bool {
	if answered, ok := errors.AsType[*apiError](err); ok {
		return answered.status >= http.StatusInternalServerError && !errors.Is(err, eventlog.ErrLoss)
	}
	return errors.As(err, new(*unansweredError))
}

// invalidThing begins messages about values.
var invalidThing = regexp.MustCompile(`^Invalid (command|token|sign-in|settings of notices): `)

// fieldNamed finds the fields and parameters that a message names.
var fieldNamed = regexp.MustCompile(`\b[Tt]he (?:field|parameter)(?: [a-z_]+|s [^.]+)`)

var word = regexp.MustCompile(`[a-z_]+`)

// asOption returns the argument or the flag that becomes a field of the request.
func (x *client) asOption(field string) string {
	if name := strings.ToUpper(field); slices.Contains(strings.Fields(x.cmd.Use)[1:], name) {
		return name
	}
	option := field
	x.cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if fieldName(f) == field {
			option = "--" + f.Name
		}
	})
	return option
}

// inCommands are the operations that messages of the API name, as commands.
var inCommands = strings.NewReplacer(
	". GET /admin/accounts lists", `; "letterhead account list" lists`,
	". GET /admin/accounts/ID/keys lists", `; "letterhead key list --account ID" lists`,
	". GET /admin/payments lists", `; "letterhead payment list" lists`,
	". GET /admin/payments/ID shows", `; "letterhead payment show ID" shows`,
	". GET /admin/billing/inbox lists", `; "letterhead billing inbox" lists`,
	". GET /admin/projections lists", `; "letterhead projections list" lists`,
	". GET /admin/projections has", `; "letterhead projections list" has`,
	"No such payment", `there is no such payment; "letterhead payment list" lists the payments`,
	"No such token", `there is no such token; "letterhead admin token list" lists the tokens`,
	"The Idempotency-Key was used for another request. Send a new one with each new request, and the same one only to "+
		"repeat it", "--repeat has the key of another command",
	"The uncompressed body has", "the command has",
	"The path is", "an argument is",
	"Send account", "Give --account",
	"Send since:", "--since is needed:",
	"Leave out as_of", "Leave out --as-of",
	"repeating the request", "repeating the command",
	", with the same Idempotency-Key if it had one", "",
	"Send the request again", "Run the command again",
)

// isCapital reports whether a text begins with a capital, as the rest of an abbreviation does.
func isCapital(text string) bool { return text != "" && text[0] >= 'A' && text[0] <= 'Z' }

// explain returns a message of the API in the words of the command line.
func (x *client) explain(message string) string {
	message = fieldNamed.ReplaceAllStringFunc(message, func(found string) string {
		_, fields, _ := strings.Cut(found[len("the "):], " ")
		if options := word.ReplaceAllStringFunc(fields, x.asOption); options != fields {
			return options
		}
		return found
	})
	message = invalidThing.ReplaceAllString(strings.TrimSuffix(inCommands.Replace(message), "."), "")
	if first := message[:min(len(message), 1)]; first >= "A" && first <= "Z" && !isCapital(message[1:]) {
		message = strings.ToLower(first) + message[1:]
	}
	return message
}
