package devcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// readyPause is the pause between two readiness checks.
const readyPause = 25 * time.Millisecond

// awaitReady returns when the cluster can accept a job and place it.
func (c *Cluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.ReadyWithin, errNotReady)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}
	missing := "nothing was checked yet"
	for {
		if p := c.died(); p != nil {
			return fmt.Errorf("%s ended while the cluster was starting (%s)%s", p.name, describe(p.lastErr), c.tail(p.name))
		}
		if missing = c.missing(ctx, client); missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errNotReady) {
				return fmt.Errorf("the cluster is not ready after %s: %s", c.options.ReadyWithin, missing)
			}
			return ctx.Err()
		case <-time.After(readyPause):
		}
	}
}

var errNotReady = errors.New("not ready in time")

// died returns a component that ended for good.
func (c *Cluster) died() *component {
	for _, p := range c.components {
		select {
		case <-p.over:
			return p
		default:
		}
	}
	return nil
}

func (c *Cluster) tail(name string) string {
	if c.options.InProcess != nil {
		return ""
	}
	text := endOfLog(c.dir, name)
	if text == "" {
		return "; its log is empty"
	}
	return "; the end of its log:\n" + text
}

// missing returns why the cluster is not ready; empty: it is.
func (c *Cluster) missing(ctx context.Context, client *http.Client) string {
	for _, m := range c.layout.Coordinators {
		if err := get(ctx, client, "http://"+m.HTTP+"/health/ready", "", nil); err != nil {
			return fmt.Sprintf("coordinator %s is not ready: %v%s", m.ID, err, c.tail(m.ID))
		}
	}
	for _, m := range c.layout.Agents {
		if err := get(ctx, client, "http://"+m.HTTP+"/health/ready", "", nil); err != nil {
			return fmt.Sprintf("agent %s is not ready: %v%s", m.ID, err, c.tail(m.ID))
		}
	}
	url := c.layout.url()
	if err := get(ctx, client, url+"/health/ready", "", nil); err != nil {
		return fmt.Sprintf("the gateway is not ready: %v%s", err, c.tail(kindGateway))
	}
	var nodes struct {
		Data struct {
			Nodes []struct {
				NodeID string `json:"node_id"`
				State  string `json:"state"`
				Roster bool   `json:"roster_current"`
			} `json:"nodes"`
		} `json:"data"`
	}
	if err := get(ctx, client, url+"/v1/modules/scaimind/cluster/nodes", c.layout.Token, &nodes); err != nil {
		return fmt.Sprintf("the gateway does not list the nodes: %v%s", err, c.tail(kindGateway))
	}
	ready, replaceable := map[string]bool{}, map[string]bool{}
	for _, n := range nodes.Data.Nodes {
		ready[n.NodeID], replaceable[n.NodeID] = n.State == "READY", n.Roster
	}
	for _, m := range c.layout.Agents {
		if !ready[m.ID] {
			return fmt.Sprintf("agent %s is not registered%s", m.ID, c.tail(m.ID))
		}
		if !replaceable[m.ID] {
			return fmt.Sprintf("agent %s does not have the roster yet%s", m.ID, c.tail(m.ID))
		}
	}
	return ""
}

func get(ctx context.Context, client *http.Client, url, token string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", strings.TrimPrefix(url, "http://"), answer.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
