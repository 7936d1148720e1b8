import { CancellationScope, defineQuery, isCancellation, proxyActivities, setHandler, sleep } from '@temporalio/workflow';
import type * as activities from './activities';

const { book, giveUp } = proxyActivities<typeof activities>({ startToCloseTimeout: '1 minute' });

export interface Premiere {
  film: string;
  cinemas: string[];
  /** How long the posters of one cinema take. */
  postersMs: number;
  /** Where it is written down what was given up. */
  ledger: string;
}

export const howFar = defineQuery<{ progress: number; stage: string }>('howFar');

/** Books cinemas for a premiere, and gives up what was booked when it is called off. */
export async function premiere(plan: Premiere): Promise<{ film: string; halls: string[] }> {
  const halls: string[] = [];
  let stage = 'planning';
  setHandler(howFar, () => ({ progress: Math.floor((100 * halls.length) / plan.cinemas.length), stage }));
  try {
    for (const cinema of plan.cinemas) {
      stage = `booking ${cinema}`;
      halls.push(await book(cinema));
      stage = `posters for ${cinema}`;
      await sleep(plan.postersMs);
    }
    return { film: plan.film, halls };
  } catch (err) {
    if (isCancellation(err)) {
      await CancellationScope.nonCancellable(async () => {
        for (const hall of halls) {
          await giveUp(hall, plan.ledger);
        }
      });
    }
    throw err;
  }
}
