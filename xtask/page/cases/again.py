"""Reloads, and two tabs."""

import threading

from browser import until
from provider import Call
from telling import at_least, counted, on_screen, same_as_stored, say_until
from world import case


@case
def a_reload_in_mid_answer_goes_on_in_place(world):
    gate = threading.Event()
    world.provider.plan("Count through a reload.", [*counted(200, 0.005), gate, *counted(50, 0, begin=200)])
    person = world.chat()
    run = say_until(person, "Count through a reload.", 30)
    world.browser.reload()
    # The text is back, and the answer continues.
    at_least(person, 200)
    assert person.house.run(run)["state"] == "running"
    assert on_screen(person) == [f"w{number}" for number in range(200)]
    person.shows("Count through a reload.")
    person.wait_for("button", "^Stop")
    gate.set()
    at_least(person, 250)
    assert person.house.settled(run)["outcome"]["kind"] == "completed"
    same_as_stored(person, run)
    person.wait_for("button", "^Send")
    # And again after the end.
    world.browser.reload()
    at_least(person, 250)
    same_as_stored(person, run)


@case
def a_reload_in_a_tool_shows_its_output_again(world):
    go = world.house().folder / "agents" / "worker" / "reloaded"
    command = f"echo before; while [ ! -e {go} ]; do sleep 0.05; done; echo after"
    world.provider.plan("Work through a reload.", ["I work.", Call("shell", {"command": command})], ["Done at last."])
    person = world.chat("worker")
    run = person.say("Work through a reload.")
    person.shows("before\n", person.find("main"))
    world.browser.reload()
    card = person.wait_for("[data-call]")
    until("what it had said is there", lambda: "before" in person.text(person.find("[data-call]")).replace(command, ""))
    person.wait_for("button", "stop", card)
    go.touch()
    person.shows("Done at last.")
    person.house.settled(run)


@case
def a_stopped_answer_is_the_same_after_a_reload(world):
    world.provider.plan("Count until I stop you.", counted(3000, 0.01))
    person = world.chat()
    run = say_until(person, "Count until I stop you.", 20)
    person.stop()
    person.house.settled(run)
    person.wait_for("[data-cut]")
    before = on_screen(person)
    world.browser.reload()
    person.wait_for("[data-cut]")
    same_as_stored(person, run)
    assert on_screen(person) == before
    assert "stopped" in person.text().lower()


@case
def two_tabs_show_the_same(world):
    world.provider.plan("Count for two.", counted(3000, 0.01))
    person = world.chat()
    run = say_until(person, "Count for two.", 20)
    first, address = world.browser.tab(), world.browser.address()
    second = world.browser.new_tab()
    world.browser.open(address)
    at_least(person, 40)
    person.stop()
    person.house.settled(run)
    person.wait_for("[data-cut]")
    stored = same_as_stored(person, run)
    world.browser.turn_to(first)
    # Stopped in one, shown in both.
    person.wait_for("[data-cut]")
    assert same_as_stored(person, run) == stored
    person.wait_for("button", "^Send")
    world.browser.turn_to(second)
    # A prompt sent in one is shown in both, too.
    world.provider.plan("And you?", ["I am here."])
    person.say("And you?")
    person.shows("I am here.")
    world.browser.turn_to(first)
    person.shows("And you?")
    person.shows("I am here.")
