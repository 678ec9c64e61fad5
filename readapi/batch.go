package readapi

import "github.com/gorilla/mux"

// routeBatch adds the paths of batch look-ups.
func (a *API) routeBatch(*mux.Router) {}
