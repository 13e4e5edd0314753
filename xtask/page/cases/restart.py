"""The server goes away and comes back: the page says so, and resumes by itself."""

import threading

from browser import until
from person import ENTER, ESCAPE
from telling import counted, in_text, on_screen, say_until
from world import case

# What requests get when the server is gone.
GONE = ["^ERR_", "^503", "^502"]


def gone_and_back(world, go):
    """A conversation in which the server goes away during an answer; returns the person, the run and what was on the screen then."""
    gate = threading.Event()
    world.provider.plan("Count while you can.", [*counted(100, 0.005), gate])
    world.expect(*GONE)
    person = world.chat(house=world.new_house())
    run = say_until(person, "Count while you can.", 100)
    until("it is stored", lambda: person.house.run(run)["state"] == "running")
    shown = on_screen(person)
    go(person.house)
    person.wait_for("#banner", "not responding")
    gate.set()
    assert on_screen(person)[: len(shown)] == shown, "what was shown is gone with the server"
    person.house.begin()
    person.gone("#banner")
    return person, run, shown


@case
def a_server_that_was_killed_is_missed_and_found_again(world):
    person, run, shown = gone_and_back(world, lambda house: house.kill())
    view = person.house.settled(run)
    assert view["outcome"]["kind"] == "lost", view
    stored = in_text(person.house.said_by_model(run))
    # All but the last 50 ms. A word came every 5 ms, or several at once if the machine was busy.
    assert stored == shown[: len(stored)] and len(shown) - len(stored) <= 40, (stored, shown)
    until("the screen shows what is stored", lambda: on_screen(person) == stored)
    until("it says that the run was lost", lambda: "went down" in person.text() or "lost" in person.text())
    # And it continues without a reload.
    world.provider.plan("Are you there?", ["I am."])
    person.wait_for("button", "^Send")
    after = person.say("Are you there?")
    person.shows("I am.")
    assert person.house.settled(after)["outcome"]["kind"] == "completed"


@case
def a_server_that_is_shut_down_settles_and_comes_back(world):
    person, run, shown = gone_and_back(world, lambda house: house.leave())
    view = person.house.settled(run)
    assert view["outcome"] == {"kind": "cancelled", "reason": "shutdown"}, view
    assert in_text(person.house.said_by_model(run)) == shown
    until("the screen shows what is stored", lambda: on_screen(person) == shown)
    person.wait_for("[data-cut]")
    world.provider.plan("Are you back?", ["I am back."])
    person.say("Are you back?")
    person.shows("I am back.")


@case
def what_is_written_while_the_server_is_gone_is_not_lost(world):
    world.expect(*GONE)
    world.provider.plan("Hear me later.", ["I hear you."])
    person = world.chat(house=world.new_house())
    person.house.kill()
    person.type(person.wait_for("textarea"), "Hear me later.")
    person.keys(ENTER)
    person.wait_for("#banner", "not responding")
    person.house.begin()
    person.gone("#banner")
    person.shows("I hear you.")
    assert len(person.house.runs()) == 1, "it was sent twice"


@case
def a_server_that_says_nothing_is_missed_too(world):
    world.expect(*GONE)
    gate = threading.Event()
    world.provider.plan("Count on.", [*counted(50, 0.005), gate, *counted(20, 0.005, 50)])
    person = world.chat(house=world.new_house())
    run = say_until(person, "Count on.", 50)
    person.house.freeze()
    try:
        # Every connection is open, but nothing arrives.
        until("the page says so", lambda: person.find("#banner", "not responding"))
    finally:
        person.house.thaw()
    until("it is back", lambda: not person.find("#banner"))
    gate.set()
    person.house.settled(run)
    until("all of it is there, and none of it twice", lambda: on_screen(person) == in_text(person.house.said_by_model(run)))


@case
def a_view_that_was_not_loaded_comes_with_the_server(world):
    # A module that cannot be loaded is an error in the script that imports it.
    for words in [*GONE, "Failed to fetch dynamically"]:
        world.expect(words)
    person = world.person(world.new_house())
    person.open()
    person.wait_for("[data-summary]")
    person.house.kill()
    person.open("#/chat/teller")
    person.wait_for("#banner", "not responding")
    person.house.begin()
    until("there is a place to write", lambda: person.find("textarea"))
    assert not person.find("#banner")


@case
def a_stop_that_did_not_arrive_outlives_a_reload_as_its_prompt_does(world):
    for words in (*GONE, "^404"):
        world.expect(words)
    world.provider.plan("Count in vain.", counted(3000, 0.01))
    person = world.chat(house=world.new_house())
    person.house.kill()
    person.type(person.wait_for("textarea"), "Count in vain.")
    person.keys(ENTER)
    person.shows("sent again when it is back")
    person.keys(ESCAPE)
    person.wait_for("button", "^Stop not sent")
    come_back_to_it(world, person)
    run = until("the prompt is sent", person.house.runs)[0]["run_id"]
    assert person.house.settled(run)["outcome"] == {"kind": "cancelled", "reason": "requested"}, person.house.run(run)
    # The stop arrived before the prompt, so the run never called the model.
    assert not [body for body in world.provider.heard if "Count in vain." in str(body)], "the model was asked"
    person.wait_for("[data-cut]")
    person.wait_for("button", "^Send")
    assert len(person.house.runs()) == 1


@case
def prompts_that_did_not_arrive_arrive_in_their_order_after_a_reload(world):
    world.expect(*GONE)
    world.provider.plan("One first.", ["It was one."])
    world.provider.plan("Two then.", ["It was two."])
    person = world.chat(house=world.new_house())
    person.house.kill()
    person.type(person.wait_for("textarea"), "One first.")
    person.keys(ENTER)
    person.shows("sent again when it is back")
    person.type(person.wait_for("textarea"), "Two then.")
    person.press("button", "^Queue$")
    come_back_to_it(world, person)
    person.shows("It was two.")
    runs = sorted(person.house.runs(), key=lambda run: run["accepted_at"])
    assert [run["title"] for run in runs] == ["One first.", "Two then."], runs
    person.shows("It was one.")


def come_back_to_it(world, person):
    """Leaves the page, and opens it again when the server is back: pending requests of the page are lost."""
    address = world.browser.address()
    world.browser.open("about:blank")
    person.house.begin()
    world.browser.open(address)


@case
def the_board_comes_back_by_itself(world):
    world.expect(*GONE)
    world.provider.plan("Stay.", [threading.Event()])
    person = world.person(world.new_house())
    before = person.house.start("teller", "Stay.", user="ada")
    person.open()
    person.wait_for(f"[data-run='{before}']")
    person.house.kill()
    person.wait_for("#banner", "not responding")
    person.house.begin()
    person.gone("#banner")
    after = person.house.start("teller", "Stay.", user="bob")
    person.wait_for(f"[data-run='{after}']")
    until("the lost run is shown as lost", lambda: is_shown_as(person, before, "lost"))


def is_shown_as(person, run, word):
    row = person.find(f"[data-run='{run}']")
    return not row or word in person.text(row).lower()
