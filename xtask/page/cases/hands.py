"""Without a mouse, with a screen reader, over a slow network."""

import threading

from browser import until
from cases.looks import furnished
from person import ENTER, TAB
from provider import Call
from telling import at_least, counted, same_as_stored, say_until
from world import case


@case
def a_conversation_needs_no_mouse(world):
    world.provider.plan("Count by hand.", counted(3000, 0.01))
    person = world.person()
    person.open("#/")
    person.tab_to("^a Chat")
    person.keys(ENTER)
    until("the chat is there", lambda: person.find("a[href*='chat/teller']") or person.find("textarea"))
    if not person.find("textarea"):
        person.tab_to("^a .*teller")
        person.keys(ENTER)
        person.wait_for("textarea")
    else:
        person.chat()
    if not person.focused().startswith("textarea"):
        person.tab_to("^textarea")
    person.keys(*"Count by hand.")
    before = {run["run_id"] for run in person.house.runs()}
    person.tab_to("^button Send")
    person.keys(ENTER)
    run = until("a run begins", lambda: [it for it in person.house.runs() if it["run_id"] not in before])[0]["run_id"]
    # Longer than a double click, which is ignored on a button that was Send a moment ago.
    at_least(person, 80)
    if not person.focused().startswith("button Stop"):
        person.tab_to("^button Stop")
    person.keys(ENTER)
    assert person.house.settled(run)["outcome"]["kind"] == "cancelled"
    person.wait_for("[data-cut]")
    same_as_stored(person, run)


@case
def a_yes_needs_no_mouse(world):
    world.provider.plan("Ask my hand.", ["I ask.", Call("shell", {"command": "echo by hand"})], ["Thank you."])
    person = world.chat("careful")
    run = person.say("Ask my hand.")
    person.wait_for("button", "^Approve")
    person.tab_to("^button Approve")
    person.keys(ENTER)
    person.shows("Thank you.")
    assert person.house.settled(run)["outcome"]["kind"] == "completed"


@case
def the_board_and_the_cord_need_no_mouse(world):
    house, person = world.house(), world.person()
    world.provider.plan("Stay.", ["Here I am.", threading.Event()])
    one, other = house.start("teller", "Stay.", user="ada"), house.start("teller", "Stay.", user="bob")
    person.open()
    until("both are there", lambda: len(person.all("[data-run]")) >= 2)
    stopped = stop_a_row(person, [one, other])
    left = other if stopped == one else one
    assert house.settled(stopped)["outcome"]["kind"] == "cancelled"
    assert house.run(left)["state"] == "running"
    person.ask("document.activeElement.blur(); document.body.focus()")
    person.tab_to("^button .*cord", most=120)
    person.keys(ENTER)
    person.wait_for("dialog")
    person.tab_to("^button .*(pull|stop)", most=10)
    person.keys(ENTER)
    assert house.settled(left)["outcome"]["kind"] == "cancelled"
    until("the line is held", lambda: house.get("/v1/line")["state"] == "held")


def stop_a_row(person, runs):
    """Tabs to a row, then to its Stop, and presses it."""
    for _ in range(120):
        person.keys(TAB)
        inside = person.ask("return document.activeElement?.closest('[data-run]')?.dataset.run ?? null")
        if inside in runs:
            break
    else:
        raise AssertionError("Tab never comes to a row")
    for _ in range(12):
        if person.focused().lower().startswith("button") and "stop" in person.focused().lower():
            person.keys(ENTER)
            return person.ask("return document.activeElement?.closest('[data-run]')?.dataset.run ?? null") or inside
        person.keys(TAB)
    raise AssertionError(f"no Stop in the row, only {person.focused()}")


@case
def everything_has_a_name_for_a_screen_reader(world):
    person = world.person()
    wanted = {"button", "link", "textbox", "searchbox", "combobox", "checkbox", "dialog", "img", "grid", "radio", "switch"}
    nameless = []
    for name, (route, found) in furnished(world).items():
        person.visit(route, found)
        spoken = world.browser.spoken()
        assert sum(node["role"] == "heading" for node in spoken) >= 1, f"no heading on {name}"
        assert {"navigation", "main"} <= {node["role"] for node in spoken}, f"no landmarks on {name}"
        assert person.find("[aria-live], [role=status]") or person.ask("return document.querySelector('[aria-live]') !== null")
        controls = [node for node in spoken if node["role"] in wanted]
        assert len(controls) > 5, f"only {len(controls)} controls on {name}"
        nameless += [f"{name}: {node['role']}" for node in controls if not node["name"].strip()]
        twice = person.ask("const ids = [...document.querySelectorAll('[id]')].map((e) => e.id); return ids.filter((id, i) => ids.indexOf(id) !== i)")
        assert not twice, f"{name}: ids that are there twice: {twice}"
    assert not nameless, nameless


@case
def what_changes_is_said_once_and_not_word_by_word(world):
    gate = threading.Event()
    world.provider.plan("Count aloud.", [*counted(150, 0.01), gate])
    person = world.chat()
    person.listen()
    run = say_until(person, "Count aloud.", 150)
    assert len(person.told()) <= 6, f"{len(person.told())} announcements for one answer: {person.told()[:10]}"
    person.stop()
    person.house.settled(run)
    person.wait_for("[data-cut]")
    until("the stop is said", lambda: any("stop" in words.lower() for words in person.told()))
    assert len(person.told()) <= 14, person.told()
    gate.set()


@case
def a_slow_link_shows_the_page_and_carries_a_stop(world):
    world.provider.plan("Count slowly for me.", counted(3000, 0.05))
    person = world.person()
    world.browser.slow(400, 20_000)
    person.open("#/chat/teller")
    until("there is a place to write", lambda: person.find("textarea"))
    run = person.say("Count slowly for me.")
    until("some of it is shown", lambda: "w5 " in person.text())
    person.stop()
    # The press shows before the server has received it.
    until("it says that it is stopping", lambda: person.find("button", "now") or "stopp" in person.text().lower())
    assert person.house.settled(run)["outcome"]["kind"] == "cancelled"
    until("the cut is shown", lambda: person.find("[data-cut]"))
    same_as_stored(person, run)
