package gateway

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// validateData is a read by POST: it changes nothing, and needs no idempotency key.
func validateData(x *exchange) error {
	request := &v1.ValidateDataRequest{}
	if _, err := x.decode(request, false); err != nil {
		return err
	}
	return unary(x, request, x.server.sources.ValidateData, whole)
}

func getDataCache(x *exchange) error {
	return unary(x, &v1.GetDataCacheRequest{}, x.server.sources.GetDataCache, whole)
}
