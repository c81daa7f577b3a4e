package gateway

import (
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// launcherToldOnly are the read-only fields of a launcher.
var launcherToldOnly = []string{"framework", "builtin", "updated_by", "updated_at"}

func (s *server) getLauncher(x *rest.Request) error {
	framework := x.Segment("framework")
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := s.launchers.ListLaunchers(ctx, &v1.ListLaunchersRequest{})
	if err != nil {
		return err
	}
	var all []string
	for _, l := range reply.GetLaunchers() {
		if l.GetFramework() == framework {
			x.OK(l)
			return nil
		}
		all = append(all, l.GetFramework())
	}
	return &rest.Problem{
		HTTP: http.StatusNotFound, Code: "NOT_FOUND",
		Message: fmt.Sprintf("there is no launcher %s: they are %s", wire.Printable(framework), strings.Join(all, ", ")),
	}
}

func (s *server) putLauncher(x *rest.Request) error {
	l := &v1.Launcher{}
	if _, err := x.Decode(l, false, launcherToldOnly...); err != nil {
		return err
	}
	l.Framework = x.Segment("framework")
	return rest.Unary(x, &v1.PutLauncherRequest{Launcher: l}, s.launchers.PutLauncher,
		func(r *v1.PutLauncherResponse) proto.Message { return r.GetLauncher() })
}
