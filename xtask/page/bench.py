"""What the page costs in a browser: the bytes of the first view, CPU time with thousands of runs, frames from a press to its effect.

`python3 bench.py PROGRAM FOLDER [--web-dir FOLDER] [--runs N] [bytes | load | presses]..`
"""

import argparse
import concurrent.futures
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "browser")]

from browser import Browser, until  # noqa: E402
from crowd import Crowd  # noqa: E402
from house import House  # noqa: E402
from person import Person  # noqa: E402

SECONDS = 20
PRESSES = 20
STREAMING = 300


class Bench:
    def __init__(self, given):
        self.given = given
        self.crowd = Crowd()
        self.house = House(given.program, self.crowd, web=given.web_dir)
        self.lines = []

    def browser(self, **how):
        return Browser(**how)

    def tell(self, what, reached, goal=""):
        self.lines.append((what, reached, goal))
        print(f"{what}: {reached}", flush=True)

    def table(self):
        print("\n| Figure | Reached | Goal |\n|---|---|---|")
        for line in self.lines:
            print(f"| {' | '.join(line)} |")

    def start(self, many, prompt):
        """Starts this many runs for different users."""
        one = lambda number: self.house.start("teller", prompt, user=f"user-{number % 500}")
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            return list(pool.map(one, range(many)))


def first_view(bench):
    """Cold: a browser that has never loaded the page."""
    browser = bench.browser(watched=True)
    try:
        person = Person(bench.house, browser, bench.given.folder)
        # The browser opens its own start page first.
        browser.open("about:blank")
        browser.network()
        person.open()
        person.wait_for("button", "cord")
        crossed, sent, sizes = [], {}, {}

        def is_loaded():
            crossed.extend(browser.network())
            sent.update({it["requestId"]: it["request"]["url"] for method, it in crossed if method == "Network.requestWillBeSent"})
            sizes.update({it["requestId"]: it["encodedDataLength"] for method, it in crossed if method == "Network.loadingFinished"})
            is_fed = any(method == "Network.webSocketFrameReceived" for method, _ in crossed)
            return is_fed and sent.keys() <= sizes.keys()

        until("all is loaded", is_loaded)
    finally:
        browser.close()
    frames = sum(len(it["response"]["payloadData"]) for method, it in crossed if method == "Network.webSocketFrameReceived")
    foreign = [url for url in sent.values() if not url.startswith((bench.house.url, "data:"))]
    for request, url in sent.items():
        print(f"  {sizes.get(request, 0):>8.0f} {url.removeprefix(bench.house.url)}")
    ours = [request for request, url in sent.items() if url.startswith(bench.house.url)]
    in_all = sum(sizes.get(request, 0) for request in ours) + frames
    bench.tell("first view, cold, in all", f"{in_all / 1000:.1f} kB in {len(ours)} requests, {frames / 1000:.1f} kB of it the feed", "under 100 kB")
    bench.tell("requests outside of the server", str(len(foreign)), "none")


def processes(root):
    """A process and all its descendants."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
    found, size = {root}, 0
    while len(found) != size:
        size = len(found)
        found |= {process for process, (parent, _) in parents.items() if parent in found}
    return {process: parents[process][1] for process in found if process in parents}


def share(browser, seconds=SECONDS):
    """How much of one core all processes of a browser use, over a while."""
    before, began = processes(browser.process), time.monotonic()
    time.sleep(seconds)
    after, took = processes(browser.process), time.monotonic() - began
    ticks = sum(used - before.get(process, 0) for process, used in after.items())
    return 100 * ticks / os.sysconf("SC_CLK_TCK") / took


def load(bench):
    """Thousands of live runs on the board."""
    many = bench.given.runs
    browser = bench.browser()
    try:
        person = Person(bench.house, browser, bench.given.folder)
        person.open()
        person.wait_for("button", "cord")
        assert not person.ask("return document.hidden"), "a page that nobody sees draws less"
        empty = share(browser, 5)
        bench.tell("an empty board, of one core", f"{empty:.1f} %")
        bench.start(many - STREAMING, "stay silent")
        until(f"{many - STREAMING} are counted", lambda: f"{many - STREAMING:,} live" in person.text(), patience=120)
        bench.tell(f"{many - STREAMING:,} silent runs, of one core", f"{share(browser):.1f} %", "under 30 %")
        bench.start(STREAMING, "say it again and again")
        until(f"{many} are counted", lambda: f"{many:,} live" in person.text(), patience=120)
        until("their pieces are counted", lambda: any(cell in ("3.8", "4.0", "4.2", "5.0", "3.0") for cell in person.text().split()), patience=60)
        person.picture("bench")
        words = f"{many:,} live runs, {STREAMING} of them with {1 / bench.crowd.pause:.0f} pieces a second"
        bench.tell(f"{words}, of one core", f"{share(browser):.1f} %", "under 30 %")
        presses_on_the_board(bench, person)
    finally:
        browser.close()


# From a press to the frame after the first change of the button: the time, and the number of frames.
PRESS = """
  const [button, done] = [arguments[0], arguments[arguments.length - 1]];
  button.addEventListener('click', (event) => {
    const pressed = event.timeStamp;
    let frames = 0, changed = null;
    const count = (now) => {
      frames += 1;
      if (changed !== null) { watch.disconnect(); window.measured = {ms: now - pressed, frames, changed: changed - pressed, drawn: performance.now() - pressed}; return; }
      if (frames < 600) requestAnimationFrame(count);
    };
    const place = button.closest('[data-run]') ?? button.parentElement;
    const watch = new MutationObserver((changes) => {
      const own = changes.some(({target}) => button === target || button.contains(target) || !button.isConnected);
      if (own && changed === null) changed = performance.now();
    });
    watch.observe(place, {attributes: true, childList: true, characterData: true, subtree: true});
    requestAnimationFrame(count);
  }, {capture: true, once: true});
  window.measured = null;
  done();
