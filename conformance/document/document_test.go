package document

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

const small = `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{
	"/v1/jobs/{id}":{"post":{
		"parameters":[{"name":"id","in":"path","schema":{"type":"string"}},{"name":"follow","in":"query","schema":{"type":"boolean"}}],
		"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Job"}}}},
		"responses":{"200":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Job"}}}}}}}},
	"components":{"schemas":{"Job":{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}}}}`

func TestDocument_saysWhichAnswersItHas(t *testing.T) {
	d, err := Parse([]byte(small))
	require.NoError(t, err)
	require.Equal(t, []string{"POST /jobs/{id}"}, d.Names("/v1"))
	require.NoError(t, d.Answers("POST", "/v1/jobs/{id}", 200, []byte(`{"name":"x"}`)))
	for says, err := range map[string]error{
		"does not match its schema":      d.Answers("POST", "/v1/jobs/{id}", 200, []byte(`{}`)),
		"is not JSON":                    d.Answers("POST", "/v1/jobs/{id}", 200, []byte(`{`)),
		"HTTP 404 is not documented":     d.Answers("POST", "/v1/jobs/{id}", 404, []byte(`{}`)),
		"is not in the OpenAPI document": d.Answers("GET", "/v1/jobs/{id}", 200, []byte(`{}`)),
	} {
		require.ErrorContains(t, err, says)
	}
	op, ok := d.Operation("POST", "/v1/jobs/{id}")
	require.True(t, ok)
	require.Contains(t, d.BodySchema(op), "properties")
	_, err = Parse([]byte("no"))
	require.ErrorContains(t, err, "reading the OpenAPI document")
}

// A seed draws the same requests again. Most bodies are JSON; a stream that is asked for ends.
func TestGenerator_drawsAgainWhatItDrew(t *testing.T) {
	d, err := Parse([]byte(small))
	require.NoError(t, err)
	op, _ := d.Operation("POST", "/v1/jobs/{id}")
	draw := func() (all []Drawn) {
		g := Generator{Rand: rand.New(rand.NewPCG(7, 0)), Document: d, IDs: []string{"job_1"}}
		for range 200 {
			all = append(all, g.Request(op, "/v1/jobs/{id}", map[string]any{"name": "x"}))
		}
		return all
	}
	all := draw()
	require.Equal(t, all, draw())
	valid := 0
	for _, one := range all {
		require.NotContains(t, one.Path, "{id}")
		require.Equal(t, "follow=false", one.Query)
		if json.Valid(one.Body) {
			valid++
		}
	}
	require.Greater(t, valid, 100)
}
