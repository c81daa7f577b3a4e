package call

import (
	"strings"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/pki"
)

// Who may make a call, by the role of its certificate. Coordinators are among those of every call that a follower hands on to
// the leader, or that a coordinator makes itself.
var (
	agents   = []string{pki.RoleAgent}
	users    = []string{pki.RoleGateway, pki.RoleOperator, pki.RoleCoordinator} // on behalf of users
	programs = []string{pki.RoleGateway, pki.RoleCoordinator}                   // of the cluster, for themselves
	ops      = []string{pki.RoleOperator, pki.RoleCoordinator}
	replicas = []string{pki.RoleCoordinator}
)

// Callers is the one table of who may call what: what is not in it, nobody may. A gateway reaches no operator call: who
// takes over a gateway must not be able to change the membership.
var Callers = map[string][]string{
	v1.AgentService_Session_FullMethodName:          agents,
	v1.AgentService_GetNeededOutputs_FullMethodName: agents,

	v1.JobService_SubmitJob_FullMethodName:        users,
	v1.JobService_SubmitJobs_FullMethodName:       users,
	v1.JobService_GetJob_FullMethodName:           users,
	v1.JobService_ListJobs_FullMethodName:         users,
	v1.JobService_CancelJob_FullMethodName:        users,
	v1.JobService_PauseJob_FullMethodName:         users,
	v1.JobService_ResumeJob_FullMethodName:        users,
	v1.JobService_RetryJob_FullMethodName:         users,
	v1.JobService_ExplainJob_FullMethodName:       users,
	v1.JobService_StreamJobLogs_FullMethodName:    users,
	v1.JobService_GetJobMetrics_FullMethodName:    users,
	v1.JobService_StreamJobMetrics_FullMethodName: users,
	v1.JobService_ListCheckpoints_FullMethodName:  users,
	v1.JobService_GetCheckpoint_FullMethodName:    users,
	v1.JobService_DeleteCheckpoint_FullMethodName: users,

	v1.EvaluationService_SubmitEvaluation_FullMethodName:   users,
	v1.EvaluationService_GetEvaluation_FullMethodName:      users,
	v1.EvaluationService_ListEvaluations_FullMethodName:    users,
	v1.EvaluationService_CompareEvaluations_FullMethodName: users,

	v1.ClusterService_GetCluster_FullMethodName:  users,
	v1.ClusterService_ListNodes_FullMethodName:   users,
	v1.ClusterService_GetNode_FullMethodName:     users,
	v1.ClusterService_DrainNode_FullMethodName:   users,
	v1.ClusterService_EnableNode_FullMethodName:  users,
	v1.ClusterService_ForgetNode_FullMethodName:  users,
	v1.ClusterService_GetQueue_FullMethodName:    users,
	v1.ClusterService_ListQueues_FullMethodName:  users,
	v1.ClusterService_PutQueue_FullMethodName:    users,
	v1.ClusterService_DeleteQueue_FullMethodName: users,

	v1.DataService_ValidateData_FullMethodName: users,
	v1.DataService_GetDataCache_FullMethodName: users,

	v1.EventService_WatchEvents_FullMethodName: users,

	v1.LauncherService_ListLaunchers_FullMethodName:  users,
	v1.LauncherService_PutLauncher_FullMethodName:    users,
	v1.LauncherService_DeleteLauncher_FullMethodName: users,

	v1.QuotaService_GetQuota_FullMethodName:    users,
	v1.QuotaService_ListQuotas_FullMethodName:  users,
	v1.QuotaService_PutQuota_FullMethodName:    users,
	v1.QuotaService_DeleteQuota_FullMethodName: users,

	v1.TokenService_CreateToken_FullMethodName:        users,
	v1.TokenService_ListTokens_FullMethodName:         users,
	v1.TokenService_RevokeToken_FullMethodName:        users,
	v1.TokenService_VerifyToken_FullMethodName:        programs,
	v1.TokenService_CreateStreamTicket_FullMethodName: programs,
	v1.TokenService_RedeemStreamTicket_FullMethodName: programs,

	v1.AuditService_ListAuditRecords_FullMethodName: users,
	v1.AuditService_RecordDenials_FullMethodName:    programs,

	v1.OperatorService_ListPeers_FullMethodName:          ops,
	v1.OperatorService_TransferLeadership_FullMethodName: ops,
	v1.OperatorService_RemovePeer_FullMethodName:         ops,
	v1.OperatorService_SaveSnapshot_FullMethodName:       {pki.RoleOperator},
	v1.OperatorService_RecordSnapshot_FullMethodName:     replicas,
	v1.OperatorService_GetStateHash_FullMethodName:       ops,
	v1.OperatorService_JoinPeer_FullMethodName:           replicas,
	v1.OperatorService_DescribeReplica_FullMethodName:    replicas,
	v1.OperatorService_ReadIndex_FullMethodName:          replicas,
	v1.OperatorService_GetVotes_FullMethodName:           replicas,
	v1.OperatorService_GetNodeActivity_FullMethodName:    replicas,

	healthpb.Health_Check_FullMethodName: users,
	healthpb.Health_Watch_FullMethodName: users,
	healthpb.Health_List_FullMethodName:  users,
}

// MayCall checks the certificate of a caller against the table.
func MayCall(who pki.Identity, full string) error {
	if !who.Is(Callers[full]...) {
		return grpcstatus.Errorf(codes.PermissionDenied, "the certificate says %s, which may not call %s", who, Method(full))
	}
	return nil
}

// Method is the last part of a full method name.
func Method(full string) string { return full[strings.LastIndexByte(full, '/')+1:] }
