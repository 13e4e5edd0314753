"""The cord: everything stops, and nothing new starts until the line is opened."""

import threading

from browser import until
from house import refused
from cases.stops import STUBBORN
from person import ENTER
from provider import Call
from world import case


@case
def the_cord_stops_all_and_holds_the_line(world):
    house, person = world.house(), world.person()
    world.provider.plan("Stay.", ["Here I am.", threading.Event()])
    world.provider.plan("Work on.", ["I work.", Call("shell", {"command": "sleep 300"})], ["Never said."])
    runs = [house.start("teller", "Stay.", user=f"user-{number}") for number in range(4)] + [house.start("worker", "Work on.")]
    until("all of them run", lambda: {house.run(run)["state"] for run in runs} == {"running"})
    person.open()
    until("all are on the board", lambda: len(person.all("[data-run]")) >= 5)
    # Opening the dialog does nothing yet.
    person.press("button", "cord")
    dialog = person.wait_for("dialog")
    assert "5 runs" in person.text(dialog), person.text(dialog)
    person.press("button", "^Cancel$", dialog)
    person.gone("dialog")
    assert {house.run(run)["state"] for run in runs} == {"running"} and house.get("/v1/line")["state"] == "open"
    # Now for real.
    person.press("button", "cord")
    dialog = person.wait_for("dialog")
    reason = person.find("input[type=text], input:not([type]), textarea", "", dialog)
    if reason:
        person.type(reason, "a fire drill")
    person.press("button", "pull|stop", dialog)
    for run in runs:
        assert house.settled(run)["outcome"]["kind"] == "cancelled"
    until("the line is held", lambda: house.get("/v1/line")["state"] == "held")
    until("it is told that all have settled", lambda: "5" in person.text() and "settled" in person.text().lower())
    until("it is told that the line is held", lambda: "held" in person.text().lower())
    receipts = [house.receipt(run) for run in runs]
    assert {receipt["by"] for receipt in receipts} == {"local"} and not any(receipt["leaked"] for receipt in receipts)
    turned_away(world, person)
    opened_again(world, person)


def turned_away(world, person):
    """Checks that new runs are refused, and that the page says why and by whom."""
    assert refused(lambda: world.house().start("teller", "Stay.")) == 503
    person.chat()
    world.expect("^503")
    before = len(world.house().runs())
    person.type(person.wait_for("textarea"), "May I?")
    person.keys("\ue007")
    until("the reason is told", lambda: "held" in person.text().lower())
    assert len(world.house().runs()) == before
    # The prompt is not lost.
    until("the words are still there", lambda: "May I?" in person.ask("return document.querySelector('textarea').value") or "May I?" in person.text())


def opened_again(world, person):
    person.open("#/")
    person.press("button", "^Open( the line)?$")
    until("the line is open", lambda: world.house().get("/v1/line")["state"] == "open")
    world.provider.plan("And now?", ["Yes."])
    person.chat()
    person.say("And now?")
    person.shows("Yes.")


@case
def the_rest_is_stopped_now_and_what_began_since_is_not(world):
    house, person = world.house(), world.person()
    # On a busy machine the grace may be over before the second button is pressed. Then nothing is left to stop.
    for _ in range(5):
        run, later, dialog = stop_the_rest(world, person)
        forces = [request["force"] for request in house.receipt(run)["requests"]]
        if forces != ["graceful"]:
            break
        house.quiet()
    assert forces == ["graceful", "now"], forces
    until("it is told that it has settled", lambda: "The run settled in" in person.text(dialog))
    assert house.run(later)["state"] == "running", "a run that nobody saw was stopped"
    # The button is gone, and the focus is still in the dialog.
    assert person.ask("return arguments[0].contains(document.activeElement)", dialog), person.focused()


def stop_the_rest(world, person):
    """Pulls the cord, opens the line, starts a second run, and stops the rest of the first. Returns both runs and the dialog."""
    house = world.house()
    world.provider.plan("Be stubborn in the cord.", ["I begin.", Call("shell", {"command": STUBBORN})], ["Never said."])
    world.provider.plan("Stay.", ["Here I am.", threading.Event()])
    run = house.start("worker", "Be stubborn in the cord.")
    person.open(f"#/run/{run}")
    person.shows("begun")
    person.open("#/")
    person.wait_for(f"[data-run='{run}']")
    person.press("button", "cord")
    dialog = person.wait_for("dialog")
    person.press("button", "^Hold the line and stop", dialog)
    rest = person.wait_for("button", "^Stop the rest now")
    person.press("button", "^Open the line", dialog)
    until("the line is open", lambda: house.get("/v1/line")["state"] == "open")
    later = house.start("teller", "Stay.", user="late")
    person.ask("arguments[0].focus()", rest)
    person.keys(ENTER)
    house.settled(run)
    return run, later, dialog


