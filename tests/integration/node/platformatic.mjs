// @platformatic/kafka, behind the functions that driver.mjs and member.mjs call.
import { Admin, Consumer, Producer } from '@platformatic/kafka';

const connection = (server) => ({ clientId: 'tests', bootstrapBrokers: [server], autocreateTopics: true });

async function using(client, act) {
  try {
    return await act(client);
  } finally {
    await (client instanceof Consumer ? client.close(true) : client.close());
  }
}

export function produce({ server, topic, partition, compression, idempotent, messages }) {
  return using(new Producer({ ...connection(server), idempotent }), async (producer) => {
    const sent = messages.map(({ key, value, headers }) => ({
      topic, partition, key: key ?? undefined, value: value ?? undefined,
      headers: new Map(headers.map(([name, content]) => [Buffer.from(name), content])),
    }));
    const { offsets } = await producer.send({ messages: sent, compression, acks: -1 });
    return messages.map((_, index) => Number(offsets[0].offset) + index);
  });
}

// Its consumers are always members of a group.
export function read({ server, topic, partition, steps }) {
  const groupId = `reader-${topic}-${Math.random()}`;
  return using(new Consumer({ ...connection(server), groupId, maxBytes: 8_000_000 }), async (consumer) => {
    const results = [];
    for (const [offset, count] of steps) {
      const stream = await consumer.consume({
        topics: [topic], mode: 'manual', autocommit: false,
        offsets: await positions(consumer, topic, partition, offset),
      });
      const found = [];
      for await (const message of stream) {
        if (message.partition !== partition) continue;
        found.push({
          key: message.key ?? null, value: message.value ?? null, offset: Number(message.offset),
          headers: [...message.headers].map(([name, content]) => [name.toString(), content]),
        });
        if (found.length === count) break;
      }
      results.push(found);
      await stream.close();
    }
    return results;
  });
}

async function positions(consumer, topic, partition, offset) {
  const { topics } = await consumer.metadata({ topics: [topic] });
  return [...Array(topics.get(topic).partitionsCount).keys()].map((each) => ({
    topic, partition: each, offset: BigInt(each === partition ? offset : 0),
  }));
}

export function offsetForTime({ server, topic, timestamp }) {
  return using(new Admin(connection(server)), async (admin) => {
    const [{ partitions }] = await admin.listOffsets({
      topics: [{ name: topic, partitions: [{ partitionIndex: 0, timestamp: BigInt(timestamp) }] }],
    });
    return Number(partitions[0].offset);
  });
}

export function administer({ server, topic }) {
  return using(new Admin(connection(server)), async (admin) => {
    const partitions = async () =>
      (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic).partitionsCount;
    const resource = { resourceType: 2, resourceName: topic };
    const setting = async (name) => {
      const [{ configs }] = await admin.describeConfigs({ resources: [{ ...resource, configurationKeys: [name] }] });
      return configs.find((each) => each.name === name).value;
    };
    const listed = async () => (await admin.listTopics()).includes(topic);
    const seen = {};
    await admin.createTopics({
      topics: [topic], partitions: 2, replicas: 1, configs: [{ name: 'retention.ms', value: '5000' }],
    });
    seen.partitions = await partitions();
    seen['retention.ms'] = await setting('retention.ms');
    await admin.incrementalAlterConfigs({
      resources: [{ ...resource, configs: [{ name: 'segment.ms', configOperation: 0, value: '7000' }] }],
    });
    seen['segment.ms'] = await setting('segment.ms');
    await admin.createPartitions({ topics: [{ name: topic, count: 3, assignments: null }] });
    seen['partitions after growth'] = await partitions();
    seen.listed = await listed();
    await admin.deleteTopics({ topics: [topic] });
    seen['listed after deletion'] = await listed();
    return seen;
  });
}

export async function join({ server, group, topic, session_ms: sessionTimeout }, tell) {
  const consumer = new Consumer({
    ...connection(server), groupId: group, sessionTimeout, heartbeatInterval: 500, rebalanceTimeout: sessionTimeout,
  });
  consumer.on('consumer:group:join', ({ assignments, generationId }) => {
    const owned = (assignments ?? []).filter((each) => each.topic === topic).flatMap((each) => each.partitions);
    tell('assigned', { partitions: owned.sort(), generation: generationId });
  });
  const stream = await consumer.consume({
    topics: [topic], mode: 'committed', fallbackMode: 'earliest', autocommit: false,
  });
  (async () => {
    for await (const message of stream) {
      tell('record', { partition: message.partition, offset: Number(message.offset) });
      await message.commit();
    }
  })();
  return () => consumer.close(true);
}
