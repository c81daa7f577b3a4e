package yardstick

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// Echo is a process with a bare net/http server that decodes JSON and encodes it again: the least that any REST
// interface costs.
type Echo struct {
	URL string
	cmd *exec.Cmd
}

// EchoArg makes the program run EchoMain.
const EchoArg = "yardstick-echo"

// StartEcho runs this program again as an echo server.
func StartEcho(ctx context.Context) (*Echo, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, EchoArg)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the echo server: %w", err)
	}
	e := &Echo{cmd: cmd}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the echo server does not say where it is: %w", err), e.Stop())
	}
	e.URL = strings.TrimSpace(line)
	return e, nil
}

// Stop ends the server.
func (e *Echo) Stop() error {
	if err := e.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = e.cmd.Wait() // returns an error, because the process was killed
	return nil
}

// EchoMain serves until the process is killed.
func EchoMain() error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + lis.Addr().String())
	return http.Serve(lis, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body)
	}))
}
