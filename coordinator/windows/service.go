// Package windows implements CalendarService: maintenance of nodes, and reservations of nodes for a tenant, each for a time.
//
// Guarantees. A caller that is no operator cannot reserve for another tenant, and sees no reservation of another
// tenant.
package windows

import (
	"context"
	"regexp"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
)

// Service implements CalendarService.
type Service struct {
	v1.UnimplementedCalendarServiceServer

	replica *replica.Replica
}

// New makes a service.
func New(r *replica.Replica) *Service { return &Service{replica: r} }

// name matches names of windows: they are used in paths and in commands.
var name = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// ListMaintenance lists the maintenances.
func (s *Service) ListMaintenance(ctx context.Context, _ *v1.ListMaintenanceRequest) (*v1.ListMaintenanceResponse, error) {
	all, err := s.list(ctx, windows.Maintenance)
	return &v1.ListMaintenanceResponse{Maintenance: all}, err
}

// ListReservations lists the reservations.
func (s *Service) ListReservations(ctx context.Context, _ *v1.ListReservationsRequest) (*v1.ListReservationsResponse, error) {
	all, err := s.list(ctx, windows.Reservation)
	return &v1.ListReservationsResponse{Reservations: all}, err
}

func (s *Service) list(ctx context.Context, kind windows.Kind) ([]*v1.Window, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	var all []*v1.Window
	for w := range v.Windows() {
		if w.Kind == kind && visible(w, call.Of(ctx)) {
			all = append(all, shown(w, call.Of(ctx)))
		}
	}
	return all, nil
}

// PutMaintenance plans a maintenance.
func (s *Service) PutMaintenance(ctx context.Context, req *v1.PutMaintenanceRequest) (*v1.PutMaintenanceResponse, error) {
	var f call.Faults
	if len(req.GetNodes()) == 0 {
		f.Bad("nodes", "is empty: name nodes, or a pattern such as rack7-*")
	}
	c := windowverbs.PutWindow{Kind: windows.Maintenance, Name: req.GetName(), Patterns: req.GetNodes(), Reason: req.GetReason()}
	w, err := s.put(ctx, &f, c, req.GetFrom(), req.GetDurationSeconds())
	return &v1.PutMaintenanceResponse{Window: w}, err
}

// PutReservation reserves GPUs.
func (s *Service) PutReservation(ctx context.Context, req *v1.PutReservationRequest) (*v1.PutReservationResponse, error) {
	tenant, err := call.Of(ctx).TenantNamed(req.GetTenantId())
	if err != nil {
		return nil, err
	}
	var f call.Faults
	if req.GetGpus() <= 0 {
		f.Bad("gpus", "must be 1 or more")
	}
	c := windowverbs.PutWindow{
		Kind: windows.Reservation, Name: req.GetName(), Patterns: req.GetNodes(), Reason: req.GetReason(),
		Tenant: tenant, GPUs: uint32(max(0, req.GetGpus())), GPUType: req.GetGpuType(),
	}
	w, err := s.put(ctx, &f, c, req.GetFrom(), req.GetDurationSeconds())
	return &v1.PutReservationResponse{Window: w}, err
}

// put completes a command and proposes it.
func (s *Service) put(ctx context.Context, f *call.Faults, c windowverbs.PutWindow, from *timestamppb.Timestamp, seconds int32) (*v1.Window, error) {
	if !name.MatchString(c.Name) {
		f.Bad("name", "has 1 to 63 lower-case letters, digits, dots, dashes or underscores, and begins and ends with a letter or digit")
	}
	if seconds <= 0 {
		f.Bad("duration_seconds", "must be 1 or more")
	}
	at := time.Now()
	switch {
	case from == nil:
	case from.CheckValid() != nil || from.AsTime().Year() > 2200:
		f.Bad("from", "is not a time, or too far in the future")
	default:
		at = from.AsTime()
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	by := call.Of(ctx)
	c.From, c.Until = at.UnixNano(), at.Add(time.Duration(seconds)*time.Second).UnixNano()
	c.By, c.Actor = by.User, by.Actor()
	result, err := replica.Propose[windowverbs.WindowResult](ctx, s.replica, c)
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, call.Refused(result.Refusal)
	}
	return shown(result.Window, by), nil
}

// DeleteMaintenance cancels a maintenance, or ends it.
func (s *Service) DeleteMaintenance(ctx context.Context, req *v1.DeleteMaintenanceRequest) (*v1.DeleteMaintenanceResponse, error) {
	return &v1.DeleteMaintenanceResponse{}, s.remove(ctx, windowverbs.DeleteWindow{Kind: windows.Maintenance, Name: req.GetName()})
}

// DeleteReservation cancels or ends a reservation. For callers that are no operators, a reservation of another tenant
// does not exist.
func (s *Service) DeleteReservation(ctx context.Context, req *v1.DeleteReservationRequest) (*v1.DeleteReservationResponse, error) {
	if w, ok := s.replica.View().Window(req.GetName()); !ok || w.Kind != windows.Reservation || !visible(w, call.Of(ctx)) {
		return nil, call.Refused(kernel.Refuse(kernel.CodeNotFound, reason.NoWindow, req.GetName()))
	}
	return &v1.DeleteReservationResponse{}, s.remove(ctx, windowverbs.DeleteWindow{Kind: windows.Reservation, Name: req.GetName()})
}

func (s *Service) remove(ctx context.Context, c windowverbs.DeleteWindow) error {
	c.Actor = call.Of(ctx).Actor()
	result, err := replica.Propose[windowverbs.WindowResult](ctx, s.replica, c)
	switch {
	case err != nil:
		return err
	case result.Refusal != nil:
		return call.Refused(result.Refusal)
	}
	return nil
}

// visible reports whether a caller may see a window: all callers see maintenances, and tenants their own reservations.
func visible(w *windows.Window, to *call.Call) bool {
	return w.Kind != windows.Reservation || to.Operator || to.Tenant == w.Tenant
}

// shown returns a window as a caller sees it.
func shown(w *windows.Window, to *call.Call) *v1.Window {
	out := &v1.Window{
		Name: w.Name, From: call.Time(w.From), Until: call.Time(w.Until), Nodes: w.Nodes, State: "PLANNED", CreatedAt: call.Time(w.CreatedAt),
		Reason: w.Reason,
	}
	if w.Begun {
		out.State = "ACTIVE"
	}
	if w.Kind == windows.Reservation {
		out.TenantId, out.Gpus = w.Tenant, int32(w.GPUs)
	}
	if to.Operator {
		out.CreatedBy = w.CreatedBy
	}
	return out
}
