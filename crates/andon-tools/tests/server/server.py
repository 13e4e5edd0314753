"""An MCP server to test against, made with the official Python SDK.

It has well-behaved tools and bad ones, and writes down what it was told: one JSON object a line, in the file given by
--log. It speaks over its standard input and output, or by HTTP with --http: then it listens on a free port and writes the
port into the file given by --port-file.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

arguments = argparse.ArgumentParser()
arguments.add_argument("--log", required=True)
arguments.add_argument("--http", action="store_true")
arguments.add_argument("--port-file")
arguments.add_argument("--port", type=int, default=0, help="this port, and not any free one")
arguments.add_argument("--token", help="the Authorization header that every request must have")
arguments.add_argument("--babble", action="store_true", help="say nothing but nonsense")
arguments.add_argument("--mute", action="store_true", help="say nothing at all")
options = arguments.parse_args()

# The SDK keeps the standard output for itself while it serves. This is the wire, for what the SDK would not send.
wire = os.dup(1)


def note(what: str, **more: Any) -> None:
    line = json.dumps({"what": what, "pid": os.getpid(), **more}) + "\n"
    with open(options.log, "a") as log:
        log.write(line)


note("started")
if options.mute:
    time.sleep(3600)
while options.babble:
    os.write(wire, b"good morning\n")
    time.sleep(0.001)

# Importing the SDK takes a while, so the modes that do not need it have been handled by now.
import anyio  # noqa: E402
import mcp_types as types  # noqa: E402
from mcp.server.mcpserver import Context, Extension, Image, MCPServer, MethodBinding  # noqa: E402
from mcp.server.mcpserver.exceptions import ToolError  # noqa: E402


async def write_down(ctx: Any, call_next: Any) -> Any:
    """Everything that comes in."""
    params = dict(ctx.params or {})
    meta = params.get("_meta") or {}
    version = meta.get("io.modelcontextprotocol/protocolVersion")
    note(
        "received",
        method=ctx.method,
        id=ctx.request_id,
        cancels=params.get("requestId"),
        reason=params.get("reason"),
        tool=params.get("name"),
        version=version,
    )
    return await call_next(ctx)


def number(ctx: Any) -> Any:
    """A request's id as it came; the SDK gives it to tools as text."""
    return ctx.request_context.request_id


class Tasks(Extension):
    """As much of the tasks extension as a client can see. The SDK itself has none."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.states: dict[str, dict[str, Any]] = {}

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
        if params.name != "errand":
            return await call_next(ctx)
        name = f"errand-{len(self.states) + 1}"
        polls = int((params.arguments or {}).get("polls", 1_000_000))
        self.states[name] = {"status": "working", "left": polls, "stubborn": (params.arguments or {}).get("stubborn")}
        note("task", name=name)
        return {"resultType": "task", **self.shown(name)}

    def shown(self, name: str) -> dict[str, Any]:
        state = self.states[name]
        task = {
            "taskId": name,
            "status": state["status"],
            "statusMessage": f"errand {state['status']}",
            "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "ttlMs": None,
            "pollIntervalMs": 20,
        }
        if state["status"] == "completed":
            task["result"] = {"content": [{"type": "text", "text": "errand done"}]}
        return task

    async def get(self, ctx: Any, params: Any) -> Any:
        state = self.states[params.task_id]
        state["left"] -= 1
        if state["status"] == "working" and state["left"] <= 0:
            state["status"] = "completed"
        return {"resultType": "complete", **self.shown(params.task_id)}

    async def cancel(self, ctx: Any, params: Any) -> Any:
        if not self.states[params.task_id]["stubborn"]:
            self.states[params.task_id]["status"] = "cancelled"
        return {"resultType": "complete"}

    def methods(self) -> Any:
        return [
            MethodBinding("tasks/get", TaskParams, self.get),
            MethodBinding("tasks/cancel", TaskParams, self.cancel),
        ]


class TaskParams(types.RequestParams):
    task_id: str


server = MCPServer("test server", extensions=[Tasks()], middleware=[write_down], log_level="ERROR")


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
async def echo(text: str) -> str:
    """Says it again."""
    return text


@server.tool(annotations=types.ToolAnnotations(idempotent_hint=True))
async def slow(ctx: Context, seconds: float = 3600) -> str:
    """Takes its time, and stops when it is told."""
    note("slow started", id=number(ctx))
    try:
        await ctx.report_progress(1, 10, "under way")
        await anyio.sleep(seconds)
    except BaseException as error:
        note("slow stopped", id=number(ctx), by=type(error).__name__)
        raise
    note("slow finished", id=number(ctx))
    return "finished"


@server.tool()
async def deaf(ctx: Context) -> str:
    """Does not stop when it is told. The server goes on beside it."""
    note("deaf started", id=number(ctx))
    await ctx.report_progress(1, None, "under way")
    with anyio.CancelScope(shield=True):
        await anyio.sleep(3600)
    return "finished"


@server.tool()
async def effects(ctx: Context) -> str:
    """Has an effect again and again, and does not stop when it is told. The server goes on beside it."""
    note("effects started", id=number(ctx))
    with anyio.CancelScope(shield=True):
        while True:
            note("effect")
            await anyio.sleep(0.01)


@server.tool()
async def denies(ctx: Context) -> str:
    """Answers a cancelled request at once, with an error, and goes on all the same."""
    note("denies started", id=number(ctx))
    try:
        await anyio.sleep(3600)
    except BaseException:
        error = {"code": 0, "message": "Request cancelled"}
        os.write(wire, (json.dumps({"jsonrpc": "2.0", "id": number(ctx), "error": error}) + "\n").encode())
        with anyio.CancelScope(shield=True):
            while True:
                note("effect")
                await anyio.sleep(0.01)


@server.tool()
async def until(ctx: Context, path: str) -> str:
    """Is done when a file is there."""
    note("until started", id=number(ctx))
    while not os.path.exists(path):
        await anyio.sleep(0.01)
    return "finished"


@server.tool()
async def freeze(ctx: Context) -> str:
    """Stops the whole server."""
    note("freeze started", id=number(ctx))
    time.sleep(3600)
    return "finished"


@server.tool()
async def die(ctx: Context) -> str:
    """Ends the server in the middle of the call."""
    print("about to die", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
async def steps(ctx: Context, count: int = 5) -> str:
    """Says how far it is."""
    for step in range(1, count + 1):
        await ctx.report_progress(step, count, f"step {step}")
    return f"{count} steps"


@server.tool()
async def flood(ctx: Context) -> str:
    """Endless progress, even after it was told to stop."""
    note("flood started", id=number(ctx))
    step = 0
    with anyio.CancelScope(shield=True):
        while True:
            step += 1
            await ctx.report_progress(step, None, "x" * 200)


def requests(kind: str, first: int) -> list[str]:
    """A hundred requests of the server's own."""
    params = {"messages": [], "maxTokens": 1} if kind == "sampling/createMessage" else {}
    numbers = range(first, first + 100)
    return [json.dumps({"jsonrpc": "2.0", "id": f"own {n}", "method": kind, "params": params}) for n in numbers]


