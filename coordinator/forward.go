package coordinator

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"google.golang.org/protobuf/proto"
)

// writes are the methods that only the leader can serve, with the message that each answers.
var writes = map[string]func() proto.Message{
	v1.JobService_SubmitJob_FullMethodName:               func() proto.Message { return new(v1.SubmitJobResponse) },
	v1.JobService_SubmitJobs_FullMethodName:              func() proto.Message { return new(v1.SubmitJobsResponse) },
	v1.JobService_CancelJob_FullMethodName:               func() proto.Message { return new(v1.CancelJobResponse) },
	v1.JobService_PauseJob_FullMethodName:                func() proto.Message { return new(v1.PauseJobResponse) },
	v1.JobService_ResumeJob_FullMethodName:               func() proto.Message { return new(v1.ResumeJobResponse) },
	v1.JobService_RetryJob_FullMethodName:                func() proto.Message { return new(v1.RetryJobResponse) },
	v1.JobService_DeleteCheckpoint_FullMethodName:        func() proto.Message { return new(v1.DeleteCheckpointResponse) },
	v1.EvaluationService_SubmitEvaluation_FullMethodName: func() proto.Message { return new(v1.SubmitEvaluationResponse) },
	v1.ClusterService_PutQueue_FullMethodName:            func() proto.Message { return new(v1.PutQueueResponse) },
	v1.ClusterService_DeleteQueue_FullMethodName:         func() proto.Message { return new(v1.DeleteQueueResponse) },
	v1.ClusterService_DrainNode_FullMethodName:           func() proto.Message { return new(v1.DrainNodeResponse) },
	v1.ClusterService_EnableNode_FullMethodName:          func() proto.Message { return new(v1.EnableNodeResponse) },
	v1.ClusterService_ForgetNode_FullMethodName:          func() proto.Message { return new(v1.ForgetNodeResponse) },
	v1.TokenService_CreateToken_FullMethodName:           func() proto.Message { return new(v1.CreateTokenResponse) },
	v1.TokenService_RevokeToken_FullMethodName:           func() proto.Message { return new(v1.RevokeTokenResponse) },
	v1.TokenService_VerifyToken_FullMethodName:           func() proto.Message { return new(v1.VerifyTokenResponse) },
	v1.TokenService_CreateStreamTicket_FullMethodName:    func() proto.Message { return new(v1.CreateStreamTicketResponse) },
	v1.TokenService_RedeemStreamTicket_FullMethodName:    func() proto.Message { return new(v1.RedeemStreamTicketResponse) },
	v1.LauncherService_PutLauncher_FullMethodName:        func() proto.Message { return new(v1.PutLauncherResponse) },
	v1.LauncherService_DeleteLauncher_FullMethodName:     func() proto.Message { return new(v1.DeleteLauncherResponse) },
	v1.QuotaService_PutQuota_FullMethodName:              func() proto.Message { return new(v1.PutQuotaResponse) },
	v1.QuotaService_DeleteQuota_FullMethodName:           func() proto.Message { return new(v1.DeleteQuotaResponse) },
	v1.AuditService_RecordDenials_FullMethodName:         func() proto.Message { return new(v1.RecordDenialsResponse) },
	v1.OperatorService_GetNodeActivity_FullMethodName:    func() proto.Message { return new(v1.GetNodeActivityResponse) },
	v1.OperatorService_TransferLeadership_FullMethodName: func() proto.Message { return new(v1.TransferLeadershipResponse) },
	v1.OperatorService_JoinPeer_FullMethodName:           func() proto.Message { return new(v1.JoinPeerResponse) },
	v1.OperatorService_RemovePeer_FullMethodName:         func() proto.Message { return new(v1.RemovePeerResponse) },
	v1.OperatorService_RecordSnapshot_FullMethodName:     func() proto.Message { return new(v1.RecordSnapshotResponse) },
}
