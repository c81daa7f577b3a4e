package auth

// The permissions that routes require.
const (
	PermissionView         = "scaimind:view"
	PermissionManage       = "scaimind:manage"
	PermissionClusterAdmin = "scaimind:cluster_admin"
	PermissionEvaluate     = "scaimind:evaluate"
)

// The permissions of ScaiCore, as published. Nothing requires those to debug and to delegate yet.
const (
	CoreView     = "scaicore:view"
	CoreManage   = "scaicore:manage"
	CoreDebug    = "scaicore:debug"
	CoreResolve  = "scaicore:checkpoint_resolve"
	CoreDelegate = "scaicore:delegate"
	CoreAdmin    = "scaicore:admin"
)

// AllPermissions are the permissions of ScaiMind and of ScaiCore.
var AllPermissions = []string{
	PermissionView, PermissionManage, PermissionClusterAdmin, PermissionEvaluate,
	CoreView, CoreManage, CoreDebug, CoreResolve, CoreDelegate, CoreAdmin,
}

// PermissionOperator lets a caller act for every tenant. It is not one of ScaiMind's permissions: it is given to operators
// of the cluster in the gateway's configuration, and no role includes it.
const PermissionOperator = "mind:operator"
