package gateway

import (
	"net/http"

	"github.com/mindcoordinator/mind/api/denials"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// Server is a server with its inside, for tests.
type Server = server

// TellDenialsWithin limits a report of denied requests.
const TellDenialsWithin = tellDenialsWithin

// NewServer returns a server for a configuration. It must be closed.
func NewServer(config Config) (*Server, error) { return newServer(config.withDefaults()) }

// Close frees what the server holds.
func (s *server) Close() { s.close() }

// Router returns the handler of all routes, and HandlerOf that of one.
func (s *server) Router() http.Handler                     { return s.router() }
func (s *server) HandlerOf(route *rest.Route) http.Handler { return s.handler(route) }

// Endpoints and Routes return the table. They need no more than a zero server.
func (s *server) Endpoints() []rest.Endpoint                  { return s.endpoints() }
func (s *server) Routes() ([]rest.Route, []openapi.Operation) { return s.routes() }

// Reports returns the settings for reporting denied requests.
func (s *server) Reports() denials.Reports { return s.reports() }

// Drain lets the server say that it shuts down.
func (s *server) Drain() { s.draining.Store(true) }

// TakesBody, HasOtherFields and Protocols are functions of this package.
var (
	TakesBody      = takesBody
	HasOtherFields = hasOtherFields
	Protocols      = protocols
)
