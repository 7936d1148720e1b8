import { readFileSync } from 'node:fs';
import type { Json, Result, ToolCall, Usage } from './protocol';

/** A message of the conversation, which is all that a model knows. */
export type Message =
  | { role: 'user'; content: Json }
  | { role: 'assistant'; text?: string; calls: ToolCall[] }
  | { role: 'tool'; step: number; call: string; state: Result['state']; code?: string; content?: Json };

export interface Answer {
  text?: string;
  /** Without any the answer is the last one. */
  calls: ToolCall[];
  final?: Json;
  usage: Usage;
}

/** The place of a real model: call yours here, and turn its messages into these. */
export interface Model {
  complete(messages: Message[], attempt: number, signal: AbortSignal): Promise<Answer>;
}

interface Turn {
  text?: string;
  calls?: ToolCall[];
  /** How many attempts of the step get no answer, as of a service that is stuck. */
  hangs?: number;
}

/**
 * A model that says what its script says, without any network. When the script is over, it repeats all that it was told.
 */
export class ScriptedModel implements Model {
  private readonly turns: Turn[];

  constructor(file: string) {
    this.turns = (JSON.parse(readFileSync(file, 'utf8')) as { turns: Turn[] }).turns;
  }

  async complete(messages: Message[], attempt: number, signal: AbortSignal): Promise<Answer> {
    const usage = { model: 'scripted', inputTokens: messages.length, outputTokens: 1 };
    const turn = this.turns[messages.filter((m) => m.role === 'assistant').length];
    if (turn === undefined) {
      return { calls: [], final: { told: messages.filter((m) => m.role !== 'assistant') } as Json, usage };
    }
    if (attempt <= (turn.hangs ?? 0)) {
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    }
    return { text: turn.text, calls: turn.calls ?? [], usage };
  }
}
