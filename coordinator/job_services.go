package coordinator

import (
	"github.com/mindcoordinator/mind/coordinator/admission"
	"github.com/mindcoordinator/mind/coordinator/data"
	"github.com/mindcoordinator/mind/coordinator/evaluations"
	"github.com/mindcoordinator/mind/coordinator/forecast"
	"github.com/mindcoordinator/mind/coordinator/jobs"
)

// makeJobServices makes the services that answer calls about jobs, and what they share.
func (s *server) makeJobServices() {
	s.capacity = admission.NewCapacity(s.replica.View)
	s.forecasts = forecast.New(s.config.Limits.EstimateRest)
	admitted := admission.New(s.replica, s.capacity, s.sealer, launcherOf)
	s.jobs = jobs.New(jobs.Config{
		State: s.replica, Admission: admitted, Sealer: s.sealer, Forecasts: s.forecasts,
		RenewsThroughPeers: s.sessions.RenewsThroughPeers, EntryBytes: s.config.Limits.EntryBytes,
	})
	s.evaluations = evaluations.New(s.replica, admitted, s.forecasts)
	s.data = data.New(s.replica, s.agents, s.log)
}

// jobService is JobService, of which the streams are answered here.
type jobService struct {
	*jobs.Service
	*server
}
