// Package stripeapi verifies webhooks of Stripe and creates sessions of its payment page and customer portal, with
// Stripe's own library.
//
// It connects only to the address that the operator set, which may be private.
package stripeapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/stripe/stripe-go/v82"
	"github.com/stripe/stripe-go/v82/webhook"
)

const (
	// DefaultURL is the address of Stripe's API.
	DefaultURL = stripe.APIURL
	// Tolerance is how old the signature of a webhook may be, and how far in the future, because clocks differ.
	Tolerance = webhook.DefaultTolerance
	// callTime limits a call of the API, with its repeats.
	callTime = 20 * time.Second
	// callRepeats is how often a call that failed is repeated; Stripe recognizes the repeats.
	callRepeats = 2
)

var (
	// ErrNoSecret means that no secret of webhooks is configured.
	ErrNoSecret = errors.New(
		"no webhook secret is configured: set LETTERHEAD_STRIPE_WEBHOOK_SECRET to the signing secret of the endpoint")
	// ErrHeader means that the header Stripe-Signature cannot be read.
	ErrHeader = errors.New("the header Stripe-Signature is missing or has no time and signature")
	// ErrSignature means that a webhook is not signed with any of the secrets.
	ErrSignature = errors.New("the signature is not that of the body")
	// ErrTooOld means that the signature of a webhook is older than Tolerance.
	ErrTooOld = errors.New("the signature is older than 5 minutes")
	// ErrTooNew means that the time of a webhook's signature is further in the future than Tolerance. It could be sent
	// again for as long.
	ErrTooNew = errors.New(
		"the time of the signature is more than 5 minutes in the future; set the clock of this machine")
	// ErrNotEvent means that the signed body is not an event.
	ErrNotEvent = errors.New("the body is not an event")
	// ErrNoKey means that no key of the API is configured.
	ErrNoKey = errors.New("no key of Stripe is configured: set LETTERHEAD_STRIPE_KEY")
	// ErrNotAllowed means that the key is a restricted one that lacks a permission.
	ErrNotAllowed = errors.New("the key of Stripe lacks the permission")
)

// Config of a Client.
type Config struct {
	Secrets []string // of webhooks; several during a rotation
	Key     string
	URL     string // DefaultURL if empty
}

// Client is safe for concurrent use.
type Client struct {
	cfg Config
	api stripe.Backend
}

// New returns a client.
func New(cfg Config) *Client {
	c := &Client{cfg: cfg}
	if cfg.Key == "" {
		return c
	}
	cfg.URL = cmp.Or(cfg.URL, DefaultURL)
	c.api = stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
		URL: stripe.String(cfg.URL), HTTPClient: &http.Client{Timeout: callTime},
		MaxNetworkRetries: stripe.Int64(callRepeats), EnableTelemetry: new(false),
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})
	return c
}

// call sends a request with the library. The calls of stripe.Client would link the types of the whole API.
func (c *Client) call(method, path string, params stripe.ParamsContainer, answer stripe.LastResponseSetter) error {
	if c.api == nil {
		return ErrNoKey
	}
	return c.api.Call(method, path, c.cfg.Key, params, answer)
}

// session is a session of the payment page or of the customer portal, or a price, which has no URL.
type session struct {
	stripe.APIResource
	ID  string `json:"id"`
	URL string `json:"url"`
}

// Event is an event whose signature was verified.
type Event struct {
	ID         string
	Type       string
	APIVersion string
	Created    int64  // Unix seconds
	Object     []byte // JSON
}

// CheckHeader returns an error if no body can have this header Stripe-Signature. It needs no body, so that one need not
// be read. Errors: ErrNoSecret, ErrHeader, ErrTooOld, ErrTooNew.
func (c *Client) CheckHeader(signature string) error {
	if len(c.cfg.Secrets) == 0 {
		return ErrNoSecret
	}
	// The library checks the age after it has read the header, and before the signature: any header is too old for the
	// first tolerance.
	if !errors.Is(webhook.ValidatePayloadWithTolerance(nil, signature, "", math.MinInt64), webhook.ErrTooOld) {
		return ErrHeader
	}
	if errors.Is(webhook.ValidatePayloadWithTolerance(nil, signature, "", Tolerance), webhook.ErrTooOld) {
		return ErrTooOld
	}
	if tooNew(signature) {
		return ErrTooNew
	}
	return nil
}

// tooNew reports whether the time in a header that can be read is too far in the future: it is not older than a
// tolerance below zero.
func tooNew(signature string) bool {
	return !errors.Is(webhook.ValidatePayloadWithTolerance(nil, signature, "", -Tolerance), webhook.ErrTooOld)
}

