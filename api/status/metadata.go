package status

// Metadata of calls to coordinators.
const (
	KeySecret      = "x-api-secret"
	KeyTenant      = "x-tenant-id"
	KeyUser        = "x-user-id"
	KeyRequestID   = "x-request-id"
	KeyIdempotency = "idempotency-key"
	// KeyConsistency is Linearizable (when absent) or Stale.
	KeyConsistency = "x-mind-consistency"
	// KeyForwarded is set by a coordinator that forwards a call to the leader: the call must not be forwarded again.
	KeyForwarded = "x-mind-forwarded"
	// KeyOperator is set for callers that may operate the cluster, after that was checked. In calls about nodes it
	// gives no right; the number of tasks then counts those of all tenants. In calls about quotas and the audit log it
	// allows any tenant to be named.
	KeyOperator = "x-mind-operator"
	// KeyDriveToken and KeyAtlasToken are the caller's bearer tokens for ScaiDrive and ScaiAtlas, requested for this call.
	// They are neither logged nor stored in plain text.
	KeyDriveToken = "x-scaidrive-token"
	KeyAtlasToken = "x-scaiatlas-token"
	// KeyMember has the groups and roles of the user, one a value: "group:ID", "role:NAME". Decisions may ask for them.
	KeyMember = "x-mind-member"
	// KeyToken is the id of the API token that the caller used, if any; it goes into the audit log.
	KeyToken = "x-mind-token-id"
)

// Metadata of answers, in header and trailer.
const (
	// KeyIndex is the state index that an answer reflects, in decimal.
	KeyIndex = "x-mind-index"
	// KeyLeader is the leader that the answering coordinator knows, as
	// "id=grpc_addr".
	KeyLeader = "x-mind-leader"
	// KeyOutcome comes with UNAVAILABLE: NotSent, Unknown or NodeSilent; and with
	// RESOURCE_EXHAUSTED: NotSent, or QuotaExceeded.
	KeyOutcome = "x-mind-outcome"
)

// Values of KeyOutcome and KeyConsistency.
const (
	// NotSent says that the call had no effect and never will. It may be repeated.
	NotSent = "not_sent"
	// Unknown says that the call may have had an effect, or may still have one. Repeat it only with its idempotency
	// key.
	Unknown = "unknown"
	// QuotaExceeded says that a quota forbids the call. Repeating it is useless until one of the tenant's jobs has
	// ended, or the quota was raised.
	QuotaExceeded = "quota_exceeded"
	// NodeSilent says that the node that the call needs does not answer, although the coordinators do. Another
	// coordinator would answer the same.
	NodeSilent = "node_silent"

	Linearizable = "linearizable"
	Stale        = "stale"
)

// AutoKeyPrefix marks idempotency keys that a gateway created for a request without one. They expire sooner.
const AutoKeyPrefix = "auto:"
