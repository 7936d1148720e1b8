/**
 * The step protocol, as JSON has it; docs/runs.md tells what the fields do. Fields are only ever added, so that a runtime
 * reads what it knows and leaves the rest alone.
 */

/** Any JSON. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export interface StepRequest {
  runId: string;
  /** Counts from 1; each is committed once. */
  step: number;
  /** Counts from 1 within the step: a step comes again when its runtime was lost. */
  attempt: number;
  stepToken: string;
  /** How long the runtime may be silent. */
  leaseMs: number;
  cause: 'start' | 'results' | 'input' | 'recover';
  /** What the last commit left. A large one is named by checkpointRef instead. */
  checkpoint?: Json;
  checkpointRef?: { ref: string; hash: string; bytes?: number };
  checkpointFormat?: string;
  runtimeVersion?: string;
  /** Come before the inputs, in the order of the calls. */
  results: Result[];
  inputs: Input[];
  /** The calls that have no result yet. */
  pending: Pending[];
  limits: Limits;
  traceparent?: string;
}

export interface Result {
  toolCallId: string;
  /** Models repeat the ids of calls: an id belongs to its step. */
  askedAtStep: number;
  tool: string;
  taskId?: string;
  state: 'succeeded' | 'failed' | 'expired' | 'cancelled' | 'skipped' | 'denied';
  input?: Json;
  /** A person has changed the input. */
  inputEdited?: boolean;
  approval?: { decision: 'approve' | 'deny' | 'edit'; by?: string; atMs: number; message?: string; input?: Json };
  resultRef?: string;
  resultHash?: string;
  contentType?: string;
  bytes?: number;
  /** The content, if it is small; else truncated is set, and preview is its beginning. */
  result?: Json;
  truncated?: boolean;
  preview?: string;
  error?: TaskError;
  /** Not waited for: news, not the answer of an open call. */
  background?: boolean;
}

export interface TaskError {
  code?: string;
  message: string;
  severity?: 'info' | 'warning' | 'error' | 'critical';
  retryable?: boolean;
  class?: 'user' | 'system' | 'third-party';
  details?: Json;
}

export interface Input {
  inputId: string;
  content: Json;
  source?: string;
  atMs: number;
}

export interface Pending {
  toolCallId: string;
  askedAtStep: number;
  tool: string;
  taskId?: string;
  phase: string;
  stage?: string;
  progress?: number;
  background?: boolean;
}

export interface Limits {
  maxSteps?: number;
  maxCalls?: number;
  maxOpenCalls?: number;
  maxTokens?: number;
  maxCostUsd?: number;
  deadlineAtMs?: number;
  steps?: number;
  calls?: number;
  openCalls?: number;
  tokens?: number;
  costUsd?: number;
}

export interface StepResponse {
  /** Absent: the one before is kept. */
  checkpoint?: Json;
  checkpointRef?: { ref: string; hash: string; bytes?: number };
  checkpointFormat?: string;
  runtimeVersion?: string;
  toolCalls?: ToolCall[];
  cancelCalls?: { toolCallId: string; askedAtStep: number; message?: string }[];
  /** When the next step comes: with the last result (all, the default), or with each (any). */
  wake?: 'all' | 'any';
  wakeOnInput?: boolean;
  /** Parks the run until somebody says something. */
  await?: 'input';
  /** Speaks to people without ending the run. */
  output?: Json;
  /** Ends the run. */
  final?: Json;
  onFinal?: 'cancel' | 'detach';
  /** The step has failed; nothing but usage may stand beside it. */
  error?: TaskError;
  usage?: Usage[];
}

export interface ToolCall {
  toolCallId: string;
  tool: string;
  /** {"$from": toolCallId, "pointer": "/a/0"} stands for the result of a call in dependsOn, or a part of it. */
  input?: Json;
  dependsOn?: string[];
  background?: boolean;
  waitMs?: number;
  ttlMs?: number;
  idempotencyKey?: string;
}

export interface Usage {
  model: string;
  inputTokens: number;
  outputTokens: number;
  cachedInputTokens?: number;
  costUsd?: number;
}
