import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import * as activities from './activities';

async function main(): Promise<void> {
  Runtime.install({ logger: new DefaultLogger('WARN') });
  const connection = await NativeConnection.connect({ address: process.env.TEMPORAL_ADDRESS });
  const worker = await Worker.create({
    connection,
    taskQueue: process.env.TASK_QUEUE ?? 'film-studio',
    workflowsPath: require.resolve('./workflows'),
    activities,
    maxHeartbeatThrottleInterval: '1 second',
  });
  console.log('ready');
  await worker.run();
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
