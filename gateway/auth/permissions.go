package auth

// The permissions that routes ask for.
const (
	PermissionView         = "scaimind:view"
	PermissionManage       = "scaimind:manage"
	PermissionClusterAdmin = "scaimind:cluster_admin"
	PermissionEvaluate     = "scaimind:evaluate"
)

// AllPermissions are the four of ScaiMind.
var AllPermissions = []string{PermissionView, PermissionManage, PermissionClusterAdmin, PermissionEvaluate}

// PermissionOperator lets a caller make tokens for every tenant. It is not one of ScaiMind's: it is given to those who run the
// cluster, in the gateway's configuration, and no role has it.
const PermissionOperator = "mind:operator"