// Verify returns the event of a webhook, of any API version. signature is the header Stripe-Signature. Errors:
// ErrNoSecret, ErrSignature, ErrTooOld, ErrTooNew, ErrNotEvent.
func (c *Client) Verify(body []byte, signature string) (Event, error) {
	failed := ErrNoSecret
	for _, secret := range c.cfg.Secrets {
		e, err := webhook.ConstructEventWithOptions(body, signature, secret,
			webhook.ConstructEventOptions{Tolerance: Tolerance, IgnoreAPIVersionMismatch: true})
		switch {
		case err == nil && tooNew(signature):
			return Event{}, ErrTooNew
		case err == nil && e.Data != nil:
			return Event{ID: e.ID, Type: string(e.Type), APIVersion: e.APIVersion, Created: e.Created,
				Object: e.Data.Raw}, nil
		case errors.Is(err, webhook.ErrTooOld):
			failed = ErrTooOld
		case errors.Is(err, webhook.ErrNoValidSignature), errors.Is(err, webhook.ErrNotSigned),
			errors.Is(err, webhook.ErrInvalidHeader):
			if !errors.Is(failed, ErrTooOld) {
				failed = ErrSignature
			}
		default:
			return Event{}, ErrNotEvent
		}
	}
	return Event{}, failed
}

// Checkout describes a checkout session.
type Checkout struct {
	Price        string
	Subscription bool
	AccountID    string
	Customer     string            // the one that pays; a new one if it is empty
	Metadata     map[string]string // of the session, and of the subscription, or of the payment and its invoice
	SuccessURL   string
	CancelURL    string
	Page         Page
}

// Page is what the page of a checkout session does.
type Page struct {
	AutomaticTax   bool
	TaxIDs         bool // takes the tax id of a new customer; Stripe would overwrite the name of another one
	Address        bool // always asks for a billing address
	PromotionCodes bool
	Invoices       bool // of payments; subscriptions always have them
}

// Session is a checkout session.
type Session struct {
	ID  string `json:"id"`
	URL string `json:"url"` // where the customer pays
}

// Checkout creates a checkout session. Errors: ErrNoKey, and the errors of Stripe's library.
func (c *Client) Checkout(ctx context.Context, in Checkout) (Session, error) {
	params := &stripe.CheckoutSessionCreateParams{
		Params: stripe.Params{Context: ctx}, ClientReferenceID: stripe.String(in.AccountID),
		SuccessURL: stripe.String(in.SuccessURL), Metadata: in.Metadata,
		LineItems: []*stripe.CheckoutSessionCreateLineItemParams{{Price: stripe.String(in.Price),
			Quantity: stripe.Int64(1)}},
	}
	if in.Page.AutomaticTax { // otherwise the setting of the Stripe account applies
		params.AutomaticTax = &stripe.CheckoutSessionCreateAutomaticTaxParams{Enabled: new(true)}
	}
	if in.Page.PromotionCodes {
		params.AllowPromotionCodes = new(true)
	}
	if in.Page.Address {
		params.BillingAddressCollection = stripe.String(stripe.CheckoutSessionBillingAddressCollectionRequired)
	}
	switch {
	case in.Customer == "" && in.Page.TaxIDs:
		params.TaxIDCollection = &stripe.CheckoutSessionCreateTaxIDCollectionParams{Enabled: new(true)}
	case in.Customer != "":
		params.Customer = stripe.String(in.Customer)
		if in.Page.AutomaticTax { // Stripe requires that the page may save the address that determines the tax
			params.CustomerUpdate = &stripe.CheckoutSessionCreateCustomerUpdateParams{Address: stripe.String("auto")}
		}
	}
	if in.CancelURL != "" {
		params.CancelURL = stripe.String(in.CancelURL)
	}
	if in.Subscription {
		params.Mode = stripe.String(stripe.CheckoutSessionModeSubscription)
		params.SubscriptionData = &stripe.CheckoutSessionCreateSubscriptionDataParams{Metadata: in.Metadata}
	} else {
		params.Mode = stripe.String(stripe.CheckoutSessionModePayment)
		params.PaymentIntentData = &stripe.CheckoutSessionCreatePaymentIntentDataParams{Metadata: in.Metadata}
		if in.Page.Invoices {
			params.InvoiceCreation = &stripe.CheckoutSessionCreateInvoiceCreationParams{Enabled: new(true),
				InvoiceData: &stripe.CheckoutSessionCreateInvoiceCreationInvoiceDataParams{Metadata: in.Metadata}}
		}
	}
	var s session
	if err := c.call(http.MethodPost, "/v1/checkout/sessions", params, &s); err != nil {
		return Session{}, fmt.Errorf("create a checkout session: %w", err)
	}
	return Session{ID: s.ID, URL: s.URL}, nil
}

