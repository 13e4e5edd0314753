"""Tool calls: live output, their own Stop, and approval."""

import threading
import time

from browser import until
from house import is_alive
from person import ENTER
from provider import Call
from world import case


def place(world, app="worker"):
    """The folder in which the shell of an app works."""
    return world.house().folder / "agents" / app


def calls_of(person, run):
    return person.house.receipt(run)["calls"]


@case
def what_a_tool_says_is_shown_while_it_runs(world):
    go = place(world) / "go-on"
    # Spelled so that what it prints is not in the command, which is shown before the tool runs.
    command = f"echo fir''st line; while [ ! -e {go} ]; do sleep 0.05; done; echo sec''ond line"
    world.provider.plan("Work.", ["I work.", Call("shell", {"command": command})], ["The work is done."])
    person = world.chat("worker")
    run = person.say("Work.")
    card = person.wait_for("[data-call]")
    person.shows("first line", card)
    assert "shell" in person.text(card) and "second line" not in person.text(card)
    assert person.house.run(run)["phase"] == "tools"
    go.touch()
    person.shows("The work is done.")
    person.house.settled(run)
    until("the call is shown as finished", lambda: person.find("[data-call][data-verdict=finished]"))
    assert calls_of(person, run)[0]["verdict"] == "finished"


@case
def a_stop_in_a_tool_ends_its_processes(world):
    noted = place(world) / "processes"
    command = f"sleep 300 & echo $! >> {noted}; (sleep 300 & echo $! >> {noted}; wait) & echo $$ >> {noted}; echo ready; wait"
    world.provider.plan("Sleep.", ["Good night.", Call("shell", {"command": command})], ["Never said."])
    person = world.chat("worker")
    run = person.say("Sleep.")
    person.shows("ready", person.wait_for("[data-call]"))
    processes = until("three processes run", lambda: len(found := noted.read_text().split()) == 3 and found, (OSError,))
    assert all(map(is_alive, processes)), processes
    person.stop()
    assert person.house.settled(run)["outcome"]["kind"] == "cancelled"
    assert not any(map(is_alive, processes)), "a process has outlived its run"
    [call] = calls_of(person, run)
    assert call["verdict"] in ("cut", "unknown") and not person.house.receipt(run)["leaked"], call
    until("the verdict is shown", lambda: person.find(f"[data-call][data-verdict={call['verdict']}]"))
    person.wait_for("button", "^Send")


@case
def one_tool_of_two_can_be_stopped(world):
    go = place(world) / "the-other-may-go-on"
    first, second = "echo one is here; sleep 300", f"echo two is here; while [ ! -e {go} ]; do sleep 0.05; done; echo two is done"
    calls = [Call("shell", {"command": first}), Call("shell", {"command": second})]
    world.provider.plan("Both.", ["I do both.", *calls], ["One was stopped, the other is done."])
    person = world.chat("worker")
    run = person.say("Both.")
    person.shows("one is here\n", person.find("main"))
    until("two calls are shown", lambda: len(person.all("[data-call]")) == 2)
    one, two = person.all("[data-call]")
    person.shows("one is here", one)
    person.shows("two is here", two)
    person.press("button", "stop", one)
    until("the first is shown as cut", lambda: person.find("[data-call][data-verdict=cut], [data-call][data-verdict=unknown]"))
    assert person.house.run(run)["state"] == "running", "the whole run was stopped"
    assert len(person.all("[data-verdict]")) == 1 or not person.find("[data-call][data-verdict=finished]")
    go.touch()
    person.shows("One was stopped, the other is done.")
    assert person.house.settled(run)["outcome"]["kind"] == "completed"
    verdicts = {call["call"]: call["verdict"] for call in calls_of(person, run)}
    assert sorted(verdicts.values()) == ["finished", "unknown"] or sorted(verdicts.values()) == ["cut", "finished"], verdicts
    results = [part for message in person.house.history(run) if message["role"] == "tool" for part in message["parts"]]
    assert any("two is done" in str(part) for part in results), results


def asked(world, prompt, command):
    calls = ["I would like to.", Call("shell", {"command": command})]
    world.provider.plan(prompt, calls, ["So it is."])
    person = world.chat("careful")
    run = person.say(prompt)
    person.shows(command)
    person.wait_for("button", "^Approve")
    assert person.house.run(run)["state"] == "waiting"
    return person, run


