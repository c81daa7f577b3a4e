package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

var httpClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}}

// post returns an operation that posts body and expects the given status.
func post(url, token string, body []byte, want int) func(int) error {
	return func(int) error {
		req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := httpClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != want {
			err = fmt.Errorf("HTTP %d: %s", resp.StatusCode, answer)
		}
		return err
	}
}
