package rest

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/coder/websocket"
)

// Socket opens the WebSocket of a path. The caller closes it.
func (c *Client) Socket(ctx context.Context, path string, query url.Values, protocol string) (*websocket.Conn, error) {
	req, err := c.request(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return nil, err
	}
	conn, answer, err := websocket.Dial(ctx, req.URL.String(), &websocket.DialOptions{
		HTTPClient: c.http, HTTPHeader: req.Header, Subprotocols: []string{protocol}, CompressionMode: websocket.CompressionDisabled,
	})
	if err == nil {
		return conn, nil
	}
	if answer != nil && answer.StatusCode >= 300 {
		text, _ := io.ReadAll(answer.Body) // the part that was read says enough
		return nil, c.advised(c.refused(http.MethodGet, path, answer.StatusCode, text))
	}
	return nil, c.advised(err)
}
