"""A client of unitward serve, without dependencies: see unitward-serve(5).
As a program it is its own example: python3 unitward.py UNITWARD ISOLATION"""

import asyncio, itertools, json, os, sys
from collections import defaultdict

LONGEST = 64 << 20  # of a line that the server writes


class Failure(Exception):
    """An error that the server answers with; kind says which."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code, self.data, self.kind = error["code"], error["data"], error["data"]["kind"]


class Job:
    """What was told of a job: output by stream, and facts by name."""

    def __init__(self):
        self.output, self.dropped = defaultdict(str), 0
        self.facts, self.told = {}, {}
        self.started, self.settled = asyncio.Event(), asyncio.Event()

    def tell(self, what, params):
        self.facts = params["facts"]
        if what == "output":
            self.output[params["stream"]] += params["data"]
        elif what == "dropped":
            self.dropped += params["bytes"]
        else:
            self.told[what] = params
        if what in ("started", "settled"):
            getattr(self, what).set()


class Unitward:
    """One server. Use it with "async with": its end is the server's."""

    def __init__(self, program="unitward", *args):
        self.argv, self.ids = [program, "serve", *args], itertools.count(1)
        self.waiting, self.jobs = {}, defaultdict(Job)

    async def __aenter__(self):
        pipe = asyncio.subprocess.PIPE
        self.child = await asyncio.create_subprocess_exec(*self.argv, stdin=pipe, stdout=pipe, limit=LONGEST)
        self.ended = asyncio.get_running_loop().create_future()
        self.reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *error):
        await self.end()

    async def _read(self):
        async for line in self.child.stdout:
            m = json.loads(line)
            if m.get("method") == "server/ended":
                self.ended.set_result(m["params"])
            elif "method" in m:
                self.jobs[m["params"]["name"]].tell(m["method"].removeprefix("job/"), m["params"])
            elif (answer := self.waiting.pop(m["id"], None)) and not answer.done():
                if "error" in m:
                    answer.set_exception(Failure(m["error"]))
                else:
                    answer.set_result(m["result"])
        gone = ConnectionError("the server has ended")
        for answer in [self.ended, *self.waiting.values()]:
            if not answer.done():
                answer.set_exception(gone)

    def _send(self, **message):
        self.child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def post(self, method, **params):
        """Sends a request; returns its id and a future of the answer."""
        id = next(self.ids)
        self.waiting[id] = asyncio.get_running_loop().create_future()
        self._send(id=id, method=method, params=params)
        return id, self.waiting[id]

    async def request(self, method, **params):
        return await self.post(method, **params)[1]

    def cancel(self, id):
        """Cancels a request: a run stops its job, and is answered all the same."""
        self._send(method="$/cancelRequest", params={"id": id})

    async def end(self):
        """Ends the server, and with it jobs of lifetime call; says what is left."""
        self.child.stdin.close()
        ended = await self.ended
        await self.child.wait()
        return ended


async def kind(answer):
    try:
        await answer
    except Failure as failure:
        return failure.kind, failure.code

def say(step, **facts):
    print(json.dumps({"step": step, **facts}, ensure_ascii=False, separators=(",", ":")))


async def example(program, isolation):
    async with Unitward(program) as u:
        hello = await u.request("initialize", client={"name": "example", "version": "1"}, protocol=1,
                                required=["output.notify", "stdin.pipe", "abort", "cancel"])
        say("initialize", protocol=hello["protocol"], server=hello["server"]["name"])
        common = {"isolation": [isolation], "grace_ms": 1000}

        cat = await u.request("job.start", command=["sh", "-c", "cat; echo oops >&2; exit 3"], stdin="pipe", **common)
        await u.request("job.write", name=cat["name"], data="hällo\n")
        await u.request("job.closeStdin", name=cat["name"])
        job = u.jobs[cat["name"]]
        await job.settled.wait()
        report = job.told["settled"]["report"]
        say("start", isolation=report["isolation"], code=report["exit"]["code"], reason=report["reason"], confirmed=report["confirmed"],
            stdout=job.output["stdout"], stderr=job.output["stderr"], facts=job.facts)

        tree = await u.request("job.start", command=["sh", "-c", "setsid sleep 300 & sleep 300"], owner="example", **common)
        stopped = await u.request("job.stopOwner", owner="example")
        await u.jobs[tree["name"]].settled.wait()
        empty = u.jobs[tree["name"]].told["settled"]["report"]["tree"]["empty"]
        say("stopOwner", all=tree["name"] in stopped["stopped"], confirmed=stopped["confirmed"], empty=empty)

        name = f"example-run-{os.getpid()}"
        id, run = u.post("job.run", command=["sleep", "300"], name=name, **common)
        await u.jobs[name].started.wait()
        u.cancel(id)
        ran = await run
        say("cancel", cancelled=ran["cancelled"], confirmed=ran["report"]["confirmed"], reason=ran["report"]["reason"])

        early = await u.request("job.abortStart", token="t")
        refused, _ = await kind(u.request("job.start", command=["true"], token="t", **common))
        say("abort", state=early["state"], kind=refused)

        unknown, code = await kind(u.request("job.status", name="nobody"))
        say("unknown", kind=unknown, code=code)

        stays = await u.request("job.start", command=["sleep", "300"], lifetime="detached", **common)
        await u.request("job.start", command=["sleep", "300"], **common)
        ended = await u.end()
        say("end", why=ended["why"], stopped=len(ended["stopped"]), left=ended["left"] == [stays["name"]], confirmed=ended["confirmed"])


if __name__ == "__main__":
    asyncio.run(example(*sys.argv[1:]))
