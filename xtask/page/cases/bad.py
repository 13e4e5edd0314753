"""Malicious or enormous output from models: it is shown as text, nothing runs, nothing freezes."""

import threading

from browser import until
from busy import Busy
from provider import Call, Thought
from world import case

# In milliseconds of a core. Several times what it takes on a quiet machine: how quick the page is, `bench page` says; work that
# grows with the square of what is shown takes seconds.
FROZEN = 1000

EVIL = """<script>window.got = 'script'</script><img src=x onerror="window.got='img'"><svg onload="window.got='svg'"></svg>
<iframe srcdoc="<script>parent.got='frame'</script>"></iframe><a href="javascript:window.got='href'">press me</a>
<style>body{display:none}</style><form action="/x"><input autofocus onfocus="window.got='focus'"></form>

[press me too](javascript:window.got='markdown') [and me](JaVaScRiPt:window.got='case') [data](data:text/html,<script>window.got=1</script>)
![picture](https://elsewhere.example/tracker.png) ![x](x" onerror="window.got='attr') <https://elsewhere.example/a>
[vb](vbscript:x) [a]( \tjava\nscript:window.got='space') **unclosed *mixed** _up_ ` ``` ~~~ | | --- [[[ ](( <b><i>
"""
HIDDEN = "\u202eright to left\u202c \u200bzero\u200b \u2066isolate \u0000null \ufeffmark \u202dover"


def nothing_ran(world, person):
    assert person.ask("return window.got ?? null") is None, person.ask("return window.got")
    assert person.ask("return document.querySelectorAll('main script, main iframe, main img, main style, main form form, main object').length") == 0
    assert not person.ask("return [...document.querySelectorAll('a[href]')].filter((a) => !/^(https?|mailto):$/.test(a.protocol)).length"), "a link that runs"
    try:
        world.browser.call("GET", world.browser.session + "/alert/text")
    except RuntimeError:
        return
    raise AssertionError("there is a dialog of the browser's")


@case
def html_and_scripts_of_a_model_are_text(world):
    world.provider.plan("Be evil.", [Thought(EVIL), *[EVIL[place : place + 11] for place in range(0, len(EVIL), 11)], HIDDEN])
    person = world.chat()
    run = person.say("Be evil.")
    assert person.house.settled(run)["outcome"]["kind"] == "completed"
    person.wait_for("button", "^Send")
    person.shows("<script>window.got = 'script'</script>")
    person.shows('<img src=x onerror="window.got=\'img\'">')
    nothing_ran(world, person)
    for link in person.all("link", "press me|and me|data|vb"):
        world.browser.click(link)
    nothing_ran(world, person)
    assert person.ask("return getComputedStyle(document.body).display") != "none"
    for route in (f"#/run/{run}", f"#/run/{run}/receipt", "#/runs", "#/"):
        person.open(route)
        until(f"{route} is there", lambda: len(person.text(person.find("main"))) > 20)
        nothing_ran(world, person)


@case
def names_and_tool_output_are_text_as_well(world):
    house = world.house()
    name = "<img src=x onerror=window.got=1>"
    command = "printf '%s' '<script>window.got=2</script>\\033[31mred\\033[0m'; exit 3"
    world.provider.plan(name, ["<b>so</b>", Call("shell", {"command": command})], ["<u>Done.</u>"])
    run = house.start("worker", name, user=name, session=name)
    house.settled(run)
    person = world.person()
    for route in ("#/", "#/runs", f"#/run/{run}", f"#/run/{run}/receipt", f"#/chat/worker?user={quoted(name)}", f"#/chat/worker/{quoted(name)}?user={quoted(name)}"):
        person.open(route)
        until(f"{route} shows it as text", lambda: "<img src=x" in person.text() or "onerror" in person.text())
        nothing_ran(world, person)
    person.shows("<u>Done.</u>")
    person.open(f"#/run/{quoted('<script>')}")
    world.expect("^404", "^400")
    until("the page says that there is no such run", lambda: len(person.text(person.find("main"))) > 10)
    nothing_ran(world, person)


