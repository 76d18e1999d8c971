// A member of a group, which tells what it sees as JSON lines: as tests/integration/group_member.py does, whose
// argument it takes.
const wish = JSON.parse(process.argv[2]);
const { join } = await import(`./${wish.client}.mjs`);

const tell = (event, more) => process.stdout.write(`${JSON.stringify({ member: 0, event, ...more })}\n`);

const isOver = new Promise((resolve) => process.stdin.resume().once('data', resolve).once('end', resolve));
const leave = await join(wish, tell);
await isOver;
await leave();
process.exit(0);
