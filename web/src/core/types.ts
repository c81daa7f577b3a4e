// What the pages read of the gateway's answers. Answers may have more fields; /openapi.json has all of them.

export interface Coordinator {
  id: string;
  leader: boolean;
  voter: boolean;
  liveness: string;
  // These come with /cluster/coordinators only; null while it does not answer.
  term?: number | null;
  last_index?: number | null;
  applied_index?: number | null;
  lag?: number | null;
  state_hash?: string;
  program?: string;
  oldest_level?: number | null;
  newest_level?: number | null;
  reachable?: boolean;
}

export interface Replicas {
  coordinators: Coordinator[];
  leader: string;
  term: number;
  quorum: number;
  voters_reachable: number;
  hash_index: number;
  hashes: "AGREE" | "DIFFER" | "UNKNOWN" | null;
  feature_level: number;
  answered_by: string;
}

export interface Cluster {
  nodes_total: number;
  nodes_ready: number;
  gpus_total: number;
  gpus_allocated: number;
  gpus_healthy: number;
  gpu_utilization: number | null;
  gpu_allocation: number;
  jobs: Record<string, number>;
  gpu_types: { gpu_type: string; total: number; free: number }[];
  leader: string;
  coordinators: Coordinator[];
}

export interface ResourceConfig {
  gpu_count?: number;
  gpu_type?: string;
  gpu_fraction?: number;
  node_count?: number;
  cpu_count?: number;
  memory_mb?: number;
}

export interface PastAttempt {
  attempt: number;
  nodes: string[];
  exit_code: number | null;
  error_type: string | null;
  reason: string;
  started_at: string | null;
  finished_at: string | null;
  failed_node: string;
}

export interface Task {
  rank: number;
  node_id: string;
  gpus: string[];
  state: string | null;
  exit_code: number | null;
  started_at: string | null;
  finished_at: string | null;
}

export interface Job {
  job_id: string;
  name: string;
  user_id: string;
  status: string;
  state: string;
  priority: number;
  queue: string;
  queue_position: number | null;
  estimated_start_at: string | null;
  labels: Record<string, string>;
  resource_config: ResourceConfig | null;
  command_config: { argv?: string[]; command?: string; cwd?: string; environment?: Record<string, string> } | null;
  training_config: Record<string, unknown> | null;
  scheduling_config: Record<string, unknown> | null;
  attempt: number;
  exit_code: number | null;
  error_type: string | null;
  error_message: string;
  reason: string;
  nodes: string[];
  progress: { step: number; total_steps: number } | null;
  created_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  tasks: Task[];
  retries: Record<string, number> | null;
  stopping: string | null;
  past_attempts: PastAttempt[];
  held: boolean;
}

export interface JobPage {
  jobs: Job[];
  next_page_token: string;
  total_count: number;
  total_count_is_minimum?: boolean;
  facets?: { status?: Record<string, number>; queue?: Record<string, number> } | null;
}

export interface NodeCount {
  check: string;
  nodes: number;
  examples: string[];
}

export interface Obstacle {
  kind: string;
  message: string;
  job_ids: string[];
  node_ids: string[];
  queue: string;
  tenant: string;
  resource: string;
  limit: number | null;
  used: number | null;
  needed: number | null;
  until: string | null;
  count: number | null;
  nodes: NodeCount[];
}

export interface Remedy {
  answer: { starts_now: boolean; node_ids: string[]; preempts: number; what_if: string[] } | null;
  message: string;
  flags: string;
  command: string;
  operator: boolean;
}

export interface Explanation {
  status: string;
  reason: string;
  queue_position: number | null;
  obstacles: Obstacle[];
  estimated_start_at: string | null;
  starts_after: string;
  remedies: Remedy[];
}

export interface QueuedJob {
  job_id: string;
  name: string;
  queue: string;
  position: number;
  priority: number;
  gpu_count: number;
  gpu_type: string;
  reason: string;
  created_at: string;
  estimated_wait_seconds: number | null;
}

export interface QueueHead {
  depth: number;
  held: number;
  jobs: QueuedJob[];
}

export interface Queue {
  name: string;
  parent: string;
  weight: number;
  share_percent: number;
  queued: number;
  held: number;
  running: number;
  gpus_allocated: number;
  gpus_lately: number;
  max_gpus: number;
}

export interface Gpu {
  uuid: string;
  index: number;
  model: string;
  gpu_type: string;
  memory_mb: number;
  nvlink_peers: number[];
  health: string;
  health_reason: string;
  simulated: boolean;
  job_id: string;
  utilization: number | null;
  memory_used_mb: number | null;
}

export interface Node {
  node_id: string;
  state: string;
  reason: string;
  hostname: string;
  gpus: Gpu[];
  gpus_free: number;
  cpu_count: number;
  memory_mb: number;
  labels: Record<string, string>;
  agent_version: string;
  last_seen_at: string | null;
  registered_at: string | null;
  unreachable_since: string | null;
  drain_deadline: string | null;
  job_ids: string[];
  tasks: number;
  domains: { level: string; name: string }[];
}

export interface DrainEffect {
  job_id: string;
  name: string;
  effect: string;
  stops_at: string | null;
  resumes_from: string;
}

export interface Checkpoint {
  checkpoint_id: string;
  attempt: number;
  step: number;
  node_id: string;
  size_bytes: number;
  uploaded_bytes: number;
  metrics: Record<string, unknown> | null;
  created_at: string;
  state: string;
  kind: string;
  pinned: boolean;
  reason: string;
  uri: string;
}

export interface SeriesPoint {
  time: string;
  step: number | null;
  min: number;
  max: number;
  mean: number;
  last: number;
}

export interface Series {
  name: string;
  attempt: number;
  rank: number;
  unit: string;
  not_finite: number;
  points: SeriesPoint[];
}

export interface Failover {
  term: number;
  leader: string;
  previous_leader: string;
  index: number;
  at: string;
  stood_still_seconds: number | null;
  /** null: for operators alone. */
  jobs_running: number | null;
  jobs_harmed: number | null;
}

export interface Session {
  session_id?: string;
  tenant_id: string;
  user_id: string;
  permissions: string[];
  expires_at?: string | null;
}

export interface ClusterEvent {
  index: number;
  position: number;
  cursor: string;
  topic: string;
  time: string;
  job_id: string;
  attempt: number;
  status_from: string | null;
  status_to: string | null;
  stopping: string | null;
  nodes: string[];
  node_from: string | null;
  node_to: string | null;
  granted: boolean;
  checkpoint_id: string;
  name: string;
  transfer: string;
}
