"""The disk is full while a run is in progress: the page says that the run has stalled, and later that it has settled."""

import threading

from browser import until
from cases.board import row, says
from person import ENTER
from provider import Call
from telling import at_least, counted, same_as_stored
from world import case

# What the page says about a stalled run, wherever there is room for it.
TOLD = ("has stopped working", "cannot be written to the journal", "settle on its own", "The server says: the journal could not be written")


def at_work(world, prompt="Count on a small disk."):
    """A person at a separate server, and a run in the middle of its answer. The gate lets it continue."""
    gate = threading.Event()
    world.provider.plan(prompt, [*counted(20, 0), gate, *counted(20, 0, 20), threading.Event()])
    # New runs and stops cannot be recorded meanwhile.
    world.expect("^503 POST /v1/")
    person = world.person(world.new_house())
    run = person.house.start("teller", prompt, user="local", session="small")
    person.open("#/chat/teller/small?user=local")
    at_least(person, 20)
    return person, run, gate


def stall(person, run, gate):
    """Fills the disk, and lets the run write something."""
    person.house.fill_disk()
    gate.set()
    return until("the run has stalled", lambda: person.house.run(run).get("stalled"))


def is_told(person, within, why):
    for words in TOLD:
        person.shows(words, within)
    assert why in person.text(within), person.text(within)


def count(person, state):
    """The number on a filter of the board; None if it is not shown."""
    chip = person.find(f".chip[data-filter={state}]")
    return chip and int(person.text(chip).split()[-1])


@case
def a_run_that_stalls_says_so_on_the_board_and_settles_there(world):
    person, run, gate = at_work(world)
    person.open()
    says(person, run, "model")
    assert count(person, "stalled") is None, "a state that no run has is offered"
    why = stall(person, run, gate)
    says(person, run, "stalled")
    assert not person.find(".state[data-state=running]", "", row(person, run)), "it looks as if it were running"
    person.wait_for(".journal", "1 run has stalled")
    person.shows(why, person.find(".journal"))
    until("it is counted as what it is", lambda: (count(person, "all"), count(person, "stalled"), count(person, "running")) == (1, 1, 0))
    person.press("button", "^Stalled")
    until("the filter finds it", lambda: row(person, run))
    person.picture("stalled-board")
    person.house.make_room()
    person.gone(".journal")
    assert person.house.settled(run)["outcome"]["error"] == "journal"
    person.press("button", "^All")
    says(person, run, "failed")
    until("it is counted as settled", lambda: (count(person, "settled"), count(person, "stalled")) == (1, None))


@case
def a_run_that_stalls_says_why_on_its_page_and_is_stopped_there(world):
    person, run, gate = at_work(world)
    person.open(f"#/run/{run}")
    person.wait_for(".runhead .state", "model")
    why = stall(person, run, gate)
    head = person.wait_for(".runhead")
    person.wait_for(".runhead .state", "^stalled$")
    is_told(person, head, why)
    assert person.find("button", "^Stop$", head), "it cannot be stopped"
    person.press("button", "^Stop$", head)
    # The stop has taken effect but is not on record: the page says so, and the run is still stalled.
    person.shows("settle on its own as stopped", head)
    person.wait_for(".runhead .state", "^stalled$")
    person.picture("stalled-run")
    person.house.make_room()
    person.wait_for(".runhead .state", "^stopped$")
    person.gone(".runhead p", "stopped working")
    assert person.house.settled(run)["outcome"] == {"kind": "cancelled", "reason": "requested"}


@case
def a_run_that_stalls_says_so_in_the_chat_and_loses_no_word(world):
    person, run, gate = at_work(world)
    why = stall(person, run, gate)
    answer = person.wait_for(f"article[data-run='{run}']")
    is_told(person, answer, why)
    assert not person.find("[data-end]"), "it looks as if it had ended"
    person.wait_for("button", "^Stop")
    person.type(person.wait_for("textarea"), "And now?")
    person.keys(ENTER)
    person.shows("has stalled. Your text is kept here")
    person.picture("stalled-chat")
    # A page that is opened now says the same.
    person.visit("#/chat/teller/small?user=local", f"article[data-run='{run}']")
    is_told(person, person.find(f"article[data-run='{run}']"), why)
    person.house.make_room()
    person.wait_for("[data-end=failed]")
    person.gone("p", "stopped working")
    person.wait_for("button", "^Send")
    same_as_stored(person, run)


@case
def a_tool_of_a_run_that_stalls_is_not_shown_as_running(world):
    # Its output has to be written, so the run notices that it cannot be.
    world.provider.plan("Keep talking.", [Call("shell", {"command": "while echo here; do sleep 0.05; done"})])
    person = world.person(world.new_house())
    run = person.house.start("worker", "Keep talking.", user="local", session="small")
    person.open("#/chat/worker/small?user=local")
    person.wait_for(".call[data-stage=runs] .state", "^running$")
    person.house.fill_disk()
    until("the run has stalled", lambda: person.house.run(run).get("stalled"))
    person.wait_for(".call .state", "^told to stop$")
    assert not person.find("button", "^Stop", person.find(".call")), "its tool can be stopped, although it was"
    person.house.make_room()
    person.wait_for("[data-end=failed]")
    person.wait_for(".call[data-stage=over]")