@case
def the_cord_says_how_many_do_what(world):
    house, person = world.house(), world.person()
    world.provider.plan("Stay.", ["Here I am.", threading.Event()])
    world.provider.plan("May I?", [Call("shell", {"command": "echo asked"})], ["Done."])
    runs = [house.start("careful", "May I?", user=user) for user in ("ada", "bob")] + [house.start("teller", "Stay.", user="ada")]
    until("two wait", lambda: [house.run(run)["state"] for run in runs] == ["waiting", "waiting", "running"])
    person.open()
    person.press("button", "cord")
    dialog = person.wait_for("dialog")
    until("they are counted", lambda: "This stops 3 runs (2 users, 2 agents):" in person.text(dialog))
    until("how many wait is said", lambda: "2 need approval" in person.text(dialog) and "1 running" in person.text(dialog))
    person.press("button", "^Cancel$", dialog)


@case
def enter_that_is_held_down_does_not_pull_the_cord(world):
    house, person = world.house(), world.person()
    world.provider.plan("Stay.", ["Here I am.", threading.Event()])
    run = house.start("teller", "Stay.")
    person.open()
    person.wait_for(f"[data-run='{run}']")
    person.ask("arguments[0].focus()", person.wait_for("button", "cord"))
    enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
    world.browser.cdp("Input.dispatchKeyEvent", type="keyDown", **enter)
    dialog = person.wait_for("dialog")
    for _ in range(5):
        world.browser.cdp("Input.dispatchKeyEvent", type="keyDown", autoRepeat=True, **enter)
    world.browser.cdp("Input.dispatchKeyEvent", type="keyUp", **enter)
    assert "Pull the cord?" in person.text(dialog), person.text(dialog)
    assert house.get("/v1/line")["state"] == "open" and house.run(run)["state"] == "running"
    # A new press counts.
    person.keys(ENTER)
    until("the line is held", lambda: house.get("/v1/line")["state"] == "held")
    house.settled(run)


@case
def a_line_that_somebody_else_holds_is_shown(world):
    house, person = world.house(), world.person()
    person.open()
    person.wait_for("button", "cord")
    house.ask("PUT", "/v1/line", {"state": "held", "reason": "somebody is at the machine"})
    person.shows("somebody is at the machine")
    house.ask("PUT", "/v1/line", {"state": "open"})
    until("it is open again", lambda: "somebody is at the machine" not in person.text())


# The size, weight and background of a text, which decide what is seen first.
WEIGHT = """
  const style = getComputedStyle(arguments[0]);
  return {size: parseFloat(style.fontSize), weight: Number(style.fontWeight), ground: style.backgroundColor};
"""


@case
def a_line_that_is_held_is_seen_before_the_cord(world):
    house, person = world.house(), world.person()
    person.open()
    open_cord = person.ask(WEIGHT, person.wait_for("button", "^Pull the cord"))
    house.ask("PUT", "/v1/line", {"state": "held", "reason": "somebody is at the machine"})
    person.shows("The line is held")
    said = person.ask(WEIGHT, person.wait_for(".bar .state", "held"))
    cord = person.ask(WEIGHT, person.wait_for("button", "^Pull the cord"))
    assert said["size"] > cord["size"] and said["weight"] >= cord["weight"], (said, cord)
    assert cord["ground"] != open_cord["ground"], "the cord is as loud as when the line is open"
    # The way out is next to the state, and other views show the state too.
    assert person.wait_for("button", "^Open the line$")
    person.open("#/runs")
    person.shows("Line held")
    person.open("#/")
    person.press("button", "^Open the line$")
    person.wait_for(".bar .state", "The line is open")
    until("the cord is what it was", lambda: person.ask(WEIGHT, person.find("button", "^Pull the cord")) == open_cord)
