package gatewaytest

// Greeting is a drawing of a flow that can be compiled, with its tests.
const Greeting = `{"id":"flow_1","name":"Greet","version":"1.0.0","nodes":[
	{"id":"start","type":"entry_api","label":"Start","position":{"x":0,"y":0}},
	{"id":"hello","type":"llm_rigid","label":"Hello","position":{"x":200,"y":0},"config":{"template":"Hello {{request.name}}"}}],
	"edges":[{"id":"e","type":"sequential","source":{"node":"start","port":"out_request"},"target":{"node":"hello","port":"in"}}],
	"config":{},"tests":[
		{"name":"Ada","input":{"name":"Ada"},"expect":{"output":"Hello Ada"}},
		{"name":"Bob","input":{"name":"Bob"},"expect":{"output":"Hello Ada"}}]}`
