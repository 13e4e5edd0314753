"""What a case works with: the browser, a person in front of it, servers, and the model provider."""

import json
import pathlib
import re
import time
import traceback

from browser import Browser
from house import House, Mounted
from person import Person
from provider import Provider
from served import NOT_LET_OUT, refusals, unanswered

CASES = []
# On a busy machine a stop or an approval may not be on disk within a second. The response is then 503, although it took effect.
SLOW_DISK = r"^503 POST /v1/(cancel|runs/.+/(cancel|approvals/[^/]+))$"


def case(function):
    """Marks a case. Its name is a sentence."""
    CASES.append(function)
    return function


def titled(function):
    return function.__name__.replace("_", " ")


class World:
    def __init__(self, program, folder, web=None, pictures=None):
        self.program, self.folder, self.web = program, pathlib.Path(folder), web
        self.pictures = pathlib.Path(pictures or folder)
        self.pictures.mkdir(parents=True, exist_ok=True)
        self.provider = Provider()
        self.houses = []
        self.browser = Browser(watched=True)
        self.shared = None
        self.begin_case()

    def begin_case(self):
        self.expected = [SLOW_DISK]
        self.requests = []

    def house(self):
        """The server that most cases share. Nothing is running in it when a case starts."""
        if not self.shared:
            self.shared = self.new_house()
        return self.shared

    def new_house(self, *flags, **how):
        """A separate server for a case."""
        house = House(self.program, self.provider, *flags, web=self.web, **how)
        self.houses.append(house)
        return house

    def mounted(self):
        """A program in which the server is mounted."""
        outer = Mounted(self.program)
        self.houses.append(outer)
        return outer

    def person(self, house=None):
        return Person(house or self.house(), self.browser, self.folder)

    def chat(self, app="teller", house=None):
        """A person in a new conversation with an agent."""
        person = self.person(house)
        person.chat(app)
        return person

    def expect(self, *words):
        """Allows errors that are part of the case, as patterns: a status, the name of a network error,
        `policy` for what the page's policy blocked, or words that a script of the page logs or throws."""
        self.expected += words

    def crossed(self):
        """The network events of this case so far, as (method, parameters)."""
        self.requests += self.browser.network()
        return self.requests

    def addresses(self):
        """Every address that was requested in this case, without what the policy blocked."""
        crossed = self.crossed()
        kept = {it["requestId"] for method, it in crossed if method == "Network.loadingFailed" and it.get("blockedReason") == NOT_LET_OUT}
        asked = [it for method, it in crossed if method == "Network.requestWillBeSent" and it["requestId"] not in kept]
        sent = [it["request"]["url"] for it in asked]
        return sent + [it["url"] for method, it in self.crossed() if method == "Network.webSocketCreated"]

    def run(self, function):
        """Runs one case in a new tab; returns whether it passed."""
        began = time.monotonic()
        self.begin_case()
        tab = self.fresh_tab()
        try:
            function(self)
            self.check()
        except BaseException as error:
            self.browser.turn_to(tab)
            words = Person(None, self.browser, self.folder).failure(function.__name__)
            print(f"page: {titled(function)} FAILED\n{traceback.format_exc()}\n{words}", flush=True)
            if not isinstance(error, Exception):
                raise
            return False
        finally:
            if self.shared:
                self.shared.quiet()
        print(f"page: {titled(function)} ok ({time.monotonic() - began:.1f} s)", flush=True)
        return True

    def fresh_tab(self):
        """A new tab, with all others closed."""
        tab = self.browser.new_tab()
        for other in self.browser.tabs():
            if other != tab:
                self.browser.turn_to(other)
                self.browser.close_tab()
        self.browser.turn_to(tab)
        self.browser.complaints()
        self.browser.network()
        return tab

    def check(self):
        """Checks what holds in every case: the page logs no errors, the server refuses nothing and responds to everything, and only our
        servers get requests."""
        wrong = self.browser.complaints() + refusals(self.crossed()) + unanswered(self.crossed())
        odd = [words for words in wrong if not any(re.search(known, words) for known in self.expected)]
        assert not odd, f"something is wrong with the page: {json.dumps(odd, indent=1)}"
        ours = tuple(f"{scheme}{house.url.removeprefix('http')}/" for house in self.houses for scheme in ("http", "ws"))
        foreign = [url for url in self.addresses() if not url.startswith((*ours, "data:", "about:", "chrome:"))]
        assert not foreign, f"the page asked others than its server: {foreign}"

    def end(self):
        for house in self.houses:
            house.end()
        self.browser.close()
        self.provider.close()
