"""Stopping during an answer: what was shown is kept, and the page says who stopped it and why."""

import threading

from browser import until
from person import ENTER, ESCAPE
from provider import Call
from telling import counted, in_text, on_screen, same_as_stored, say_until
from world import case

LONG = counted(3000, 0.01)
# Ignores signals, so that a graceful stop takes the whole grace.
STUBBORN = "trap '' TERM INT; echo begun; while :; do sleep 0.05; done"


def is_stopped(person, run):
    """Checks that the screen and the server agree that the run was stopped in its text."""
    view = person.house.settled(run)
    assert view["outcome"] == {"kind": "cancelled", "reason": "requested"}, view
    person.wait_for("[data-cut]")
    stored = same_as_stored(person, run)
    assert len(in_text(stored)) < 3000
    receipt = person.house.receipt(run)
    assert (receipt["reason"], receipt["by"], receipt["cut_in"]) == ("requested", "local", "model"), receipt
    assert "Stop button" in receipt["note"], receipt
    assert "stopped" in person.text().lower(), person.text()
    person.wait_for("button", "^Send")
    person.gone("button", "^Stop")
    return receipt


def stop_in_mid_text(world, stop):
    world.provider.plan("Count for long.", LONG)
    person = world.chat()
    run = say_until(person, "Count for long.", 30)
    stop(person)
    receipt = is_stopped(person, run)
    return person, run, receipt


@case
def the_stop_button_cuts_the_text_and_keeps_it(world):
    person, run, receipt = stop_in_mid_text(world, lambda person: person.stop())
    assert receipt["force"] == "graceful", receipt
    # The input is ready: the next prompt needs no click.
    assert person.focused().startswith("textarea"), person.focused()
    world.provider.plan("And now?", ["We go on."])
    person.keys(*"And now?", ENTER)
    person.shows("We go on.")
    # The cut text is in the next request to the provider, letter by letter.
    sent = next(body for body in reversed(world.provider.heard) if "And now?" in str(body))
    assert person.house.history(run)[1]["parts"][0]["text"].strip() in str(sent["messages"])


@case
def escape_stops_too(world):
    stop_in_mid_text(world, lambda person: person.keys(ESCAPE))


@case
def a_stop_of_the_command_line_is_shown_as_well(world):
    def stop(person):
        [run] = person.house.runs(settled="false")
        person.house.ask("POST", f"/v1/runs/{run['run_id']}/cancel", {"note": "the Stop button of somebody else"})

    stop_in_mid_text(world, stop)


# Stops of this tab get a very long grace, so that only a harder stop ends a tool that ignores them, however busy the machine is.
PATIENT = """
  const own = window.fetch;
  window.fetch = (url, how) => own(url, /cancel$/.test(url) ? {...how, body: JSON.stringify({...JSON.parse(how.body), grace_ms: 600_000})} : how);
"""


def stubborn(world, prompt, command=STUBBORN):
    world.provider.plan(prompt, ["I begin.", Call("shell", {"command": command})], ["Never said."])
    person = world.chat("worker")
    person.ask(PATIENT)
    run = person.say(prompt)
    # Its output: the command itself has this word too.
    person.shows("begun", person.wait_for(".call .output"))
    return person, run


@case
def a_second_press_stops_now(world):
    person, run = stubborn(world, "Be stubborn.")
    person.stop()
    until("the stop has arrived", lambda: person.house.run(run)["state"] == "cancelling")
    # The page says that it is stopping, and shows no cut before the run has settled.
    until("it says that it is stopping", lambda: "stopping" in person.text().lower())
    assert not person.find("[data-cut]"), "the cut is shown before it is settled"
    person.press("button", "now", person.find("form"))
    person.house.settled(run)
    receipt = person.house.receipt(run)
    assert [request["force"] for request in receipt["requests"]] == ["graceful", "now"], receipt["requests"]
    until("the call is shown as cut", lambda: person.find("[data-call][data-verdict=unknown], [data-call][data-verdict=cut]"))
    person.wait_for("button", "^Send")


@case
def escape_twice_stops_now(world):
    person, run = stubborn(world, "Be stubborn once more.")
    person.keys(ESCAPE)
    until("the stop has arrived", lambda: person.house.run(run)["state"] == "cancelling")
    person.keys(ESCAPE)
    person.house.settled(run)
    assert person.house.receipt(run)["force"] == "now"


# Presses Escape at the moment when something is shown, like someone who was about to press it.
TOO_LATE = """
  const [shown] = arguments;
  const watch = new MutationObserver(() => {
    if (!document.querySelector(shown)) return;
    watch.disconnect();
    document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true, cancelable: true}));
  });
  watch.observe(document.body, {subtree: true, childList: true, attributes: true});
"""


@case
def a_press_that_comes_too_late_for_its_run_does_not_hit_the_next(world):
    stay = ["Here I am.", threading.Event()]
    world.provider.plan("Stay first.", stay)
    world.provider.plan("Stay second.", stay)
    person = world.chat()
    first = person.say("Stay first.")
    person.shows("Here I am.")
    person.type(person.wait_for("textarea"), "Stay second.")
    person.press("button", "^Queue$")
    second = until("the second waits", lambda: [run for run in person.house.runs(settled="false") if run["run_id"] != first])[0]["run_id"]
    person.ask(TOO_LATE, f"[data-run='{first}'][data-cut]")
    person.keys(ESCAPE)
    person.wait_for(f"[data-run='{first}'][data-cut]")
    # The page says what it did, and the next run continues until Stop is pressed again.
    person.shows("nothing else was stopped")
    until("the second runs", lambda: person.house.run(second)["state"] == "running")

    def stopped():
        person.keys(ESCAPE)
        return person.house.run(second)["state"] == "settled"

    until("a later press stops it", stopped)
    assert person.house.run(second)["outcome"]["kind"] == "cancelled"


@case
def a_prompt_while_it_is_stopping_is_taken(world):
    go = world.house().folder / "agents" / "worker" / "heard"
    person, run = stubborn(world, "Be stubborn, and then hear me.", STUBBORN.replace("while :", f"while [ ! -e {go} ]"))
    world.provider.plan("What is next?", ["This is next."])
    person.stop()
    until("the stop has arrived", lambda: person.house.run(run)["state"] == "cancelling")
    after = person.say("What is next?")
    assert person.house.run(after)["state"] in ("queued", "running", "settled")
    person.shows("What is next?")
    assert person.house.run(run)["state"] == "cancelling"
    go.touch()
    person.shows("This is next.")
    assert person.house.settled(after)["outcome"]["kind"] == "completed"
    assert person.house.run(run)["settled_at"] <= person.house.run(after)["settled_at"]
    assert person.house.run(run)["session"] == person.house.run(after)["session"]


@case
def a_stop_of_what_has_just_ended_does_no_harm(world):
    gate = threading.Event()
    world.provider.plan("Be quick.", [*counted(5, 0), gate])
    person = world.chat()
    run = say_until(person, "Be quick.", 5)
    gate.set()
    person.keys(ESCAPE)
    kind = person.house.settled(run)["outcome"]["kind"]
    person.wait_for("button", "^Send")
    assert on_screen(person) == [f"w{number}" for number in range(5)]
    # Whichever came first, the screen and the server agree.
    until("the screen says what the server says", lambda: bool(person.find("[data-cut]")) == (kind == "cancelled"))
