// Drives unitward-mcp by the official client, which checks every structured
// result against the schema that the tool has named:
// node drive.mjs UNITWARD-MCP ISOLATION DIR
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const [command, isolation, dir] = process.argv.slice(2);
const transport = new StdioClientTransport({ command, args: ['--max-running=16'], env: process.env, stderr: 'pipe' });
let errs = '';
transport.stderr.on('data', (b) => { errs += b; });
const client = new Client({ name: 'drive', version: '1' });
await client.connect(transport);

const common = { isolation: [isolation], grace_ms: 1000 };
const use = async (name, args, options) => {
  const r = await client.callTool({ name, arguments: args }, undefined, options);
  assert(!r.isError, JSON.stringify(r));
  return r.structuredContent;
};
const sh = (script, more) => ({ command: ['sh', '-c', script], ...common, ...more });
const written = async (file) => { // the shell makes it before it writes
  while (!existsSync(`${dir}/${file}`) || !readFileSync(`${dir}/${file}`, 'utf8').endsWith('\n')) await new Promise((next) => { setTimeout(next, 5); });
};
const alive = (file) => existsSync(`/proc/${readFileSync(`${dir}/${file}`, 'utf8').trim()}`);
const steps = {
  async tools() {
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map((t) => t.name).sort(), ['doctor', 'list', 'logs', 'release', 'run', 'start', 'status', 'stop', 'wait']);
    for (const t of tools) assert(t.title && t.annotations && t.inputSchema && t.outputSchema, t.name);
    assert.match(client.getInstructions(), /confirmed/);
  },
  async run() {
    const r = await use('run', sh('echo out; echo err >&2; exit 3'));
    assert.deepEqual([r.report.exit.code, r.report.confirmed, r.report.isolation, r.background], [3, true, isolation, false]);
    assert.deepEqual(r.output.chunks.map((c) => [c.stream, c.data]).sort(), [['stderr', 'err\n'], ['stdout', 'out\n']]);
  },
  async threshold() {
    const r = await use('run', sh(`echo $$ > ${dir}/stays; setsid sleep 300 & sleep 300`, { background_after_ms: 50 }));
    assert.deepEqual([r.background, r.report.confirmed], [true, false]);
    await written('stays');
    const stopped = await use('stop', { name: r.name });
    assert.deepEqual([stopped.confirmed, stopped.facts.tree, alive('stays')], [true, true, false]);
    await use('release', { name: r.name });
  },
  async progress() {
    const { name } = await use('start', sh(`until [ -e ${dir}/go ]; do sleep .02; done; exit 5`));
    let told = 0;
    const waits = use('wait', { name }, { onprogress: (p) => { if (told++ === 0) assert.match(p.message, new RegExp(name)); } });
    while (told === 0) await new Promise((next) => { setTimeout(next, 5); });
    await use('run', sh(`touch ${dir}/go`));
    assert.equal((await waits).report.exit.code, 5);
  },
  async cancel() {
    const abort = new AbortController();
    const call = use('run', sh(`echo $$ > ${dir}/cancelled; sleep 300`, { name: 'cancelled' }), { signal: abort.signal });
    await written('cancelled');
    abort.abort();
    await assert.rejects(call); // by the client; the answer comes and is passed over
    const { report } = await use('wait', { name: 'cancelled' });
    assert.deepEqual([report.state, report.reason, report.confirmed, alive('cancelled')], ['settled', 'cancelled', true, false]);
  },
  async failure() {
    const r = await client.callTool({ name: 'status', arguments: { name: 'nobody' } });
    assert.deepEqual([r.isError, r.structuredContent.error.data.kind], [true, 'not_found']);
  },
  async end() {
    await use('start', sh(`echo $$ > ${dir}/call; sleep 300`));
    const left = await use('start', sh(`echo $$ > ${dir}/detached; sleep 300`, { name: 'detached', lifetime: 'detached' }));
    await written('call');
    await written('detached');
    const { pid } = transport;
    await client.close();
    assert.deepEqual([left.name, existsSync(`/proc/${pid}`), alive('call'), alive('detached')], ['detached', false, false, true]);
    assert.equal(errs, 'unitward-mcp: these jobs go on: detached\n');
  },
};
for (const [name, step] of Object.entries(steps)) {
  await step();
  console.log(name);
}
