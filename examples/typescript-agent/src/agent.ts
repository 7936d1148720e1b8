import { appendFileSync } from 'node:fs';
import { ApplicationFailure, Context } from '@temporalio/activity';
import type { Message, Model } from './model';
import type { Json, StepRequest, StepResponse } from './protocol';

/** The mark of our checkpoints, which are the conversation. */
const format = 'typescript-agent/1';

/**
 * The activity of a runtime. The engine tries it once: when it fails, or when this process is lost, the run makes the next
 * attempt. What it does beside its answer may therefore be done twice; what must not is a tool call.
 */
export function createActivities(model: Model, log?: string): { AgentStep(req: StepRequest): Promise<StepResponse> } {
  return {
    async AgentStep(req: StepRequest): Promise<StepResponse> {
      const { heartbeat, cancellationSignal } = Context.current();
      // The run takes silence for the loss of this process, for as long as the lease is.
      const beat = setInterval(() => heartbeat({ step: req.step }), Math.max(req.leaseMs / 3, 100));
      try {
        note(log, 'asked', req);
        const response = await step(model, req, cancellationSignal);
        note(log, 'answered', req);
        return response;
      } finally {
        clearInterval(beat);
      }
    },
  };
}

async function step(model: Model, req: StepRequest, signal: AbortSignal): Promise<StepResponse> {
  const messages = read(req);
  // A run wakes when all results of a turn are there (wake: all), so that every call has its message before what people
  // said: most models want it so.
  for (const r of req.results) {
    messages.push({ role: 'tool', step: r.askedAtStep, call: r.toolCallId, state: r.state, code: r.error?.code, content: r.result ?? r.preview });
  }
  for (const i of req.inputs) {
    messages.push({ role: 'user', content: i.content });
  }
  const answer = await model.complete(messages, req.attempt, signal);
  messages.push({ role: 'assistant', text: answer.text, calls: answer.calls });
  const response: StepResponse = { checkpoint: messages as Json, checkpointFormat: format, usage: [answer.usage] };
  if (answer.calls.length > 0) {
    return { ...response, toolCalls: answer.calls, output: answer.text };
  }
  return { ...response, final: answer.final ?? answer.text ?? '' };
}

function read(req: StepRequest): Message[] {
  if (req.checkpointRef !== undefined) {
    // A checkpoint of more than 64 KiB lies in the blob store of the installation; see docs/runtimes.md.
    throw ApplicationFailure.nonRetryable(`the checkpoint of ${req.checkpointRef.bytes} bytes is not in the message`, 'CheckpointTooLarge');
  }
  if (req.checkpoint === undefined) {
    return [];
  }
  if (req.checkpointFormat !== format) {
    throw ApplicationFailure.nonRetryable(`the checkpoint has the format ${req.checkpointFormat}, and not ${format}`, 'UnknownCheckpoint');
  }
  return req.checkpoint as Message[];
}

/** Writes down what a step was about, one line of JSON each. */
function note(log: string | undefined, event: 'asked' | 'answered', req: StepRequest): void {
  if (log !== undefined) {
    const results = req.results.map((r) => `${r.askedAtStep}/${r.toolCallId}`);
    const inputs = req.inputs.map((i) => i.inputId);
    appendFileSync(log, JSON.stringify({ event, step: req.step, attempt: req.attempt, token: req.stepToken, results, inputs }) + '\n');
  }
}
