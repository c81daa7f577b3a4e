package jobs

import (
	"bytes"
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobspec"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// uploadsLooked is how many jobs one page of ListUploads examines.
const uploadsLooked = 5000

// ListUploads lists the uploads that the jobs and schedules of the state name, whatever their state is. The page token is the id of
// the last job that was examined; schedules are on the last page.
func (s *Service) ListUploads(ctx context.Context, req *v1.ListUploadsRequest) (*v1.ListUploadsResponse, error) {
	var from ident.Job
	if token := req.GetPageToken(); token != "" {
		id, ok := ident.ParseJob(token)
		if !ok {
			return nil, call.Bad("page_token", "%q is not one that this method gave", token)
		}
		from = id + 1
	}
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	out, looked := &v1.ListUploadsResponse{}, 0
	for j := range v.Jobs(false, from) {
		if looked == uploadsLooked {
			return out, nil
		}
		looked++
		out.NextPageToken = j.ID.String()
		if !namesUpload(j.Spec) {
			continue
		}
		request, err := jobspec.Decode(j)
		if err != nil {
			return nil, err
		}
		addUpload(out, j.Tenant, request)
	}
	out.NextPageToken = ""
	for row := range v.AllSchedules() {
		if !namesUpload(row.Job) {
			continue
		}
		request := &v1.SubmitJobRequest{}
		if err := proto.Unmarshal(row.Job, request); err != nil {
			return nil, fmt.Errorf("reading the job of schedule %s: %w", row.Name, err)
		}
		addUpload(out, row.Tenant, request)
	}
	return out, nil
}

// namesUpload reports whether an encoded request may name an upload. Most name none, and need not be decoded.
func namesUpload(encoded []byte) bool { return bytes.Contains(encoded, []byte("sha256:")) }

func addUpload(out *v1.ListUploadsResponse, tenant string, request *v1.SubmitJobRequest) {
	if id := request.GetCommandConfig().GetUpload(); id != "" {
		out.Uploads = append(out.Uploads, &v1.UploadUse{TenantId: tenant, Upload: id})
	}
}
