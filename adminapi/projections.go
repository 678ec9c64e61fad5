package adminapi

import (
	"errors"
	"net/http"

	"letterhead/projections/engine"
)

// listProjections answers GET /admin/projections.
func (x *exchange) listProjections() error {
	q := x.query("state")
	state := q.oneOf("state", engine.States...)
	if q.err != nil {
		return q.err
	}
	all, err := x.api.Operations.ReadModels(x.ctx)
	if err != nil {
		return err
	}
	shown := []engine.Status{}
	for _, m := range all {
		if state == "" || m.State == state {
			shown = append(shown, m)
		}
	}
	return x.answer(http.StatusOK, map[string]any{"projections": shown})
}

// rebuildProjection answers POST /admin/projections/{name}/rebuild. It does not wait for the rebuild.
func (x *exchange) rebuildProjection() error {
	if err := x.noBody(); err != nil {
		return err
	}
	name := x.request.PathValue("name")
	err := x.api.Operations.StartRebuild(name)
	if errors.Is(err, engine.ErrUnknown) {
		return notFound("There is no read model %s. GET /admin/projections lists them.", name)
	}
	if err != nil {
		return err
	}
	return x.answer(http.StatusAccepted, map[string]string{"name": name, "state": "building"})
}

// getHealth answers GET /admin/health.
func (x *exchange) getHealth() error {
	if q := x.query(); q.err != nil {
		return q.err
	}
	head, err := x.api.Log.Head(x.ctx)
	if err != nil {
		return err
	}
	all, err := x.api.Operations.ReadModels(x.ctx)
	if err != nil {
		return err
	}
	problems := []string{}
	if why := x.api.Operations.Ready(); why != "" {
		problems = append(problems, why)
	}
	lag := uint64(0)
	for _, m := range all {
		lag = max(lag, m.Lag)
		if m.Error != "" {
			problems = append(problems, "the read model "+m.Name+" is quarantined: "+m.Error)
		}
	}
	return x.answer(http.StatusOK, map[string]any{"ready": len(problems) == 0, "problems": problems, "position": head, "lag": lag})
}
