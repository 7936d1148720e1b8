import { resolve } from 'node:path';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { createActivities } from './agent';
import { ScriptedModel } from './model';

/**
 * TEMPORAL_ADDRESS  where the engine is
 * TASK_QUEUE        the one of the runtime in wakepoint.yaml
 * SCRIPT            what the model says
 * STEP_LOG          a file for a line about each step, if it is wanted
 */
async function main(): Promise<void> {
  const { TEMPORAL_ADDRESS, TASK_QUEUE, SCRIPT, STEP_LOG } = process.env;
  Runtime.install({ logger: new DefaultLogger('WARN') });
  const connection = await NativeConnection.connect({ address: TEMPORAL_ADDRESS });
  const model = new ScriptedModel(SCRIPT ?? resolve(__dirname, '..', 'script.json'));
  const worker = await Worker.create({
    connection,
    taskQueue: TASK_QUEUE ?? 'typescript-agents',
    activities: createActivities(model, STEP_LOG),
  });
  console.log('ready');
  await worker.run();
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
