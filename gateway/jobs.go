package gateway

import (
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

func (s *server) listJobs(x *rest.Request) error {
	request, faults := wire.ListJobs(x.R.URL.Query())
	if len(faults) > 0 {
		return rest.InvalidBody(faults)
	}
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := s.jobs.ListJobs(ctx, request)
	if err != nil {
		return err
	}
	x.Data(func(b []byte) []byte { return wire.AppendRows(b, reply, "jobs", request.GetFields(), x.Hides()) })
	if len(request.GetFields()) == 0 { // a part of a job is nothing to keep
		s.listed.Note(reply.GetJobs(), x.Made)
	}
	return nil
}
