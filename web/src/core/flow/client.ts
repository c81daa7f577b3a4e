// What the canvas asks the gateway.
import { query, type Client } from "../api";
import type { Diagnostic, Deployment, ExpressionCheck, FlowDetail, FlowSummary, FlowVersion, Graph } from "./types";

export const flowsPath = "/v1/flows";
export const coresPath = "/v1/modules/scaicore";

export const flowPath = (id: string, ...more: string[]) => [flowsPath, id, ...more].map((s, i) => (i === 0 ? s : encodeURIComponent(s))).join("/");
export const corePath = (...segments: string[]) => coresPath + segments.map((s) => "/" + encodeURIComponent(s)).join("");

export const listPath = (search: string) => flowsPath + query({ search: search.trim(), limit: 200 });

export interface FlowPage {
  items: FlowSummary[];
  total: number;
}

export interface Deployed {
  deployment_id: string;
  core_id: string;
  core_slug: string;
  core_version: number;
  published_slug: string | null;
  warnings: (string | Diagnostic)[];
}

export interface Compiled {
  format: string;
  body: string | null;
  errors: (string | Diagnostic)[];
}

export interface FlowClient {
  create(name: string, description: string, content: Graph): Promise<FlowDetail>;
  get(id: string): Promise<FlowDetail>;
  version(id: string, version: string): Promise<FlowVersion>;
  /** Saves a content that was made from a version; another one there is a Problem version_conflict. */
  save(id: string, change: { name?: string; description?: string; content?: Graph }, basedOn: string): Promise<FlowDetail>;
  remove(id: string): Promise<void>;
  validate(content: Graph, signal: AbortSignal): Promise<{ valid: boolean; diagnostics: Diagnostic[] }>;
  /** Says where a text is no expression, and which names it uses. */
  expression(text: string, template: boolean, signal: AbortSignal): Promise<ExpressionCheck>;
  compile(content: Graph, format: "yaml" | "ir", signal: AbortSignal): Promise<Compiled>;
  deploy(id: string, start: boolean): Promise<Deployed>;
  deployments(id: string): Promise<Deployment[]>;
}

export function flowClient(client: Client): FlowClient {
  return {
    create: async (name, description, content) => (await client.write<FlowDetail>("POST", flowsPath, { name, description, content })).data,
    get: async (id) => (await client.get<FlowDetail>(flowPath(id))).data,
    version: async (id, version) => (await client.get<FlowVersion>(flowPath(id, "versions", version))).data,
    save: async (id, change, basedOn) => (await client.write<FlowDetail>("PUT", flowPath(id), change, { "If-Match": `"${basedOn}"` })).data,
    remove: async (id) => void (await client.write("DELETE", flowPath(id))),
    validate: async (content, signal) => (await client.write<{ valid: boolean; diagnostics: Diagnostic[] }>("POST", `${flowsPath}/validate`, { content }, {}, signal)).data,
    expression: async (text, template, signal) => (await client.write<ExpressionCheck>("POST", `${flowsPath}/expressions`, { text, template }, {}, signal)).data,
    compile: async (content, format, signal) => (await client.write<Compiled>("POST", `${flowsPath}/compile`, { content, format }, {}, signal)).data,
    deploy: async (id, start) => (await client.write<Deployed>("POST", flowPath(id, "deploy"), { start })).data,
    deployments: async (id) => (await client.get<{ items: Deployment[] }>(flowPath(id, "deployments"))).data.items,
  };
}

/** decoded is the text in base64 of UTF-8. */
export function decoded(base64: string): string {
  return new TextDecoder().decode(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));
}
