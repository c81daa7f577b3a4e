package main

import (
	"encoding/base64"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/agent/fitness"
	"github.com/mindcoordinator/mind/cmd/mind/settings"
	"github.com/mindcoordinator/mind/coordinator"
	"github.com/mindcoordinator/mind/gateway"
)

// base64Key is a key in base64.
type base64Key []byte

func (k *base64Key) SetText(text string) error {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("it is not base64 (make one with `head -c 32 /dev/urandom | base64`)")
	}
	*k = b
	return nil
}

func (k *base64Key) SetNode(node *yaml.Node) error { return k.SetText(node.Value) }

// watermark is the space that must be free on a disk.
type watermark struct{ into *fitness.Watermark }

func (w watermark) SetText(text string) error { return w.into.UnmarshalText([]byte(text)) }

func (w watermark) SetNode(node *yaml.Node) error { return w.SetText(node.Value) }

// peers are the first voters; the text form is ID=RAFT/GRPC/HTTP,...
type peers []coordinator.Peer

func (p *peers) SetText(text string) error {
	*p = nil
	for _, part := range settings.Split(text) {
		id, addrs, ok := strings.Cut(part, "=")
		all := strings.Split(addrs, "/")
		if !ok || len(all) < 2 || len(all) > 3 {
			return fmt.Errorf("%q is not of the form ID=RAFT/GRPC/HTTP", part)
		}
		peer := coordinator.Peer{ID: id, RaftAddr: all[0], GRPCAddr: all[1]}
		if len(all) == 3 {
			peer.HTTPAddr = all[2]
		}
		*p = append(*p, peer)
	}
	return nil
}

func (p *peers) SetNode(node *yaml.Node) error {
	var listed []struct {
		ID       string `yaml:"id"`
		RaftAddr string `yaml:"raft_addr"`
		GRPCAddr string `yaml:"grpc_addr"`
		HTTPAddr string `yaml:"http_addr"`
	}
	if err := settings.DecodeStrictly(node, &listed); err != nil {
		return err
	}
	*p = nil
	for _, l := range listed {
		*p = append(*p, coordinator.Peer(l))
	}
	return nil
}

// tokens are bearer tokens; the text form is TOKEN=TENANT/USER/PERMISSION+PERMISSION,...
type tokens []gateway.StaticToken

func (t *tokens) SetText(text string) error {
	*t = nil
	for _, part := range settings.Split(text) {
		token, rest, ok := strings.Cut(part, "=")
		all := strings.Split(rest, "/")
		if !ok || len(all) != 3 {
			return fmt.Errorf("a token is not of the form TOKEN=TENANT/USER/PERMISSION+PERMISSION")
		}
		*t = append(*t, gateway.StaticToken{Token: token, Tenant: all[0], User: all[1], Permissions: strings.Split(all[2], "+")})
	}
	return nil
}

func (t *tokens) SetNode(node *yaml.Node) error {
	return settings.DecodeStrictly(node, (*[]gateway.StaticToken)(t))
}
