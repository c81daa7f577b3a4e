package catalog_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

const aLauncher = `{"framework":"FSDP","argv":["/opt/fsdp","a b","{config}"],"distributed_argv":["torchrun","{script}"],"environment":{"A":"b"},
	"hyperparameters":["lr"],"training_types":[],"builtin":false,"updated_by":"ann","updated_at":"2026-01-02T03:04:05Z"}`

func TestLaunchers_listShowSetReset(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /launchers", clitest.Answer(200, `{"launchers":[`+aLauncher+`,{"framework":"CUSTOM","argv":["{script_command}"],"builtin":true}]}`))
	g.On("GET /launchers/FSDP", clitest.Answer(200, aLauncher))
	g.On("PUT /launchers/FSDP", clitest.Answer(200, aLauncher))
	g.On("DELETE /launchers/FSDP", clitest.Answer(200, aLauncher))

	out, _, code := clitest.Run(t, "launchers", "list")
	require.Zero(t, code)
	require.Regexp(t, `FSDP\s+\d+d ago\s+/opt/fsdp 'a b' \{config\}\nCUSTOM\s+builtin\s+\{script_command\}\n`, out)

	out, _, code = clitest.Run(t, "launchers", "show", "fsdp")
	require.Zero(t, code)
	require.Regexp(t, `distributed\s+torchrun \{script\}\nenvironment\s+A=b\ntraining types\s+any\nhyperparameters\s+lr\nset\s+\d+d ago by ann\n`, out)

	// set accepts the output of show.
	out, _, code = clitest.Run(t, "launchers", "show", "FSDP", "-o", "yaml")
	require.Zero(t, code)
	file := filepath.Join(t.TempDir(), "fsdp.yaml")
	require.NoError(t, os.WriteFile(file, []byte(out), 0o600))
	_, stderr, code := clitest.Run(t, "launchers", "set", "fsdp", "-f", file)
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"argv":["/opt/fsdp","a b","{config}"],"distributed_argv":["torchrun","{script}"],"environment":{"A":"b"},
		"hyperparameters":["lr"],"training_types":[]}`, g.Bodies[len(g.Bodies)-1])

	_, stderr, code = clitest.Run(t, "launchers", "set", "FSDP", "-f", file, "--distributed", "a  {nnodes}", "--env", "X=y=z", "--hyperparameter", "a,b",
		"--training-type", "SFT", "--", "sh", "-c", "x y")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"argv":["sh","-c","x y"],"distributed_argv":["a","{nnodes}"],"environment":{"X":"y=z"},"hyperparameters":["a","b"],"training_types":["SFT"]}`,
		g.Bodies[len(g.Bodies)-1])
	require.NotEmpty(t, g.Keys[len(g.Keys)-1])

	out, _, code = clitest.Run(t, "launchers", "reset", "fsdp")
	require.Zero(t, code)
	require.Equal(t, "fsdp is the built-in launcher again\n", out)
	require.Equal(t, "DELETE /launchers/FSDP", g.Asked[len(g.Asked)-1])

	asked := len(g.Asked)
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	require.NoError(t, os.WriteFile(broken, []byte("- a"), 0o600))
	for name, args := range map[string][]string{
		"nothing to start": {"set", "FSDP"}, "no framework": {"set"}, "no such file": {"set", "FSDP", "-f", "/no/such/file"},
		"not a launcher": {"set", "FSDP", "-f", broken}, "a variable without value": {"set", "FSDP", "--env", "A", "--", "x"}, "show what": {"show"},
	} {
		_, stderr, code := clitest.Run(t, append([]string{"launchers"}, args...)...)
		require.Equal(t, 2, code, "%s: %s", name, stderr)
	}
	require.Len(t, g.Asked, asked, "nothing was asked")
}
