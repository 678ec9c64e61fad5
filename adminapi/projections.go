package adminapi

import (
	"errors"
	"net/http"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/projections"
	"letterhead/projections/engine"
)

// Rebuilt is a read model with new tables.
type Rebuilt struct {
	projections.Comparison
	Compared bool   // there were live tables to compare with
	State    string // of the new tables: live, kept, not live
}

// Object returns it for JSON.
func (r *Rebuilt) Object() map[string]any {
	object := map[string]any{"name": r.Name, "rebuilt": r.State, "compared": r.Compared && r.Err == nil}
	if r.Compared {
		object["version"], object["position"], object["same"], object["tables"] = r.Version, r.Position, r.Same(), append([]projections.TableComparison{}, r.Tables...)
	}
	if r.Err != nil {
		object["error"] = r.Err.Error()
	}
	return object
}

// Rebuild is a rebuild that a request has begun.
type Rebuild struct {
	StartedAt        time.Time
	FinishedAt       time.Time // zero while it runs
	Step             string    // rebuild, compare or switch
	Position, Target eventlog.Position
	Error            string
	Rebuilt          *Rebuilt // nil without new tables
}

// lastRebuild answers GET /admin/projections/{name}/rebuild.
func (x *exchange) lastRebuild() error {
	if q := x.query(); q.err != nil {
		return q.err
	}
	name := x.request.PathValue("name")
	r, ok := x.api.Operations.LastRebuild(name)
	if !ok {
		return notFound("No request to this process has begun a rebuild of %s since its start.", name)
	}
	object := map[string]any{"name": name, "running": r.FinishedAt.IsZero(), "started_at": r.StartedAt.UTC(), "step": r.Step, "position": r.Position, "target": r.Target}
	if !r.FinishedAt.IsZero() {
		object["finished_at"] = r.FinishedAt.UTC()
	}
	if r.Error != "" {
		object["error"] = r.Error
	}
	if r.Rebuilt != nil {
		object["report"] = r.Rebuilt.Object()
	}
	return x.answer(http.StatusOK, object)
}

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
