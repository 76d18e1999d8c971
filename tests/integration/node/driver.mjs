// Clients for Node.js, driven by requests on stdin: a JSON object on each line, answered by one on stdout.
//
//     node driver.mjs kafkajs|platformatic
import { createInterface } from 'node:readline';

const client = await import(`./${process.argv[2]}.mjs`);
const operations = {
  produce: client.produce,
  read: client.read,
  offset_for_time: client.offsetForTime,
  administer: client.administer,
};
const decoded = (text) => (text === null ? null : Buffer.from(text, 'base64'));
const encoded = (bytes) => (bytes === null ? null : bytes.toString('base64'));

function understood(request) {
  const messages = request.messages?.map(({ key, value, headers }) => ({
    key: decoded(key), value: decoded(value), headers: headers.map(([name, content]) => [name, decoded(content)]),
  }));
  return { ...request, messages };
}

function written(result) {
  if (!Array.isArray(result)) return result;
  const message = ({ key, value, headers, offset }) => ({
    key: encoded(key), value: encoded(value), offset, headers: headers.map(([name, content]) => [name, encoded(content)]),
  });
  return result.map((each) => (Array.isArray(each) ? each.map(message) : each));
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    answer = { result: written(await operations[request.do](understood(request))) };
  } catch (error) {
    answer = { error: error.stack };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
process.exit(0);
