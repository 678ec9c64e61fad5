package readapi

import "github.com/gorilla/mux"

// routeV2 adds the paths that follow the shape of a third-party brand API.
func (a *API) routeV2(*mux.Router) {}
