package client

import v1 "github.com/mindcoordinator/mind/api/scaimind/v1"

// reads are the unary methods that change nothing; they may be repeated. A
// method that is not here is taken for a write.
var reads = map[string]bool{
	v1.JobService_GetJob_FullMethodName:          true,
	v1.JobService_ListJobs_FullMethodName:        true,
	v1.JobService_ExplainJob_FullMethodName:      true,
	v1.JobService_GetJobMetrics_FullMethodName:   true,
	v1.JobService_ListCheckpoints_FullMethodName: true,
	v1.JobService_GetCheckpoint_FullMethodName:   true,

	v1.ClusterService_GetCluster_FullMethodName: true,
	v1.ClusterService_ListNodes_FullMethodName:  true,
	v1.ClusterService_GetNode_FullMethodName:    true,
	v1.ClusterService_GetQueue_FullMethodName:   true,
	v1.ClusterService_ListQueues_FullMethodName: true,

	v1.TokenService_ListTokens_FullMethodName:  true,
	v1.TokenService_VerifyToken_FullMethodName: true,

	v1.QuotaService_GetQuota_FullMethodName:   true,
	v1.QuotaService_ListQuotas_FullMethodName: true,

	v1.LauncherService_ListLaunchers_FullMethodName: true,

	v1.EvaluationService_GetEvaluation_FullMethodName:      true,
	v1.EvaluationService_ListEvaluations_FullMethodName:    true,
	v1.EvaluationService_CompareEvaluations_FullMethodName: true,

	v1.DataService_ValidateData_FullMethodName: true,
	v1.DataService_GetDataCache_FullMethodName: true,

	v1.AuditService_ListAuditRecords_FullMethodName: true,

	v1.OperatorService_ListPeers_FullMethodName:       true,
	v1.OperatorService_ReadIndex_FullMethodName:       true,
	v1.OperatorService_GetStateHash_FullMethodName:    true,
	v1.OperatorService_GetVotes_FullMethodName:        true,
	v1.OperatorService_DescribeReplica_FullMethodName: true,
	v1.OperatorService_GetNodeActivity_FullMethodName: true,
}

// slow are reads that wait for nodes: to ask another coordinator soon would only ask the same nodes again.
var slow = map[string]bool{
	v1.DataService_ValidateData_FullMethodName: true,
	v1.DataService_GetDataCache_FullMethodName: true,
}
