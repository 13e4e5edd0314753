"""A provider for thousands of calls at once: some stay silent, the others say a word again and again."""

import asyncio
import json
import threading


class Crowd:
    """On a free port, until `close`. A prompt that starts with `say` is answered with a word every `pause` seconds."""

    def __init__(self, pause=0.25):
        self.pause = pause
        self.loop = asyncio.new_event_loop()
        begun = threading.Event()
        threading.Thread(target=self.work, args=(begun,), daemon=True).start()
        begun.wait()

    def work(self, begun):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self.answer, "127.0.0.1", 0, backlog=4096))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        begun.set()
        self.loop.run_forever()

    def close(self):
        self.loop.call_soon_threadsafe(self.end)

    def end(self):
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        # After the cleanup of the tasks.
        self.loop.call_soon(self.loop.stop)

    async def answer(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            body = json.loads(await reader.readexactly(length))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            says = str(body["messages"][-1]["content"]).startswith("say")
            number = 0
            while True:
                if says or number == 0:
                    chunk = {"id": "1", "model": "stand-in", "choices": [{"index": 0, "delta": {"content": f"w{number} "}}]}
                    writer.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
                    await writer.drain()
                number += 1
                await asyncio.sleep(self.pause if says else 3600)
        except (OSError, asyncio.IncompleteReadError):
            pass  # The run was stopped.
        finally:
            writer.close()
