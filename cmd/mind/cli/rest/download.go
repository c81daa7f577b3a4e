package rest

import (
	"context"
	"io"
	"net/http"
)

// Download opens the answer of a path that is not JSON, and returns its headers. The caller closes it.
func (c *Client) Download(ctx context.Context, path string) (io.ReadCloser, http.Header, error) {
	req, err := c.request(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return nil, nil, c.advised(err)
	}
	if answer.StatusCode >= 300 {
		defer answer.Body.Close()
		text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		if err != nil {
			return nil, nil, err
		}
		return nil, nil, c.advised(c.refused(http.MethodGet, path, answer.StatusCode, text))
	}
	return answer.Body, answer.Header, nil
}