// Portal creates a session of the customer portal, in which a customer changes or ends subscriptions, and returns the
// URL of its page. The page has a link to returnURL. Errors: ErrNoKey, and the errors of Stripe's library.
func (c *Client) Portal(ctx context.Context, customer, returnURL string) (string, error) {
	params := &stripe.BillingPortalSessionCreateParams{Params: stripe.Params{Context: ctx},
		Customer: stripe.String(customer), ReturnURL: stripe.String(returnURL)}
	var s session
	if err := c.call(http.MethodPost, "/v1/billing_portal/sessions", params, &s); err != nil {
		return "", fmt.Errorf("create a session of the customer portal: %w", err)
	}
	return s.URL, nil
}

// Price is a price of a product of its own.
type Price struct {
	Key      string // the lookup key, by which it is found again
	Name     string // of the product
	Amount   int64  // in Stripe's unit of the currency
	Currency string
	Every    string // month or year; empty for a payment
}

// MakePrice returns the id of the price with a lookup key, and creates it if there is none. Errors: ErrNoKey, and the
// errors of Stripe's library.
func (c *Client) MakePrice(ctx context.Context, p Price) (id string, made bool, err error) {
	find := &listParams{Params: stripe.Params{Context: ctx}, Limit: 1, Active: new(true), LookupKeys: []*string{&p.Key}}
	var found struct {
		stripe.APIResource
		Data []session `json:"data"`
	}
	if err := c.call(http.MethodGet, "/v1/prices", find, &found); err != nil {
		return "", false, fmt.Errorf("find the price %s: %w", p.Key, err)
	}
	if len(found.Data) > 0 {
		return found.Data[0].ID, false, nil
	}
	params := &stripe.PriceCreateParams{Params: stripe.Params{Context: ctx}, LookupKey: &p.Key, Currency: &p.Currency,
		TransferLookupKey: new(true), // an archived price may have it
		UnitAmount:        &p.Amount, ProductData: &stripe.PriceCreateProductDataParams{Name: &p.Name}}
	if p.Every != "" {
		params.Recurring = &stripe.PriceCreateRecurringParams{Interval: &p.Every}
	}
	var price session
	if err := c.call(http.MethodPost, "/v1/prices", params, &price); err != nil {
		return "", false, fmt.Errorf("create the price %s: %w", p.Key, err)
	}
	return price.ID, true, nil
}

// MakeEndpoint creates a webhook endpoint, and returns the secret with which its events are signed. Errors: ErrNoKey,
// and the errors of Stripe's library.
func (c *Client) MakeEndpoint(ctx context.Context, url string, e Endpoint) (secret string, err error) {
	params := &stripe.WebhookEndpointCreateParams{Params: stripe.Params{Context: ctx}, URL: &url,
		APIVersion: &e.APIVersion, EnabledEvents: stripe.StringSlice(e.Types)}
	var made struct {
		stripe.APIResource
		Secret string `json:"secret"`
	}
	if err := c.call(http.MethodPost, "/v1/webhook_endpoints", params, &made); err != nil {
		return "", fmt.Errorf("create a webhook endpoint: %w", err)
	}
	return made.Secret, nil
}

// Endpoint is a webhook endpoint.
type Endpoint struct {
	Enabled    bool
	APIVersion string // "" for the default version of the Stripe account
	Types      []string
}

// maxEndpoints is more than Stripe allows in one mode of an account.
const maxEndpoints = 100

type listParams struct {
	stripe.Params `form:"*"`
	Limit         int       `form:"limit"`
	Active        *bool     `form:"active"`      // of prices
	LookupKeys    []*string `form:"lookup_keys"` // of prices
}

// Endpoints returns the webhook endpoints with this URL. Errors: ErrNoKey, ErrNotAllowed, and the errors of Stripe's
// library.
func (c *Client) Endpoints(ctx context.Context, url string) (all []Endpoint, err error) {
	params := &listParams{Params: stripe.Params{Context: ctx}, Limit: maxEndpoints}
	var list stripe.WebhookEndpointList
	err = c.call(http.MethodGet, "/v1/webhook_endpoints", params, &list)
	if refused, ok := errors.AsType[*stripe.Error](err); ok && refused.HTTPStatusCode == http.StatusForbidden {
		return nil, ErrNotAllowed
	}
	if err != nil {
		return nil, fmt.Errorf("list webhook endpoints: %w", err)
	}
	for _, e := range list.Data {
		if e.URL == url {
			all = append(all, Endpoint{Enabled: e.Status == "enabled", APIVersion: e.APIVersion, Types: e.EnabledEvents})
		}
	}
	return all, nil
}