"""


def measured(person, button):
    """Clicks a button; returns how long the screen took to show it."""
    person.browser.later(PRESS, button)
    person.browser.click(button)
    return until("the press is shown", lambda: person.ask("return window.measured"))


def tell_presses(bench, where, all_of_them):
    frames = sorted(one["frames"] for one in all_of_them)
    times = sorted(one["drawn"] for one in all_of_them)
    words = f"{frames[len(frames) // 2]} (most {frames[-1]}); {statistics.median(times):.1f} ms (most {times[-1]:.1f} ms)"
    bench.tell(f"press of Stop to the frame that shows it, {where}, {len(frames)} presses, frames", words, "1")


def presses_on_the_board(bench, person):
    found = []
    for _ in range(PRESSES):
        button = until("there is a Stop", lambda: [it for it in person.all("button", "^Stop", person.find("[data-board]")) if person.ask("return !arguments[0].hasAttribute('data-pressed') && !arguments[0].disabled", it)])
        found.append(measured(person, button[len(found) % 5]))
    tell_presses(bench, f"a row among {bench.given.runs:,}", found)


# When the feed reported that the run has settled, and when the cut was first shown.
MARKS = """
  const Own = window.WebSocket;
  window.marks = {};
  window.WebSocket = class extends Own {
    constructor(...words) {
      super(...words);
      this.addEventListener('message', ({data}) => {
        if (data.includes('"run_settled"')) window.marks.settled ??= performance.now();
      });
    }
  };
  addEventListener('DOMContentLoaded', () => new MutationObserver(() => {
    if (!window.marks.cut && document.querySelector('[data-cut]')) window.marks.cut = performance.now();
  }).observe(document.body, {subtree: true, childList: true, attributes: true}));
"""


def presses(bench):
    """Stop in a chat."""
    browser = bench.browser()
    found, behind = [], []
    try:
        person = Person(bench.house, browser, bench.given.folder)
        browser.cdp("Page.addScriptToEvaluateOnNewDocument", source=MARKS)
        for _ in range(PRESSES):
            browser.open("about:blank")
            person.open("#/chat/teller")
            person.wait_for("textarea")
            run = person.say("say something")
            until("some words are there", lambda: "w1" in person.text())
            found.append(measured(person, person.wait_for("button", "^Stop")))
            bench.house.settled(run)
            until("the cut is shown", lambda: person.find("[data-cut]"))
            marks = person.ask("return window.marks")
            behind.append(marks["cut"] - marks["settled"])
    finally:
        browser.close()
    tell_presses(bench, "in a chat", found)
    early = sum(it < 0 for it in behind)
    bench.tell("cut shown before run_settled has come", f"{early} of {len(behind)}", "none")
    bench.tell("from run_settled to the cut on the screen", f"median {statistics.median(behind):.1f} ms, most {max(behind):.1f} ms")


def main():
    parser = argparse.ArgumentParser()
    for name in ("program", "folder"):
        parser.add_argument(name)
    parser.add_argument("--web-dir")
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("words", nargs="*")
    given = parser.parse_intermixed_args()
    parts = {"bytes": first_view, "presses": presses, "load": load}
    bench = Bench(given)
    try:
        for name in given.words or parts:
            parts[name](bench)
    finally:
        bench.house.end()
        bench.crowd.close()
    bench.table()


main()
