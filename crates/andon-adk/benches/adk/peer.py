"""ADK's own server with models that cost as little as a model can: the peer that Andon is measured beside.

`python peer.py FOLDER` serves on a free port of loopback, prints its address, and ends when its standard input does. It is set up
as `adk api_server FOLDER` sets it up, but writes no log of requests and keeps its sessions in memory, which is the kindest for it:
in SQLite, the default, runs of sixteen clients end with "database is locked".
"""

import asyncio
import json
import os
import socket
import sys
import threading
import time

import httpx
import uvicorn
from google.adk.agents import LlmAgent
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.cli.utils.base_agent_loader import BaseAgentLoader
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

PIECES = int(os.environ["ANDON_BENCH_PIECES"])
NAPS = int(os.environ["ANDON_BENCH_NAPS"])
NAP = float(os.environ["ANDON_BENCH_NAP_SECONDS"])
UPSTREAM = os.environ["ANDON_BENCH_UPSTREAM"]


def said(text, partial):
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return LlmResponse(content=content, partial=partial)


def piece(number):
    return f"{number % 10000:04} "


class Flood(BaseLlm):
    """All pieces are ready."""

    async def generate_content_async(self, llm_request, stream=False):
        for number in range(PIECES):
            yield said(piece(number), True)
        yield said("".join(map(piece, range(PIECES))), False)


class Silent(BaseLlm):
    """One piece, and then silence."""

    async def generate_content_async(self, llm_request, stream=False):
        yield said(piece(0), True)
        await asyncio.Event().wait()


class Upstream(BaseLlm):
    """What another server streams, as any model over HTTP does."""

    async def generate_content_async(self, llm_request, stream=False):
        asked = llm_request.contents[-1].parts[0].text
        body = {"model": "bench", "stream": True, "messages": [{"role": "user", "content": asked}]}
        whole = ""
        async with client().stream("POST", f"{UPSTREAM}/chat/completions", json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    text = json.loads(line[6:])["choices"][0]["delta"]["content"]
                    whole += text
                    yield said(text, True)
        yield said(whole, False)


class Napper(BaseLlm):
    """Asks for one nap after the other."""

    async def generate_content_async(self, llm_request, stream=False):
        naps = sum(1 for content in llm_request.contents for part in content.parts if part.function_response)
        if naps < NAPS:
            part = types.Part(function_call=types.FunctionCall(name="nap", args={}))
            yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=False)
        else:
            yield said("Done.", False)


def nap() -> dict:
    """Sleeps, as a plain blocking tool does."""
    time.sleep(NAP)
    return {"slept": NAP}


def client(kept=[]):
    """One client for all calls: making one is dear."""
    if not kept:
        limits = httpx.Limits(max_connections=None)
        kept.append(httpx.AsyncClient(verify=False, timeout=None, limits=limits))
    return kept[0]


APPS = {
    "flood": lambda: LlmAgent(name="flood", model=Flood(model="bench")),
    "silent": lambda: LlmAgent(name="silent", model=Silent(model="bench")),
    "upstream": lambda: LlmAgent(name="upstream", model=Upstream(model="bench")),
    "napper": lambda: LlmAgent(name="napper", model=Napper(model="bench"), tools=[nap]),
}


class Loader(BaseAgentLoader):
    def __init__(self):
        self.loaded = {}

    def load_agent(self, agent_name):
        if agent_name not in APPS:
            raise ValueError(f"no such agent: {agent_name}")
        return self.loaded.setdefault(agent_name, APPS[agent_name]())

    def list_agents(self):
        return sorted(APPS)


def end_with_stdin():
    sys.stdin.buffer.read()
    os._exit(0)


def main():
    folder = sys.argv[1]
    for app in APPS:
        os.makedirs(os.path.join(folder, app), exist_ok=True)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    # As deep as asyncio's own.
    listener.listen(2048)
    app = get_fast_api_app(
        agents_dir=folder,
        agent_loader=Loader(),
        session_service_uri="memory://",
        web=False,
        port=listener.getsockname()[1],
    )
    threading.Thread(target=end_with_stdin, daemon=True).start()
    print(f"127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listener])


main()