@case
def a_yes_lets_a_call_begin(world):
    file = place(world, "careful") / "approved"
    person, run = asked(world, "May you?", f"touch {file}; echo touched")
    assert not file.exists(), "it began without a yes"
    person.press("button", "^Approve")
    person.shows("So it is.")
    person.gone("button", "^Approve")
    assert person.house.settled(run)["outcome"]["kind"] == "completed"
    assert file.exists() and calls_of(person, run)[0]["verdict"] == "finished"


@case
def what_is_to_be_approved_is_seen_to_its_end(world):
    command = "echo " + "a" * 7000 + "; echo THE END"
    person, run = asked(world, "Ask at length.", command)
    person.shows("THE END", person.find("[data-call]"))
    person.ask("arguments[0].focus()", person.wait_for("button", "^Deny"))
    person.keys(ENTER)
    # The buttons are gone, and the focus is still at the call.
    until("the call has the focus", lambda: person.ask("return document.activeElement.matches('[data-call], textarea')"))
    person.house.settled(run)


@case
def a_no_keeps_a_call_from_beginning(world):
    file = place(world, "careful") / "denied"
    person, run = asked(world, "May you not?", f"touch {file}")
    person.press("button", "^Deny")
    deny = person.find("button", "^(Deny|Say no)", person.find("dialog")) if person.find("dialog") else None
    if deny:
        person.browser.click(deny)
    person.shows("So it is.")
    person.gone("button", "^Approve")
    assert person.house.settled(run)["outcome"]["kind"] == "completed"
    assert not file.exists(), "it was run all the same"
    [call] = calls_of(person, run)
    assert call["verdict"] == "never_started", call
    until("the verdict is shown", lambda: person.find("[data-call][data-verdict=never_started]"))


@case
def a_run_that_waits_for_a_yes_can_be_stopped(world):
    file = place(world, "careful") / "stopped"
    person, run = asked(world, "May you, or not?", f"touch {file}")
    person.stop()
    assert person.house.settled(run)["outcome"]["kind"] == "cancelled"
    person.gone("button", "^Approve")
    person.wait_for("button", "^Send")
    assert not file.exists()


def no_later_than(seconds, since):
    took = time.monotonic() - since
    assert took < seconds, f"it took {took:.1f} s"


@case
def the_model_is_not_said_to_be_asked_while_a_tool_runs(world):
    go = place(world) / "go-on-quietly"
    calls = [Call("shell", {"command": f"while [ ! -e {go} ]; do sleep 0.05; done"}), Call("read_file", {"path": "note.txt"})]
    answers = threading.Event()
    world.provider.plan("Use both.", [*calls], [answers, "Both are done."])
    person = world.chat("worker")
    run = person.say("Use both.")
    # The last one has finished, and the other is still running.
    until("the quick one is done", lambda: person.find("[data-call][data-verdict=finished]"))
    person.shows("Running shell…")
    assert "model" not in person.text(person.find("main")), person.text()
    go.touch()
    person.shows("Waiting for the model…")
    answers.set()
    person.shows("Both are done.")
    person.house.settled(run)


def copied(person, name, at=0):
    """What a Copy button puts into the clipboard."""
    person.ask("window.copied = null; navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    person.browser.click(until(f"there is {name!r}", lambda: person.all("button", name)[at:])[0])
    return until("something is copied", lambda: person.ask("return window.copied"))


@case
def what_is_in_the_chat_can_be_copied(world):
    answer = "Some **words**, and\n\n- a list"
    world.provider.plan("Say *it*.", [answer, Call("shell", {"command": "echo a result"})], ["And the rest."])
    person = world.chat("worker")
    run = person.say("Say *it*.")
    person.house.settled(run)
    person.shows("And the rest.")
    # As it was written, not as it is shown.
    assert copied(person, "^Copy prompt$") == "Say *it*."
    assert copied(person, "^Copy answer$") == f"{answer}\n\nAnd the rest."
    assert '"echo a result"' in copied(person, "^Copy arguments$")
    assert copied(person, "^Copy result$").startswith("a result")
    # Selected text can be copied too.
    marked = person.ask("""
      const said = document.querySelector('.said p');
      getSelection().selectAllChildren(said);
      return [String(getSelection()), getComputedStyle(said).userSelect];
    """)
    assert marked[0].startswith("Some words") and marked[1] != "none", marked
