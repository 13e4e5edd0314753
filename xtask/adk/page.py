"""ADK's own web page against our server: `python page.py URL FOLDER`. Pictures are left in FOLDER.

The page is not ours: it is judged by what our server serves it and stores of it, and by what a person sees in it. What it writes into its
console is its own affair, and the browser's.
"""

import json
import pathlib
import sys
import urllib.parse

sys.path.append(str(pathlib.Path(__file__).parent.parent / "browser"))
from browser import DIRECT, Browser, until  # noqa: E402
from served import refusals, streams, unanswered  # noqa: E402

APP = "house"
INPUT = "textarea.chat-input-box"
RUN = "/run_sse"
# Longer than anybody waits: what runs for so long is stopped.
LONG = 3000
# What the page asks for and its package does not have, with ADK's own server, too.
LACKING = ["404 GET /dev-ui/prism-dark.css"]
# What it asks of others. Nothing leaves this machine.
ELSEWHERE = "ERR_NAME_NOT_RESOLVED"


class Page:
    def __init__(self, url, folder, browser):
        self.url, self.folder, self.browser = url, pathlib.Path(folder), browser
        self.requests = []

    def say(self, text):
        self.browser.type(INPUT, text)
        self.browser.type(INPUT, "\ue007", clear=False)

    def shows(self, text, what):
        until(what, lambda: text in self.browser.text())

    def has(self, selector):
        return self.browser.script("return document.querySelector(arguments[0]) !== null", selector)

    def picture(self, name):
        self.browser.picture(self.folder / f"{name}.png")

    def crossed(self):
        """What crossed the network so far."""
        self.requests += self.browser.network()
        return self.requests

    def get(self, path):
        """What the server says, beside the page."""
        with DIRECT.open(self.url + path, timeout=60) as answer:
            return json.load(answer)

    def session(self):
        """The session that the page is in, as the server tells it."""
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.browser.address()).query)
        return self.get(f"/apps/{APP}/users/user/sessions/{query['session'][0]}")

    def is_told(self, number):
        """Waits until this many prompts were answered in full. A page that has what it wants may hang up first."""
        until("all streams are over", lambda: [end in ("whole", "left") for end in streams(self.crossed(), RUN)] == [True] * number)
        assert self.outcome()["kind"] == "completed", self.outcome()

    def outcome(self):
        """How the last run of the session ended."""
        return self.get(f"/v1/runs/{self.session()['events'][-1]['invocationId']}")["outcome"]


def loads(page):
    page.browser.open(page.url + "/")
    until("the page lists the app", lambda: "select an app" in page.browser.text().lower() or APP in page.browser.text())
    page.browser.open(f"{page.url}/dev-ui/?app={APP}")
    until("there is a place to write", lambda: page.has(INPUT))
    page.picture("loaded")
    # U07: nothing stands in front of the page.
    assert "Help Improve ADK" not in page.browser.text()
    assert not page.has("mat-dialog-container")


def answers(page):
    page.say("hello from the page")
    page.shows("echo: hello from the page", "an answer is shown")
    page.is_told(1)
    page.picture("answered")


def calls_a_tool(page):
    page.say("tool_async 0.1")
    page.shows('tool said: {"slept":0.1}', "what the model made of the result is shown")
    page.shows("slow_async", "the call is shown")
    page.is_told(2)
    page.picture("tool")


def stops(page):
    page.say(f"tool_async {LONG}")
    until("the Stop button is there", lambda: page.has(".stop-message-btn"))
    called = lambda: [part["functionCall"] for event in page.session()["events"] for part in event["content"]["parts"] if "functionCall" in part]
    until("the tool is called", lambda: LONG in [call["args"]["seconds"] for call in called()])
    page.picture("running")
    page.browser.script("document.querySelector('.stop-message-btn').click()")
    last = lambda: page.session()["events"][-1]
    until("the run is stopped", lambda: last().get("errorCode") == "INVOCATION_ABORTED")
    assert page.outcome() == {"kind": "cancelled", "reason": "client_disconnected"}, page.outcome()
    receipt = page.get(f"/v1/runs/{last()['invocationId']}/receipt")
    assert receipt["reason"] == "client_disconnected" and not receipt["leaked"], receipt
    # The page has hung up, and takes the next prompt.
    until("the stream is left", lambda: streams(page.crossed(), RUN)[2:] == ["left"])
    until("the page can be written to", lambda: page.has(INPUT) and not page.has(".stop-message-btn"))
    page.picture("stopped")


def shows_the_same_again(page):
    page.browser.open(page.browser.address())
    page.shows("INVOCATION_ABORTED", "the stop is shown after a reload")
    text = page.browser.text()
    for words in ["hello from the page", "echo: hello from the page", "slow_async"]:
        assert words in text, (words, text)
    page.picture("reloaded")


def shows_spans(page):
    click = "[...document.querySelectorAll('button')].find(b => b.innerText.trim() === 'Traces').click()"
    page.browser.script(click)
    page.shows("generate_content obedient", "the spans of model calls are listed")
    page.picture("traces")


def is_served_well(page):
    """Nothing that the page asked of our server was refused or left without an answer."""
    refused = [answer for answer in refusals(page.crossed()) if answer not in LACKING]
    broken = [request for request in unanswered(page.crossed()) if not request.startswith(ELSEWHERE)]
    assert not refused and not broken, (refused, broken)


def main(url, folder):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    browser = Browser(watched=True)
    page = Page(url, folder, browser)
    try:
        cases = [loads, answers, calls_a_tool, stops, shows_the_same_again, shows_spans, is_served_well]
        for case in cases:
            case(page)
            print(f"page: {case.__name__} ok", flush=True)
        print(f"page: {len(cases)} cases")
    except BaseException:
        page.picture("failed")
        print(browser.text(), json.dumps(browser.console(), indent=1), file=sys.stderr)
        raise
    finally:
        browser.close()


main(*sys.argv[1:])
