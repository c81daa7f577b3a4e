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
	// KeyForwarded is set by a coordinator that hands a call on to the leader:
	// it must not be handed on again.
	KeyForwarded = "x-mind-forwarded"
	// KeyOperator is set for callers who may run the cluster, by whoever checked
	// that. With calls about nodes it widens what they tell of tasks to a number
	// of all tenants', and gives no right; with calls about quotas and the audit
	// log it says that the caller may name any tenant.
	KeyOperator = "x-mind-operator"
	// KeyDriveToken and KeyAtlasToken are bearer tokens of the caller for
	// ScaiDrive and ScaiAtlas, minted for this call. They are neither logged nor
	// stored in the clear.
	KeyDriveToken = "x-scaidrive-token"
	KeyAtlasToken = "x-scaiatlas-token"
	// KeyToken is the id of the API token that the caller came with, if he came
	// with one; it goes into the audit log.
	KeyToken = "x-mind-token-id"
)

// Metadata of answers, in header and trailer.
const (
	// KeyIndex is the state index that an answer reflects, in decimal.
	KeyIndex = "x-mind-index"
	// KeyLeader is the leader that the answering coordinator knows, as
	// "id=grpc_addr".
	KeyLeader = "x-mind-leader"
	// KeyOutcome comes with UNAVAILABLE: NotSent or Unknown; and with
	// RESOURCE_EXHAUSTED: NotSent, or QuotaExceeded.
	KeyOutcome = "x-mind-outcome"
)

// Values of KeyOutcome and KeyConsistency.
const (
	// NotSent: the call had no effect and never will; repeat it at will.
	NotSent = "not_sent"
	// Unknown: the call may have taken effect, or may yet; repeat it only with
	// its idempotency key.
	Unknown = "unknown"
	// QuotaExceeded: a quota forbids it. To repeat it is of no use until
	// something of the tenant's has ended, or the quota was raised.
	QuotaExceeded = "quota_exceeded"

	Linearizable = "linearizable"
	Stale        = "stale"
)

// AutoKeyPrefix marks idempotency keys that a gateway minted for a request
// which brought none. They expire sooner.
const AutoKeyPrefix = "auto:"
