package readapi

import "github.com/gorilla/mux"

// routeAgents adds the MCP endpoint.
func (a *API) routeAgents(*mux.Router) {}
