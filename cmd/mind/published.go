package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/cmd/mind/settings"
	"github.com/mindcoordinator/mind/gateway"
)

// published are the keys of a gateway under the names that ScaiMind published, so that existing configurations keep
// working. Each stands for keys of Mind; a configuration that sets both must set both to the same value.
type published struct {
	host          string
	port          int
	timeout       seconds
	streamTimeout seconds
	secret        string
	tls           choice
}

func (p *published) keys() []settings.Key {
	return []settings.Key{
		{Name: "scaimind_grpc_host", Into: &p.host, Help: "published name: host of a coordinator, with scaimind_grpc_port; one of coordinators. Default: what coordinators says"},
		{Name: "scaimind_grpc_port", Into: &p.port, Help: "published name: its port. Default: what coordinators says"},
		{Name: "scaimind_grpc_timeout_s", Into: &p.timeout, Help: "published name: request_timeout, as a number of seconds. Default: what that says"},
		{Name: "scaimind_grpc_stream_timeout_s", Into: &p.streamTimeout, Help: "published name: stream_timeout, as a number of seconds. Default: what that says"},
		{Name: "scaimind_api_secret", Into: &p.secret, Secret: true, Help: "published name: api_secret. Default: what that says"},
		{Name: "scaimind_tls_enabled", Into: &p.tls, Help: "published name: true asks for cert_file, key_file and ca_file, false refuses them. Default: TLS when they are given"},
	}
}

// into copies the values to the fields of the keys that they stand for.
func (p *published) into(c *gateway.Config) error {
	var faults []error
	differ := func(ours, theirs string) {
		faults = append(faults, fmt.Errorf("%s and %s have different values: set only one of them", ours, theirs))
	}
	switch {
	case p.host == "" && p.port == 0:
	case p.host == "" || p.port == 0:
		faults = append(faults, errors.New("scaimind_grpc_host and scaimind_grpc_port: give both or none"))
	default:
		addrs := []string{net.JoinHostPort(p.host, strconv.Itoa(p.port))}
		if len(c.Coordinators) > 0 && !slices.Equal(c.Coordinators, addrs) {
			differ("coordinators", "scaimind_grpc_host with scaimind_grpc_port")
		}
		c.Coordinators = addrs
	}
	duration := func(ours, theirs string, into *time.Duration, given seconds) {
		if given == 0 {
			return
		}
		if *into != 0 && *into != time.Duration(given) {
			differ(ours, theirs)
		}
		*into = time.Duration(given)
	}
	duration("request_timeout", "scaimind_grpc_timeout_s", &c.Timeouts.Request, p.timeout)
	duration("stream_timeout", "scaimind_grpc_stream_timeout_s", &c.Timeouts.Stream, p.streamTimeout)
	if p.secret != "" {
		if c.APISecret != "" && c.APISecret != p.secret {
			differ("api_secret", "scaimind_api_secret")
		}
		c.APISecret = p.secret
	}
	switch {
	case p.tls == yes && c.CertFile == "":
		faults = append(faults, errors.New("scaimind_tls_enabled is true: give cert_file, key_file and ca_file"))
	case p.tls == no && c.CertFile != "":
		faults = append(faults, errors.New("scaimind_tls_enabled is false, but cert_file is set: set only one of them"))
	}
	return errors.Join(faults...)
}

// seconds is a duration that is written as a number of seconds.
type seconds time.Duration

func (s *seconds) SetText(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0) || n > 1e9 {
		return fmt.Errorf("%q is not a number of seconds above 0", text)
	}
	*s = seconds(n * float64(time.Second))
	return nil
}

func (s *seconds) SetNode(node *yaml.Node) error { return s.SetText(node.Value) }

// choice is an optional boolean.
type choice int

const (
	yes choice = iota + 1
	no
)

func (c *choice) SetText(text string) error {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", text)
	}
	if *c = no; on {
		*c = yes
	}
	return nil
}

func (c *choice) SetNode(node *yaml.Node) error { return c.SetText(node.Value) }
