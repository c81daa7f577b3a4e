package gateway

import (
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// launcherToldOnly are the read-only fields of a launcher.
var launcherToldOnly = []string{"framework", "builtin", "updated_by", "updated_at"}

func getLauncher(x *httpRequest) error {
	framework := segment(x, "framework")
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := x.server.launchers.ListLaunchers(ctx, &v1.ListLaunchersRequest{})
	if err != nil {
		return err
	}
	var all []string
	for _, l := range reply.GetLaunchers() {
		if l.GetFramework() == framework {
			x.ok(l)
			return nil
		}
		all = append(all, l.GetFramework())
	}
	return &problem{
		http: http.StatusNotFound, code: "NOT_FOUND",
		message: fmt.Sprintf("there is no launcher %s: they are %s", wire.Printable(framework), strings.Join(all, ", ")),
	}
}

func putLauncher(x *httpRequest) error {
	l := &v1.Launcher{}
	if _, err := x.decode(l, false, launcherToldOnly...); err != nil {
		return err
	}
	l.Framework = segment(x, "framework")
	return unary(x, &v1.PutLauncherRequest{Launcher: l}, x.server.launchers.PutLauncher,
		func(r *v1.PutLauncherResponse) proto.Message { return r.GetLauncher() })
}
