// A client of unitward serve, without dependencies: see unitward-serve(5).
// As a program it is its own example: node unitward.mjs UNITWARD ISOLATION
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

// Failure is an error that the server answers with; kind says which.
export class Failure extends Error {
  constructor({ code, message, data }) {
    super(message);
    Object.assign(this, { code, kind: data.kind, data });
  }
}

export class Unitward {
  #id = 0;
  #waiting = new Map(); // the requests under way, by id
  #jobs = new Map(); // what was told of jobs, by name

  // Starts a server. ended is resolved with its last message.
  constructor(program = 'unitward', args = []) {
    this.child = spawn(program, ['serve', ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.child.stdin.on('error', () => {}); // a server that is gone is told by its end
    this.ended = new Promise((resolve, reject) => {
      this.child.on('error', reject);
      createInterface({ input: this.child.stdout }).on('line', (line) => {
        const m = JSON.parse(line);
        if (m.method === 'server/ended') resolve(m.params);
        else if (m.method) this.#told(m.method.slice('job/'.length), m.params);
        else this.#answered(m);
      }).on('close', () => reject(new Error('the server is gone'))); // of no effect after its goodbye
    });
    this.ended.catch(() => {}).finally(() => {
      for (const { reject } of this.#waiting.values()) reject(new Error('the server has ended'));
    });
  }

  #answered({ id, result, error }) {
    const w = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error) w?.reject(new Failure(error));
    else w?.resolve(result);
  }

  // job is what was told of one: output by stream, facts by name. Forget it
  // with forget.
  job(name) {
    if (!this.#jobs.has(name)) {
      const j = { stdout: '', stderr: '', dropped: 0, facts: {} };
      j.settled = new Promise((resolve) => { j.settle = resolve; });
      this.#jobs.set(name, j);
    }
    return this.#jobs.get(name);
  }

  forget(name) { this.#jobs.delete(name); }

  #told(what, p) {
    const j = this.job(p.name);
    j.facts = p.facts;
    if (what === 'output') j[p.stream] += p.data;
    else if (what === 'dropped') j.dropped += p.bytes;
    else j[what === 'settled' ? 'end' : what] = p;
    if (what === 'settled') j.settle(p);
  }

  // Sends a request. signal cancels it: a run stops its job, and both a run and
  // a wait are answered all the same.
  request(method, params = {}, { signal } = {}) {
    const id = ++this.#id;
    const answer = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    this.#send({ id, method, params });
    signal?.addEventListener('abort', () => this.#send({ method: '$/cancelRequest', params: { id } }), { once: true });
    return answer;
  }

  #send(m) { this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...m })}\n`); }

  initialize(required = []) {
    return this.request('initialize', { client: { name: 'example', version: '1' }, protocol: 1, required });
  }

  // Ends the server, and with it jobs of lifetime call; says what is left.
  async end() {
    this.child.stdin.end();
    return this.ended;
  }
}

async function example(program, isolation) {
  const say = (step, facts) => console.log(JSON.stringify({ step, ...facts }));
  const u = new Unitward(program);
  const hello = await u.initialize(['output.notify', 'stdin.pipe', 'abort', 'cancel']);
  say('initialize', { protocol: hello.protocol, server: hello.server.name });
  const job = (command, more = {}) => ({ command, isolation: [isolation], grace_ms: 1000, ...more });

  const cat = await u.request('job.start', job(['sh', '-c', 'cat; echo oops >&2; exit 3'], { stdin: 'pipe' }));
  await u.request('job.write', { name: cat.name, data: 'hällo\n' });
  await u.request('job.closeStdin', { name: cat.name });
  const { report } = await u.job(cat.name).settled;
  const { stdout, stderr, facts } = u.job(cat.name);
  say('start', { isolation: report.isolation, code: report.exit.code, reason: report.reason, confirmed: report.confirmed, stdout, stderr, facts });

  const tree = await u.request('job.start', job(['sh', '-c', 'setsid sleep 300 & sleep 300'], { owner: 'example' }));
  const stopped = await u.request('job.stopOwner', { owner: 'example' });
  const { tree: none } = (await u.job(tree.name).settled).report;
  say('stopOwner', { all: stopped.stopped.includes(tree.name), confirmed: stopped.confirmed, empty: none.empty });

  const abort = new AbortController();
  const run = u.request('job.run', job(['sleep', '300'], { name: `example-run-${process.pid}` }), { signal: abort.signal });
  while (!u.job(`example-run-${process.pid}`).started) await new Promise(setImmediate);
  abort.abort();
  const ran = await run;
  say('cancel', { cancelled: ran.cancelled, confirmed: ran.report.confirmed, reason: ran.report.reason });

  const early = await u.request('job.abortStart', { token: 't' });
  const refused = await u.request('job.start', job(['true'], { token: 't' })).catch((err) => err);
  say('abort', { state: early.state, kind: refused.kind });

  const unknown = await u.request('job.status', { name: 'nobody' }).catch((err) => err);
  say('unknown', { kind: unknown.kind, code: unknown.code });

  const stays = await u.request('job.start', job(['sleep', '300'], { lifetime: 'detached' }));
  await u.request('job.start', job(['sleep', '300']));
  const ended = await u.end();
  say('end', { why: ended.why, stopped: ended.stopped.length, left: ended.left.length === 1 && ended.left[0] === stays.name, confirmed: ended.confirmed });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await example(...process.argv.slice(2));
