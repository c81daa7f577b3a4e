package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

// pageSize is the number of items requested at a time.
const pageSize = 100

// List reads pages of a path until it has limit items or there are no more; name is the field that holds them. It
// returns each item both decoded and in its original form. A page may be empty without being the last.
func List[T any](ctx context.Context, c *Client, path, name string, query url.Values, limit int) (all []T, raw []json.RawMessage, total Count, err error) {
	raw = []json.RawMessage{}
	for len(all) < limit {
		query.Set("page_size", strconv.Itoa(min(pageSize, limit-len(all))))
		var page struct {
			Next string `json:"next_page_token"`
			Count
		}
		data, err := c.Get(ctx, path, query, &page)
		if err != nil {
			return nil, nil, Count{}, err
		}
		var fields map[string]json.RawMessage
		var items []json.RawMessage
		if err := json.Unmarshal(data, &fields); err != nil {
			return nil, nil, Count{}, notUnderstood(err)
		}
		if text, ok := fields[name]; ok {
			if err := json.Unmarshal(text, &items); err != nil {
				return nil, nil, Count{}, notUnderstood(err)
			}
		}
		for _, text := range items {
			var item T
			if err := json.Unmarshal(text, &item); err != nil {
				return nil, nil, Count{}, notUnderstood(err)
			}
			all = append(all, item)
		}
		raw, total = append(raw, items...), page.Count
		if page.Next == "" || page.Next == query.Get("page_token") {
			break
		}
		query.Set("page_token", page.Next)
	}
	return all, raw, total, nil
}

// Count is the total number of items of a list.
type Count struct {
	Total int `json:"total_count"`
	// AtLeast: the total may be larger, because not all items were counted.
	AtLeast bool `json:"total_count_is_minimum"`
}

// More prints on stderr that not all items were shown.
func (n Count) More(cmd *cobra.Command, shown int) {
	switch {
	case n.AtLeast:
		fmt.Fprintf(cmd.ErrOrStderr(), "%d of at least %d; more with --limit\n", shown, max(shown, n.Total))
	case n.Total > shown:
		fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d; more with --limit\n", shown, n.Total)
	}
}

// Of returns a list as JSON, with its total.
func (n Count) Of(name string, raw []json.RawMessage) map[string]any {
	return map[string]any{name: raw, "total_count": n.Total, "total_count_is_minimum": n.AtLeast}
}
