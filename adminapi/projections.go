package adminapi

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"letterhead/projections/engine"
)

func (x *exchange) lastRebuild() error {
	name := x.request.PathValue("name")
	r, ok := x.api.Operations.Models.Last(name)
	if !ok {
		return notFound("No request to this process has begun a rebuild of %s since its start.", name)
	}
	return x.answer(http.StatusOK, r)
}

func (x *exchange) listProjections() error {
	q := x.query("state")
	state := q.oneOf("state", engine.States...)
	if q.err != nil {
		return q.err
	}
	all, err := x.api.Operations.Models.List(x.ctx)
	if err != nil {
		return err
	}
	shown := slices.DeleteFunc(all, func(m engine.Status) bool { return state != "" && m.State != state })
	return x.answer(http.StatusOK, map[string]any{"projections": shown})
}

// rebuildProjection answers POST /admin/projections/{name}/rebuild. It does not wait for the rebuild.
func (x *exchange) rebuildProjection() error {
	name := x.request.PathValue("name")
	err := x.api.Operations.Models.Start(name)
	if errors.Is(err, engine.ErrUnknown) {
		return notFound("There is no read model %s. GET /admin/projections lists them.", name)
	}
	if err != nil {
		return err
	}
	return x.answer(http.StatusAccepted, map[string]string{"name": name, "state": "building"})
}

func (x *exchange) getHealth() error {
	head, err := x.api.Log.Head(x.ctx)
	if err != nil {
		return err
	}
	all, err := x.api.Operations.Models.List(x.ctx)
	if err != nil {
		return err
	}
	problems := slices.DeleteFunc([]string{x.api.Ready(), x.api.Operations.Checkpoints.Problem(x.ctx)},
		func(why string) bool { return why == "" })
	lag, behind := uint64(0), time.Duration(0)
	for _, m := range all {
		lag, behind = max(lag, m.Lag), max(behind, m.Behind)
		if m.Error != "" {
			problems = append(problems, "the read model "+m.Name+" is quarantined: "+m.Error)
		}
	}
	health := map[string]any{"ready": len(problems) == 0, "problems": problems, "position": head, "lag": lag,
		"behind_ns": behind}
	if x.api.CountsEvents {
		health["events"] = head
	}
	return x.answer(http.StatusOK, health)
}
