package readapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"letterhead/commands"
	"letterhead/domain/billing"
	"letterhead/eventschemas"
	"letterhead/internal/requestbody"
	"letterhead/internal/stripeapi"
	"letterhead/internal/web"
)

const (
	// maxWebhookBody limits the body of a webhook.
	maxWebhookBody = 1 << 20
	// maxWebhooks limits the webhooks that are in progress at the same time.
	maxWebhooks = 64
	// webhookWithin limits the time in which the body of a webhook must arrive. Stripe sends it at once.
	webhookWithin = 10 * time.Second
	// maxCheckoutBody limits the body of a checkout.
	maxCheckoutBody = 4 << 10
)

const headerStripeSignature = "Stripe-Signature"

// Reports records the events of payment processors; *commands.Billing.
type Reports interface {
	Record(ctx context.Context, request commands.Request, report eventschemas.BillingReported) error
}

// Stripe is the payment processor; *stripeapi.Client.
type Stripe interface {
	CheckHeader(signature string) error
	Verify(body []byte, signature string) (stripeapi.Event, error)
	Checkout(ctx context.Context, in stripeapi.Checkout) (stripeapi.Session, error)
}

// webhookBody answers a webhook.
type webhookBody struct {
	Received bool `json:"received"`
	Ignored  bool `json:"ignored"` // the event needs no effect
}

// serveStripe answers POST /billing/stripe. The event is durable before the answer; Stripe sends it again until the
// answer is 200.
func (x *exchange) serveStripe() error {
	signature := x.request.Header.Get(headerStripeSignature)
	if err := x.api.Stripe.CheckHeader(signature); err != nil {
		return web.Invalid(webhookRejected, err)
	}
	place := x.api.webhooks.take(x.request.Body)
	if place == nil {
		return errTooManyWebhooks
	}
	defer x.api.webhooks.leave(place)
	x.limitBody(webhookWithin)
	body, err := io.ReadAll(http.MaxBytesReader(x.ResponseWriter, x.request.Body, maxWebhookBody))
	switch {
	case !x.api.webhooks.keep(place):
		// net/http treats any failed read as a disconnected client, but this client still reads.
		x.request = x.request.WithContext(context.WithoutCancel(x.request.Context()))
		return errTooManyWebhooks
	case errors.As(err, new(*http.MaxBytesError)):
		return web.Invalid("The body is larger than %d KiB, which no event of Stripe is.", maxWebhookBody>>10)
	case err != nil:
		return x.bodyProblem(err)
	}
	if coding := x.request.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return web.Invalid("The body has a Content-Encoding. Send the event as Stripe signed it, without one.")
	}
	event, err := x.api.Stripe.Verify(body, signature)
	if err != nil {
		return web.Invalid(webhookRejected, err)
	}
	report, ok := billing.FromStripe(billing.StripeEvent(event))
	if !ok {
		return x.sendJSON(cacheNever, webhookBody{Received: true, Ignored: true})
	}
	ctx, cancel := context.WithTimeout(x.request.Context(), x.api.quick)
	defer cancel()
	if err := x.api.Reports.Record(ctx, commands.Request{ID: x.ID, Actor: "system:stripe"}, report); err != nil {
		if errors.Is(err, eventschemas.ErrNotYet) {
			return unavailable("Webhooks are accepted when the operator has finished the upgrade of the service.",
				retryUnavailable, err)
		}
		return withoutCredits(problemOf(err, x.api.Now(), x.api.BillingURL))
	}
	return x.sendJSON(cacheNever, webhookBody{Received: true})
}

var errTooManyWebhooks = unavailable("Too many webhooks are being read. Send this one again.", retryBusy, errOverloaded)

// webhookPlaces limits the webhooks that are in progress. The signature of a webhook is known when its body has
// arrived, so clients without a secret could take all places with bodies that they withhold: if all are taken, the
// client that has sent its body for the longest time loses its place to the next one. It is safe for concurrent use.
type webhookPlaces struct {
	mu      sync.Mutex
	taken   int
	reading []*webhookPlace // the oldest first
}

type webhookPlace struct {
	body *pacedBody // nil: it is there already
	lost bool       // to another webhook
}

// take returns a place for a webhook, or nil if all are taken by webhooks whose bodies have arrived.
func (p *webhookPlaces) take(body io.ReadCloser) *webhookPlace {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken == maxWebhooks {
		if len(p.reading) == 0 {
			return nil
		}
		oldest := p.reading[0]
		oldest.lost = true
		oldest.body.cut()
		p.reading = slices.Delete(p.reading, 0, 1)
		p.taken--
	}
	place := &webhookPlace{}
	if paced, ok := body.(*pacedBody); ok {
		place.body = paced
		p.reading = append(p.reading, place)
	}
	p.taken++
	return place
}

// keep makes a place final, and reports false if it is lost.
func (p *webhookPlaces) keep(place *webhookPlace) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.reading, place); i >= 0 {
		p.reading = slices.Delete(p.reading, i, i+1)
	}
	return !place.lost
}

// leave ends the use of a place whose body was read.
func (p *webhookPlaces) leave(place *webhookPlace) {
	if p.keep(place) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken--
	}
}

const webhookRejected = "The webhook was rejected: %s."

// serveCheckout answers POST /v1/billing/checkout with a page on which the account's owner pays.
func (x *exchange) serveCheckout() error {
	body, err := requestbody.Read(x.ResponseWriter, x.request, maxCheckoutBody)
	switch {
	case errors.Is(err, requestbody.ErrTooLarge):
		return web.Invalid("The body is larger than %d KiB. Send an object such as %s.",
			maxCheckoutBody>>10, checkoutExample)
	case err != nil:
		return x.bodyProblem(err)
	}
	var sent map[string]any
	err = json.Unmarshal(body, &sent)
	pack, _ := sent["pack"].(string)
	price, _ := sent["price"].(string)
	if err != nil || len(sent) != 1 || pack+price == "" {
		return web.Invalid("The body must be a JSON object with either pack or price, such as %s.", checkoutExample)
	}
	checkout, problem := x.api.checkoutOf(x.caller.AccountID, pack, price)
	if problem != nil {
		return problem
	}
	session, err := x.api.Stripe.Checkout(x.ctx, checkout)
	switch {
	case errors.Is(err, stripeapi.ErrNoKey):
		return &Problem{Status: http.StatusNotFound, Code: CodeNotFound,
			Text: "This service does not sell credits over the API. Ask its operator for credits.", Cause: err}
	case err != nil:
		return unavailable("The payment processor did not create a page to pay on. Try again later.",
			retryUnavailable, err)
	}
	return x.sendJSON(cacheNever, session)
}

const checkoutExample = `{"pack":"small"}`

func (a *API) checkoutOf(accountID, pack, price string) (stripeapi.Checkout, *Problem) {
	offer, ok := a.Catalog.Offer(price)
	if pack != "" {
		offer, ok = a.Catalog.Pack(pack)
	}
	if !ok {
		return stripeapi.Checkout{}, &Problem{Status: http.StatusNotFound, Code: CodeNotFound,
			Text: "The service sells no such pack or price. Ask its operator for those that it sells."}
	}
	return commands.Checkout(offer, accountID, a.Catalog, a.BaseURL), nil
}
