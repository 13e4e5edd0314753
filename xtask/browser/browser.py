"""A browser by the WebDriver protocol, with nothing but the standard library."""

import base64
import json
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
PATIENCE = 15.0


class Browser:
    """One page in a headless Chromium, until `close`."""

    def __init__(self, chromium, chromedriver, port):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.driver = subprocess.Popen(
            [chromedriver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.url = f"http://127.0.0.1:{port}"
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
            "--window-size=1400,1000",
            f"--user-data-dir={self.profile.name}",
            # The page wants fonts from elsewhere. Nothing leaves this machine.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
        ]
        wanted = {
            "goog:chromeOptions": {"binary": chromium, "args": flags},
            "goog:loggingPrefs": {"browser": "ALL"},
            "pageLoadStrategy": "eager",
        }
        begin = lambda: self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = "/session/" + until("the browser begins", begin, (OSError,))["sessionId"]

    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def open(self, url):
        self.call("POST", self.session + "/url", {"url": url})

    def address(self):
        return self.call("GET", self.session + "/url")

    def script(self, text, *arguments):
        return self.call("POST", self.session + "/execute/sync", {"script": text, "args": list(arguments)})

    def text(self):
        return self.script("return document.body.innerText")

    def find(self, selector):
        return self.call("POST", self.session + "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def type(self, selector, text, clear=True):
        place = self.session + "/element/" + self.find(selector)
        if clear:
            self.call("POST", place + "/clear", {})
        self.call("POST", place + "/value", {"text": text})

    def complaints(self):
        log = self.call("POST", self.session + "/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] == "SEVERE"]

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


def until(what, look, passing=(RuntimeError,)):
    """What `look` gives, as soon as that is something."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            found, why = look(), "nothing"
        except passing as error:
            found, why = None, error
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE} s: {what} ({why})")
        time.sleep(0.05)