@server.tool()
async def nag(kind: str = "ping") -> str:
    """Requests without end, and no ear for the answers. Over HTTP it is done by the doorkeeper."""
    note("nag started")
    first = 0
    while True:
        os.write(wire, ("\n".join(requests(kind, first)) + "\n").encode())
        first += 100


@server.tool()
async def huge(mebibytes: int) -> str:
    """A large answer."""
    return "x" * (mebibytes * 1024 * 1024)


@server.tool()
async def garbage(lines: int = 3, answer: bool = True) -> str:
    """Writes something on the wire that is not a message."""
    for line in range(lines):
        os.write(wire, f"this is no message {line}\n".encode())
    if not answer:
        await anyio.sleep(3600)
    return "answered all the same"


@server.tool()
async def late(ctx: Context, after: float) -> str:
    """Answers a cancelled request, which it should not, after so many seconds."""
    note("late started", id=number(ctx))
    try:
        await anyio.sleep(3600)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(after)
            result = {"content": [{"type": "text", "text": f"late {number(ctx)}"}]}
            os.write(wire, (json.dumps({"jsonrpc": "2.0", "id": number(ctx), "result": result}) + "\n").encode())
            note("late answered", id=number(ctx))
        raise
    return "finished"


@server.tool()
async def fail() -> str:
    """Fails."""
    raise ToolError("it did not work")


@server.tool()
async def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG", format="png")


@server.tool()
async def figures() -> dict[str, int]:
    """Structured content."""
    return {"one": 1}


@server.tool()
async def offspring(ctx: Context) -> str:
    """Starts a process that wants to live on, and stops when it is told."""
    child = subprocess.Popen(["sleep", "3600"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    note("offspring started", id=number(ctx), child=child.pid)
    await anyio.sleep(3600)
    return "finished"


@server.tool()
async def ask(ctx: Context) -> str:
    """Asks for what nobody advertised."""
    try:
        await ctx.request_context.session.list_roots()
    except Exception as error:
        return f"declined: {type(error).__name__}"
    return "answered"


@server.tool()
async def errand(polls: int = 1_000_000, stubborn: bool = False) -> str:
    """Comes back as a task."""
    return "no task"


@server.tool(name="odd.name/here")
async def odd() -> str:
    """Has a name that no model may use."""
    return "odd"


@server.tool()
async def change(ctx: Context) -> str:
    """Says that the tools have changed."""
    await ctx.request_context.session.send_tool_list_changed()
    return "changed"


class Doorkeeper:
    """Writes down how each HTTP request ended, and turns away who has not the token."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if options.token and headers.get("authorization") != options.token:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you?"})
            return

        async def watched() -> Any:
            message = await receive()
            if message["type"] == "http.disconnect":
                note("disconnected", http=scope["method"], method=headers.get("mcp-method"))
            return message

        note("http", http=scope["method"], method=headers.get("mcp-method"), session=headers.get("mcp-session-id"))
        if scope["method"] != "POST":
            await self.app(scope, watched, send)
            return
        body, more = b"", True
        while more:
            message = await watched()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if b'"name":"nag"' in body:
            await self.nag(body, receive, send)
            return
        read = False

        async def again() -> Any:
            nonlocal read
            if read:
                return await watched()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, again, send)

    async def nag(self, body: bytes, receive: Any, send: Any) -> None:
        """Requests without end in the stream of a call; the end comes when memory would show it."""
        note("nag started")
        kind = json.loads(body)["params"]["arguments"]["kind"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for first in range(0, 500_000, 100):
            events = "".join(f"data: {request}\n\n" for request in requests(kind, first))
            await send({"type": "http.response.body", "body": events.encode(), "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass


async def serve_http() -> None:
    import socket

    import uvicorn

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", options.port))
    listener.listen(64)
    app = Doorkeeper(server.streamable_http_app(host="127.0.0.1"))
    config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    part = options.port_file + ".part"
    with open(part, "w") as file:
        file.write(str(listener.getsockname()[1]))
    os.rename(part, options.port_file)
    await uvicorn.Server(config).serve(sockets=[listener])


if options.http:
    anyio.run(serve_http)
else:
    anyio.run(server.run_stdio_async)
