"""ADK's own web page against our server: `python page.py URL FOLDER CHROMIUM CHROMEDRIVER PORT`. Pictures are left in FOLDER."""

import json
import pathlib
import sys
import urllib.parse
import urllib.request

sys.path.append(str(pathlib.Path(__file__).parent.parent / "browser"))
from browser import Browser, until  # noqa: E402

APP = "house"
INPUT = "textarea.chat-input-box"

# What the page complains of with ADK's own server, too: fonts from elsewhere, a style that it lacks, and its own Stop.
KNOWN = ["fonts.g", "prism-dark.css", "AbortError", "was aborted", "ERR_NAME_NOT_RESOLVED"]


class Page:
    def __init__(self, url, folder, browser):
        self.url, self.folder, self.browser = url, pathlib.Path(folder), browser

    def say(self, text):
        self.browser.type(INPUT, text)
        self.browser.type(INPUT, "\ue007", clear=False)

    def shows(self, text, what):
        until(what, lambda: text in self.browser.text())

    def has(self, selector):
        return self.browser.script("return document.querySelector(arguments[0]) !== null", selector)

    def picture(self, name):
        self.browser.picture(self.folder / f"{name}.png")

    def session(self):
        """The session that the page is in, as the server tells it."""
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.browser.address()).query)
        session = query["session"][0]
        with urllib.request.urlopen(f"{self.url}/apps/{APP}/users/user/sessions/{session}") as answer:
            return json.load(answer)


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
    page.picture("answered")


def calls_a_tool(page):
    page.say("tool_async 0.1")
    page.shows('tool said: {"slept":0.1}', "what the model made of the result is shown")
    page.shows("slow_async", "the call is shown")
    page.picture("tool")


def stops(page):
    page.say("tool_async 55")
    until("the Stop button is there", lambda: page.has(".stop-message-btn"))
    until("the tool runs", lambda: page.session()["state"].get("last_tool") and "55" in json.dumps(page.session()["events"]))
    page.picture("running")
    page.browser.script("document.querySelector('.stop-message-btn').click()")
    last = lambda: page.session()["events"][-1]
    until("the run is stopped", lambda: last().get("errorCode") == "INVOCATION_ABORTED")
    with urllib.request.urlopen(f"{page.url}/v1/runs/{last()['invocationId']}/receipt") as answer:
        receipt = json.load(answer)
    assert receipt["reason"] == "client_disconnected", receipt
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


def main(url, folder, chromium, chromedriver, port):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    browser = Browser(chromium, chromedriver, port)
    page = Page(url, folder, browser)
    try:
        cases = [loads, answers, calls_a_tool, stops, shows_the_same_again, shows_spans]
        for case in cases:
            case(page)
            print(f"page: {case.__name__} ok", flush=True)
        odd = [words for words in browser.complaints() if not any(known in words for known in KNOWN)]
        assert not odd, odd
        print(f"page: {len(cases)} cases")
    except BaseException:
        page.picture("failed")
        print(browser.text(), browser.complaints(), file=sys.stderr)
        raise
    finally:
        browser.close()


main(*sys.argv[1:])
