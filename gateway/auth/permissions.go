package auth

// The permissions that routes require.
const (
	PermissionView         = "scaimind:view"
	PermissionManage       = "scaimind:manage"
	PermissionClusterAdmin = "scaimind:cluster_admin"
	PermissionEvaluate     = "scaimind:evaluate"
)

// AllPermissions are the four permissions of ScaiMind.
var AllPermissions = []string{PermissionView, PermissionManage, PermissionClusterAdmin, PermissionEvaluate}

// PermissionOperator lets a caller act for every tenant. It is not one of ScaiMind's permissions: it is given to operators
// of the cluster in the gateway's configuration, and no role includes it.
const PermissionOperator = "mind:operator"