def quoted(text):
    import urllib.parse

    return urllib.parse.quote(text, safe="")


def answered(busy):
    """Checks that the page was never unresponsive for long enough to notice."""
    worked, took = busy.longest()
    assert worked < FROZEN, f"the page did not answer for {took:.0f} ms, and worked for {worked:.0f} ms of it"


@case
def five_megabytes_in_one_line_freeze_nothing(world):
    line = "x" * 10_000
    gate = threading.Event()
    world.provider.plan("Five megabytes.", [*[line] * 500, "THE END", gate])
    person = world.chat()
    busy = Busy(person)
    run = person.say("Five megabytes.")
    until("all of it has come", lambda: person.ask("return document.querySelector('main').textContent.includes('THE END')"))
    assert person.house.run(run)["state"] == "running"
    answered(busy)
    person.stop()
    person.house.settled(run)
    person.wait_for("button", "^Send")
    assert len(person.house.said_by_model(run)) == 5_000_007
    gate.set()


@case
def a_prompt_is_sent_where_nothing_can_be_kept(world):
    world.provider.plan("Hear me in a full tab.", ["I hear you."])
    person = world.chat()
    person.ask("for (let size = 1 << 22; size; size >>= 1) try { for (;;) sessionStorage.setItem(`full${size}.${Math.random()}`, 'x'.repeat(size)); } catch {}")
    run = person.say("Hear me in a full tab.")
    person.shows("I hear you.")
    assert person.house.settled(run)["outcome"]["kind"] == "completed"
    person.ask("sessionStorage.clear()")


@case
def long_names_and_reasons_stay_within_the_window(world):
    house, person = world.house(), world.person()
    world.provider.plan("Name me.", ["I do."])
    session, user = "s" * 120, "u" * 120
    house.settled(house.start("teller", "Name me.", user=user, session=session))
    house.ask("PUT", "/v1/line", {"state": "held", "reason": "r" * 400})
    for width in (1400, 390):
        world.browser.size(width, 900)
        for route, wanted in ((f"#/chat/teller/{session}?user={user}", "I do."), ("#/", "rrrr"), ("#/chat/" + "x" * 3000, "There is no agent")):
            person.visit(route, "main")
            person.shows(wanted)
            wide = person.ask("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{route[:20]} is {wide} px too wide at {width}"
    world.browser.size(1400, 900)


@case
def very_many_pieces_freeze_nothing(world):
    pieces = [f"w{number} " if number % 40 else f"w{number}\n\n" for number in range(20_000)]
    gate = threading.Event()
    world.provider.plan("Very many.", [*pieces, "THE END", gate])
    person = world.chat()
    busy = Busy(person)
    run = person.say("Very many.")
    until("all of it has come", lambda: person.ask("return document.querySelector('main').textContent.includes('THE END')"))
    answered(busy)
    person.stop()
    person.house.settled(run)
    person.wait_for("[data-cut]")


TURNS, CALLS = 100, 20


@case
def a_run_of_very_many_events_can_be_looked_at(world):
    house = world.house()
    turn = ["I go on.", *[Call("read_file", {"path": "note.txt"})] * CALLS]
    world.provider.plan("Very many events.", *[turn] * TURNS, ["That was all."])
    person = world.person()
    run = house.start("worker", "Very many events.")
    person.open(f"#/run/{run}")
    person.wait_for("[data-seq]")
    busy = Busy(person)
    until("the run has settled", lambda: house.run(run)["state"] == "settled")
    assert len(house.receipt(run)["calls"]) == TURNS * CALLS
    until("the page shows that it is over", lambda: "completed" in person.text().lower())
    assert person.ask("return document.querySelectorAll('[data-seq]').length") < 1500, "every event is in the page"
    answered(busy)
