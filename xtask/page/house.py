"""The real program, with agents whose runs can be stopped, and access to what it has stored."""

import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request

from browser import DIRECT, until

# The app of each folder: its model and its tools. `practice` is built in; the others use the provider of the suite.
AGENTS = {
    "teller": ("openai/stand-in", ""),
    "worker": ("openai/stand-in", "tools:\n  - name: shell\n  - name: read_file\n    args: {folder: notes}\n"),
    "careful": ("openai/stand-in", "tools:\n  - name: shell\n    args: {needs_approval: true}\n"),
}


class House:
    """A server with the page, until `end`."""

    def __init__(self, program, provider, *flags, web=None, agents=AGENTS):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="andon-page-"))
        self.program, self.provider, self.flags, self.web = program, provider, flags, web
        for app, (model, tools) in agents.items():
            place = self.folder / "agents" / app
            (place / "notes").mkdir(parents=True)
            (place / "notes" / "note.txt").write_text("Buy milk.")
            text = f"name: {app}\nmodel: {model}\ndescription: Says what it is told.\ninstruction: Say it.\n{tools}"
            (place / "root_agent.yaml").write_text(text)
        self.process = None
        self.url = "http://127.0.0.1:0"
        self.begin()

    def begin(self):
        """Starts the server; the next time at the same address."""
        words = [self.program, "serve", "--bind", self.url.removeprefix("http://"), "--db", self.folder / "andon.db"]
        words += ["--agents", self.folder / "agents", "--seed", "7", "--drain", "1s", *self.flags]
        words += ["--web-dir", self.web] if self.web else []
        self.said = open(self.folder / "said.txt", "w+")
        # The server inherits from Python that SIGXFSZ is ignored, so a write past the limit of `fill_disk` fails instead of killing it.
        how = {"stdout": self.said, "stderr": subprocess.STDOUT, "restore_signals": False}
        self.process = subprocess.Popen(words, env=self.environment(), **how)
        self.url = until("the server says where it is", self.address)
        self.key_of_owner = self.owner_key()

    def environment(self):
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        own = {"OPENAI_API_KEY": "of-the-suite", "OPENAI_BASE_URL": self.provider.url, "ANDON_CONFIG": ""}
        return {**kept, **own, "XDG_CONFIG_HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder)}

    def address(self):
        text = (self.folder / "said.txt").read_text()
        if self.process.poll() is not None:
            raise AssertionError(f"the server has ended: {text}")
        found = re.search(r"Andon is at (http://[0-9.:]+)", text)
        return found and found[1]

    def owner_key(self):
        """With --auth: a key with the admin scope."""
        if "--auth" not in self.flags:
            return None
        return self.command("keys", "create", "suite", "--scope", "admin").strip()

    def command(self, *words):
        """The output of a command of the program."""
        where = ["--db", str(self.folder / "andon.db")]
        asked = [self.program, *words, *where]
        done = subprocess.run(asked, env=self.environment(), capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, (words, done.returncode, done.stderr)
        return done.stdout

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def freeze(self):
        """Suspends the server, as if its machine were asleep."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def fill_disk(self):
        """From now on the database cannot grow, as on a full disk. The file with the server's output is much smaller, so it still can."""
        self.room = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        written = (self.folder / "andon.db-wal").stat().st_size
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (written, self.room[1]))

    def make_room(self):
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, self.room)

    def leave(self):
        """SIGTERM, as in an update."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(90)

    def end(self):
        if self.process and self.process.poll() is None:
            self.kill()
        self.said.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, method, path, body=None, key=None):
        """The server's response as JSON. A refusal is an `HTTPError`; a stop that took effect but is not on disk yet is not a refusal."""
        headers = {"content-type": "application/json"}
        if key or self.key_of_owner:
            headers["authorization"] = f"Bearer {key or self.key_of_owner}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with DIRECT.open(request, timeout=90) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            told = json.load(error) if error.code == 503 and path.endswith("/cancel") else {}
            if not told.get("pulled"):
                raise
            return told
        return json.loads(text) if text else None

    def get(self, path):
        return self.ask("GET", path)

    def start(self, app, prompt, **more):
        """Starts a run without the page."""
        return self.ask("POST", "/v1/runs", {"app": app, "input": prompt, **more})["run_id"]

    def run(self, run):
        return self.get(f"/v1/runs/{run}")

    def runs(self, **query):
        return self.get("/v1/runs?" + urllib.parse.urlencode({"limit": 100, **query}))["runs"]

    def receipt(self, run):
        return self.get(f"/v1/runs/{run}/receipt")

    def settled(self, run):
        """The run, once it has settled."""
        is_settled = lambda: (found := self.run(run))["state"] == "settled" and found
        return until(f"run {run} settles", is_settled, (OSError,))

    def history(self, run):
        """The stored conversation of a run."""
        view = self.run(run)
        place = "/".join(urllib.parse.quote(view[part], safe="") for part in ("app", "user", "session"))
        return self.get(f"/v1/sessions/{place}/history")["messages"]

    def said_by_model(self, run):
        """The text of the last stored answer, as it was written."""
        answers = [message for message in self.history(run) if message["role"] == "assistant"]
        return "".join(part.get("text", "") for part in answers[-1]["parts"] if part["type"] == "text")

    def quiet(self):
        """Stops all runs and opens the line, so that the next case starts clean."""
        for hold in self.get("/v1/line")["holds"]:
            scope = {name: hold[name] for name in ("app", "user", "tenant") if hold.get(name)}
            self.ask("PUT", "/v1/line", {"state": "open", **scope})
        if self.runs(settled="false"):
            self.ask("POST", "/v1/cancel", {"all": True, "force": "now", "wait": True})


class Mounted:
    """The program of the example `mounted`, which has a sign-in of its own and Andon at `/agents`, until `end`."""

    def __init__(self, program):
        example = pathlib.Path(program).parent / "examples" / "mounted"
        self.said = tempfile.NamedTemporaryFile("w+", prefix="andon-mounted-")
        self.process = subprocess.Popen([example, "127.0.0.1:0"], stdout=self.said, stderr=subprocess.STDOUT)
        self.url = until("the program says where it is", lambda: pathlib.Path(self.said.name).read_text().strip())

    def sign_in(self, user):
        """The cookie of a user."""
        request = urllib.request.Request(self.url + "/", f"user={user}".encode(), method="POST")
        with urllib.request.build_opener(urllib.request.ProxyHandler({}), Stay).open(request, timeout=90) as answer:
            return answer.headers["set-cookie"].partition(";")[0]

    def ask(self, cookie, method, path, body=None):
        headers = {"content-type": "application/json", "cookie": cookie}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.url}/agents{path}", data, headers, method=method)
        with DIRECT.open(request, timeout=90) as answer:
            return json.load(answer)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.said.close()


class Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the answer that redirects is the one that is wanted."""

    def http_error_303(self, request, answer, code, words, headers):
        return answer


def refused(ask):
    """The status of a refusal, or None."""
    try:
        ask()
    except urllib.error.HTTPError as error:
        return error.code
    return None


def is_alive(process):
    """Whether a process exists and is not a zombie."""
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
