// The drawing of a flow (FlowGraph v2), the table of the kinds of nodes, and what the gateway says about both.

export interface Port {
  id: string;
  label?: string;
  type?: string;
}

export interface FlowNode {
  id: string;
  type: string;
  label: string;
  position: { x: number; y: number };
  config?: Record<string, unknown>;
  inputs?: Port[];
  outputs?: Port[];
  breakpoint?: boolean;
}

export interface End {
  node: string;
  port: string;
}

export type EdgeType = "sequential" | "conditional" | "data";

export interface FlowEdge {
  id: string;
  type: EdgeType;
  source: End;
  target: End;
  condition?: string;
}

/** Graph is never changed in place: whoever changes it makes another one that shares the parts that stay. */
export interface Graph {
  id: string;
  name: string;
  version: string;
  nodes: FlowNode[];
  edges: FlowEdge[];
  config: Record<string, unknown>;
  [more: string]: unknown;
}

export type FieldType = "text" | "template" | "expression" | "name" | "int" | "bool" | "duration" | "choice" | "list" | "map" | "bindings" | "any";

export interface Field {
  name: string;
  type: FieldType;
  required?: boolean;
  default?: unknown;
  choices?: string[];
  /** Both bound an int; absent: nothing does. */
  min?: number;
  max?: number;
  help: string;
}

export interface Spec {
  kind: string;
  category: string;
  label: string;
  help: string;
  /** False for a kind that can be drawn, and that the cluster does not run yet. */
  runs: boolean;
  inputs: Port[];
  outputs: Port[];
  fields: Field[];
  /** Whether a node may have other outputs than its kind. */
  own_outputs?: boolean;
  /** The fields of the result that are the same for each node of the kind. */
  result?: ResultField[];
}

export interface ResultField {
  name: string;
  type: string;
  help: string;
}

/** Signature is how a function of expressions is called. */
export interface Signature {
  name: string;
  call: string;
  /** The type of the value before its dot: string, list, map or any; absent: it is written without one. */
  of?: string;
  returns: string;
  help: string;
}

/** Place is a part of an expression, in units of UTF-16. */
export interface Place {
  from: number;
  to: number;
}

export interface ExpressionCheck {
  problems: (Place & { message: string })[];
  names: (Place & { name: string })[];
}

export interface Category {
  name: string;
  label: string;
  colour: string;
}

export interface KindTable {
  kinds: Spec[];
  categories: Category[];
  functions: Signature[];
}

export interface Diagnostic {
  severity: "error" | "warning";
  code: string;
  message: string;
  path?: string;
  node_id?: string | null;
  edge_id?: string | null;
}

export interface FlowSummary {
  id: string;
  name: string;
  description: string;
  owner_id: string;
  version: string;
  created_at: string;
  updated_at: string;
  /** The right of the caller: view, edit, deploy or admin. */
  level?: string;
}

export interface FlowDetail extends FlowSummary {
  content: Graph;
}

export interface FlowVersion {
  version: string;
  created_by: string;
  created_at: string;
  content?: Graph;
}

export interface Deployment {
  deployment_id: string;
  version: string;
  core_id: string;
  core_slug: string;
  core_version: number;
  deployed_by: string;
  deployed_at: string;
}
