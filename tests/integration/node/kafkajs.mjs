// KafkaJS, behind the functions that driver.mjs and member.mjs call.
import kafkajs from 'kafkajs';
import lz4 from 'lz4js';
import snappy from 'snappyjs';
import { ZstdCodec } from 'zstd-codec';

const { Kafka, CompressionCodecs, CompressionTypes, logLevel } = kafkajs;
const types = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' };

const zstd = await new Promise((resolve) => ZstdCodec.run((codecs) => resolve(new codecs.Simple())));
const codec = (compress, decompress) => () => ({
  compress: async (encoder) => Buffer.from(compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(decompress(buffer)),
});
CompressionCodecs[CompressionTypes.Snappy] = codec(snappy.compress, snappy.uncompress);
CompressionCodecs[CompressionTypes.LZ4] = codec(lz4.compress, lz4.decompress);
CompressionCodecs[CompressionTypes.ZSTD] = codec((data) => zstd.compress(data), (data) => zstd.decompress(data));

const connect = (server) => new Kafka({ clientId: 'tests', brokers: [server], logLevel: logLevel.NOTHING });

export async function produce({ server, topic, partition, compression, idempotent, messages }) {
  const producer = connect(server).producer({ idempotent });
  await producer.connect();
  try {
    const sent = messages.map(({ key, value, headers }) => ({
      key, value, partition, headers: Object.fromEntries(headers),
    }));
    const [{ baseOffset }] = await producer.send({
      topic, messages: sent, compression: CompressionTypes[types[compression]],
    });
    return messages.map((_, index) => Number(baseOffset) + index);
  } finally {
    await producer.disconnect();
  }
}

// Its consumers are always members of a group.
export async function read({ server, topic, partition, steps }) {
  const consumer = connect(server).consumer({
    groupId: `reader-${topic}-${Math.random()}`, maxBytesPerPartition: 8_000_000,
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const results = steps.map(() => []);
  let step = 0;
  const seek = () => consumer.seek({ topic, partition, offset: String(steps[step][0]) });
  try {
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error));
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ partition: found, message }) => {
          if (found !== partition || step === steps.length) return;
          results[step].push({
            key: message.key, value: message.value, offset: Number(message.offset),
            headers: Object.entries(message.headers),
          });
          if (results[step].length < steps[step][1]) return;
          step += 1;
          if (step === steps.length) resolve();
          else seek();
        },
      });
      seek();
    });
    return results;
  } finally {
    await consumer.disconnect();
  }
}

async function asAdministrator(server, act) {
  const admin = connect(server).admin();
  await admin.connect();
  try {
    return await act(admin);
  } finally {
    await admin.disconnect();
  }
}

export function offsetForTime({ server, topic, timestamp }) {
  return asAdministrator(server, async (admin) => {
    const [end] = await admin.fetchTopicOffsets(topic);
    const [{ offset }] = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp);
    // It answers with the end where there is none.
    return offset === end.offset ? -1 : Number(offset);
  });
}

export function administer({ server, topic }) {
  return asAdministrator(server, async (admin) => {
    const partitions = async () =>
      (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length;
    const setting = async (name) => {
      const { resources } = await admin.describeConfigs({
        includeSynonyms: false, resources: [{ type: 2, name: topic, configNames: [name] }],
      });
      return resources[0].configEntries.find((each) => each.configName === name).configValue;
    };
    const listed = async () => (await admin.listTopics()).includes(topic);
    const seen = {};
    await admin.createTopics({
      topics: [{ topic, numPartitions: 2, configEntries: [{ name: 'retention.ms', value: '5000' }] }],
    });
    seen.partitions = await partitions();
    seen['retention.ms'] = await setting('retention.ms');
    await admin.alterConfigs({
      resources: [{ type: 2, name: topic, configEntries: [{ name: 'segment.ms', value: '7000' }] }],
    });
    seen['segment.ms'] = await setting('segment.ms');
    await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
    seen['partitions after growth'] = await partitions();
    seen.listed = await listed();
    await admin.deleteTopics({ topics: [topic] });
    seen['listed after deletion'] = await listed();
    return seen;
  });
}

export async function join({ server, group, topic, session_ms: sessionTimeout }, tell) {
  // Heartbeats wait for a fetch to end, which by default may take longer than the session of the tests.
  const consumer = connect(server).consumer({
    groupId: group, sessionTimeout, heartbeatInterval: 500, maxWaitTimeInMs: 500,
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    tell('assigned', { partitions: [...(payload.memberAssignment[topic] ?? [])].sort(), generation: -1 });
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      tell('record', { partition, offset: Number(message.offset) });
      const offset = String(Number(message.offset) + 1);
      await consumer.commitOffsets([{ topic, partition, offset }]);
    },
  });
  return () => consumer.disconnect();
}
