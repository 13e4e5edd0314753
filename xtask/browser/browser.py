"""A browser by the WebDriver protocol, with nothing but the standard library."""

import base64
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
# Nothing that is waited for takes so long on a machine that has others to serve, unless it is broken.
PATIENCE = 90.0
# How many free ports are tried: somebody else may take one before the driver does.
PORTS = 5
# All of it is on this machine, whichever proxy the rest of the world is behind.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
# Who writes errors into a console on behalf of the page: its scripts, what they throw, and the keeper of its policy. The rest are notices
# of the browser's own, which come and go with its version.
OF_THE_PAGE = {"console-api": "", "javascript": "", "security": "policy: "}


class Browser:
    """A headless Chromium, until `close`: one tab, or more of them. With `watched`, what crosses the network is told (`network`)."""

    def __init__(self, watched=False):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.session = ""
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--no-proxy-server",
            "--window-size=1400,1000",
            f"--user-data-dir={self.profile.name}",
            # The page wants fonts from elsewhere. Nothing leaves this machine.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
        ]
        wanted = {
            "goog:chromeOptions": {"binary": program("chromium"), "args": flags},
            "goog:loggingPrefs": {"browser": "ALL", **({"performance": "ALL"} if watched else {})},
            "pageLoadStrategy": "eager",
        }
        begun = self.begin({"capabilities": {"alwaysMatch": wanted}})
        self.session = "/session/" + begun["sessionId"]
        self.process = begun["capabilities"].get("goog:processID")
        self.call("POST", self.session + "/timeouts", {"script": 120_000, "pageLoad": 120_000})

    def begin(self, wanted):
        """Starts the driver at a port that is free, and a browser with it."""
        for _ in range(PORTS):
            port = free_port()
            words = [program("chromedriver"), f"--port={port}"]
            self.driver = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.url = f"http://127.0.0.1:{port}"
            has_ended = lambda: self.driver.poll() is not None
            try:
                begun = until("the browser begins", lambda: has_ended() or self.call("POST", "/session", wanted), (OSError,))
            except BaseException:
                self.driver.kill()
                raise
            if begun is not True:
                return begun
        raise AssertionError(f"the driver has ended, {PORTS} times, with {self.driver.returncode}")

    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"}, method=method)
        try:
            with DIRECT.open(request, timeout=180) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def open(self, url):
        self.call("POST", self.session + "/url", {"url": url})

    def address(self):
        return self.call("GET", self.session + "/url")

    def script(self, text, *arguments):
        return self.call("POST", self.session + "/execute/sync", {"script": text, "args": list(arguments)})

    def later(self, text, *arguments):
        """What a script hands to its last argument, a function, some time later."""
        return self.call("POST", self.session + "/execute/async", {"script": text, "args": list(arguments)})

    def text(self):
        return self.script("return document.body.innerText")

    def find(self, selector):
        return self.call("POST", self.session + "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def type(self, selector, text, clear=True):
        place = self.session + "/element/" + self.find(selector)
        if clear:
            self.call("POST", place + "/clear", {})
        self.call("POST", place + "/value", {"text": text})

    def click(self, element):
        """Presses an element, as a mouse does: what lies over it gets the click, and that is an error."""
        self.call("POST", f"{self.session}/element/{element[ELEMENT]}/click", {})

    def press(self, *keys):
        """Presses keys, one after the other, wherever the focus is."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", self.session + "/actions", {"actions": [{"type": "key", "id": "keys", "actions": strokes}]})

    def reload(self):
        self.call("POST", self.session + "/refresh", {})

    def tab(self):
        """The tab that is driven."""
        return self.call("GET", self.session + "/window")

    def tabs(self):
        return self.call("GET", self.session + "/window/handles")

    def new_tab(self):
        """Opens a tab, and turns to it."""
        tab = self.call("POST", self.session + "/window/new", {"type": "tab"})["handle"]
        self.turn_to(tab)
        return tab

    def turn_to(self, tab):
        self.call("POST", self.session + "/window", {"handle": tab})

    def close_tab(self):
        self.call("DELETE", self.session + "/window")

    def cdp(self, command, **parameters):
        """A command of Chromium's own protocol, for the tab that is driven."""
        return self.call("POST", self.session + "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def theme(self, name):
        """What the person prefers: "light" or "dark"."""
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def size(self, width, height):
        """The size of the window, in its own pixels."""
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def slow(self, latency_ms, bytes_a_second):
        """A slow link, for this tab."""
        self.cdp("Network.enable")
        rates = {"downloadThroughput": bytes_a_second, "uploadThroughput": bytes_a_second}
        self.cdp("Network.emulateNetworkConditions", offline=False, latency=latency_ms, **rates)

    def spoken(self):
        """What a screen reader is told: the nodes of the accessibility tree that are not passed over."""
        self.cdp("Accessibility.enable")
        nodes = self.cdp("Accessibility.getFullAXTree")["nodes"]
        value = lambda node, name: node.get(name, {}).get("value", "")
        return [
            {"role": value(node, "role"), "name": value(node, "name"), "node": node.get("backendDOMNodeId")}
            for node in nodes
            if not node["ignored"]
        ]

    def network(self):
        """What crossed the network since this was last asked, as (method, parameters) of the Network domain."""
        log = self.call("POST", self.session + "/se/log", {"type": "performance"})
        messages = [json.loads(entry["message"])["message"] for entry in log]
        return [(it["method"], it["params"]) for it in messages if it["method"].startswith("Network.")]

    def renderers(self):
        """The processes in which its pages are."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_text()
            except OSError:
                continue
            if "--type=renderer" in words and f"--user-data-dir={self.profile.name}" in words:
                found.append(int(folder.name))
        return found

    def console(self):
        """What was written to the console since this was last asked, by the page or by the browser, to show it to a person."""
        return self.call("POST", self.session + "/se/log", {"type": "browser"})

    def complaints(self):
        """The errors among that which are the page's own."""
        errors = [entry for entry in self.console() if entry["level"] == "SEVERE" and entry.get("source") in OF_THE_PAGE]
        return [OF_THE_PAGE[entry["source"]] + entry["message"] for entry in errors]

    def picture(self, file):
        with open(file, "wb") as out:
            out.write(base64.b64decode(self.call("GET", self.session + "/screenshot")))

    def close(self):
        try:
            self.call("DELETE", self.session)
        except (OSError, RuntimeError):
            pass
        self.driver.terminate()
        self.driver.wait()
        self.profile.cleanup()


def program(name):
    """Where a program is."""
    found = shutil.which(name)
    assert found, f"there is no {name} on the path"
    return found


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def until(what, look, passing=(RuntimeError,), patience=PATIENCE):
    """What `look` gives, as soon as that is something."""
    end = time.monotonic() + patience
    while True:
        try:
            found, why = look(), "nothing"
        except passing as error:
            found, why = None, error
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {patience} s: {what} ({why})")
        time.sleep(0.02)
