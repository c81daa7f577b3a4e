package login

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway/oidc"
)

func TestNext_isAPageOfTheConsole(t *testing.T) {
	for wanted, want := range map[string]string{
		"": Home, "/console/": "/console/", "/console/jobs?status=QUEUED&search=a%20b": "/console/jobs?status=QUEUED&search=a%20b", "/console/#x": Home,
		"https://evil.example/console/": Home, "//evil.example/console/": Home, "/\\evil.example/console/": Home, "/console/\\..\\": Home,
		"/console": Home, "/consolee/": Home, "/v1/session": Home, "/console/../v1/session/login": Home, "/console/%2e%2e/v1": Home,
		"javascript:alert(1)": Home, "console/": Home, "/console/\r\nSet-Cookie: a=b": Home, "http:/console/": Home, "///console/": Home,
		"/console/./jobs": "/console/./jobs", "https:///console/": Home,
	} {
		require.Equal(t, want, Next(wanted), wanted)
	}
}

func TestNew_refusesWhatCannotWork(t *testing.T) {
	issuer := oidc.Config{Issuer: "https://login.example", Audience: "mind"}
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("s3cret\n"), 0o600))
	f, err := New(Config{ClientID: "console", SecretFile: secret}, issuer)
	require.NoError(t, err)
	require.Equal(t, "login.example", f.Name())
	read, err := f.secret()
	require.NoError(t, err)
	require.Equal(t, "s3cret", read)
	_, err = New(Config{SecretFile: secret}, issuer)
	require.ErrorContains(t, err, "without oidc_client_id")
	_, err = New(Config{ClientID: "console", SecretFile: secret + ".gone"}, issuer)
	require.ErrorContains(t, err, "oidc_client_secret_file")
	_, err = New(Config{ClientID: "console"}, oidc.Config{Issuer: "http://login.example", Audience: "mind"})
	require.ErrorContains(t, err, "https")
}

func TestFailed_tellsNothingFromInside(t *testing.T) {
	require.Equal(t, "/console/?error=denied", Failed(errors.Join(ErrDenied, errors.New("<script>"))))
	require.Equal(t, "/console/?error=refused", Failed(errors.New("<script>")))
	require.Equal(t, Home, Next("/console/#token=sgk_1"), "a token in an address signs in as its owner")
}
