"""A model provider with OpenAI's API that says what a case wants, piece by piece.

A case plans the answer to a prompt: a list of turns, each a list of steps. A step is a text, a `Thought`, a `Call`, a
`threading.Event` to wait for, a number of seconds to pause, or an `OSError`, which breaks the connection. So a case decides how much
has been said when it stops a run.
"""

import dataclasses
import http.server
import json
import threading
import time

LONGEST = 120.0


@dataclasses.dataclass
class Thought:
    text: str


@dataclasses.dataclass
class Call:
    """A tool call, with its arguments."""

    tool: str
    arguments: dict


class Provider:
    """The provider, on a free port, until `close`."""

    def __init__(self):
        self.plans = {}
        self.heard = []
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                provider.heard.append(body)
                provider.answer(self, body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def plan(self, prompt, *turns):
        """Plans the answer to a prompt, turn by turn."""
        self.plans[prompt] = turns

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, request, body):
        request.send_response(200)
        request.send_header("content-type", "text/event-stream")
        request.end_headers()
        steps, index = self.steps(body), 0
        finish = "stop"
        try:
            for step in steps:
                if isinstance(step, threading.Event):
                    step.wait(LONGEST)
                elif isinstance(step, OSError):
                    raise step
                elif isinstance(step, (int, float)):
                    time.sleep(step)
                elif isinstance(step, Call):
                    function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
                    call = {"index": index, "id": f"call_{len(self.heard)}_{index}", "type": "function", "function": function}
                    say(request, {"tool_calls": [call]})
                    index, finish = index + 1, "tool_calls"
                elif isinstance(step, Thought):
                    say(request, {"reasoning_content": step.text})
                else:
                    say(request, {"content": step})
            usage = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
            send(request, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage})
            request.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            request.close_connection = True  # The run was stopped, or the case wants this.

    def steps(self, body):
        """The next turn: as many turns are done as there are answers since the prompt."""
        answers = 0
        for message in reversed(body["messages"]):
            if message["role"] == "assistant":
                answers += 1
            if message["role"] != "user":
                continue
            # The message may also say that the last answer was stopped.
            found = [prompt for prompt in self.plans if prompt in words(message)]
            if found:
                turns = self.plans[max(found, key=len)]
                return turns[answers] if answers < len(turns) else ["Done."]
        return ["I was not told what to say to this."]


def words(message):
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def say(request, delta):
    send(request, {"choices": [{"index": 0, "delta": delta}]})


def send(request, chunk):
    whole = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "stand-in", **chunk}
    request.wfile.write(b"data: " + json.dumps(whole).encode() + b"\n\n")
