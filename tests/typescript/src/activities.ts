import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ApplicationFailure, Context } from '@temporalio/activity';

export interface Transcode {
  /** What is transcoded. */
  film: string;
  frames: number;
  msPerFrame: number;
  /** Where the frames go, one a line. */
  output: string;
}

export interface Transcoded {
  film: string;
  frames: number;
  /** The frames that an earlier try had done. */
  resumedAt: number;
}

/** Transcodes a film, frame by frame. A film that was begun is gone on with. */
export async function transcode(job: Transcode): Promise<Transcoded> {
  const { heartbeat, sleep, log } = Context.current();
  if (job.film.endsWith('.broken')) {
    throw ApplicationFailure.create({
      type: 'UnreadableFilm',
      message: `${job.film} cannot be read`,
      nonRetryable: true,
      details: [{ film: job.film, reelsTried: 3 }],
    });
  }
  const resumedAt = await done(job.output);
  log.info('transcoding', { film: job.film, resumedAt });
  for (let frame = resumedAt; frame < job.frames; frame++) {
    heartbeat({ progress: Math.floor((100 * frame) / job.frames), stage: `frame ${frame - (frame % 10)} and on` });
    // Throws a CancelledFailure when the activity is cancelled.
    await sleep(job.msPerFrame);
    await appendFile(job.output, `${frame}\n`);
  }
  return { film: job.film, frames: job.frames, resumedAt };
}

async function done(output: string): Promise<number> {
  await mkdir(dirname(output), { recursive: true });
  try {
    return (await readFile(output, 'utf8')).split('\n').length - 1;
  } catch {
    return 0;
  }
}

export async function book(cinema: string): Promise<string> {
  if (cinema === 'closed') {
    throw ApplicationFailure.nonRetryable('it is closed on Mondays', 'CinemaClosed');
  }
  return `${cinema}, hall 2`;
}

export async function giveUp(booking: string, ledger: string): Promise<void> {
  await appendFile(ledger, `given up: ${booking}\n`);
}
