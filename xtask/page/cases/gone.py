"""The server does not respond: nothing looks as if it did, and nothing is shown as stopping that may not be."""

import threading

from browser import until
from cases.board import row
from cases.restart import GONE
from person import ENTER
from provider import Call
from telling import at_least, counted
from world import case

# Whether an element has a signal colour: green, or the red of the cord.
SIGNALS = """
  // A state has a coloured text, a button a coloured background.
  const style = getComputedStyle(arguments[0]), isState = arguments[0].matches('.state');
  const [red, green, blue] = (isState ? style.color : style.backgroundColor).match(/[0-9.]+/g).map(Number);
  const most = Math.max(red, green, blue), least = Math.min(red, green, blue);
  return most - least > 25 && (green === most || red - green > 100);
"""


def left_alone(world, prompt="Stay."):
    """A person at a server that will be killed, and a run on it."""
    world.expect(*GONE)
    world.provider.plan(prompt, [*counted(20, 0), threading.Event()])
    person = world.person(world.new_house())
    return person, person.house.start("teller", prompt, user="local", session="alone")


def killed(person):
    person.house.kill()
    person.wait_for("#banner", "not responding")


@case
def neither_the_line_nor_the_cord_looks_alive_without_a_server(world):
    person, run = left_alone(world)
    person.open()
    person.wait_for(f"[data-run='{run}']")
    person.wait_for(".line-state .state", "The line is open")
    alive = {"line": ".line-state .state", "cord": "[data-cord]", "run": "[data-run] .state"}
    for name, element in alive.items():
        assert person.ask(SIGNALS, person.find(element)), f"the {name} has no colour while it works"
    killed(person)
    person.wait_for(".line-state .state", "unknown")
    assert not person.find("main", "The line is open"), person.text()
    for name, element in alive.items():
        assert not person.ask(SIGNALS, person.find(element)), f"the {name} looks alive"
    # The cord can be pulled anyway, and says what happened.
    person.press("button", "^Pull the cord")
    dialog = person.wait_for("dialog")
    person.shows("The server is not responding", dialog)
    person.press("button", "^Hold the line and stop", dialog)
    person.shows("The cord may not have been pulled", dialog)
    person.press("button", "^Close", dialog)
    person.house.begin()
    person.wait_for(".line-state .state", "The line is open")
    until("the cord works again", lambda: person.ask(SIGNALS, person.find("button", "^Pull the cord")))


@case
def a_stop_that_is_not_sent_says_so_where_it_can_be_read(world):
    person, run = left_alone(world)
    for width, height in ((1280, 800), (390, 844)):
        world.browser.size(width, height)
        person.visit("#/", f"[data-run='{run}']")
        person.house.kill()
        person.wait_for("#banner", "not responding")
        person.press("button", "^Stop", row(person, run))
        until("it says so", lambda: "stop not sent" in person.text(row(person, run)))
        assert "stopping" not in person.text(row(person, run)).lower(), person.text(row(person, run))
        cut = person.ask(
            "return [...arguments[0].querySelectorAll('[data-column=state], button')].filter(isShown).map((e) => e.scrollWidth - e.clientWidth)",
            row(person, run),
        )
        assert max(cut) <= 0, f"{cut} px of it cannot be read at {width}"
        person.picture(f"gone-board-{width}")
        person.house.begin()
        person.gone("#banner")
        person.house.settled(run)
        run = person.house.start("teller", "Stay.", user="local", session="alone")


@case
def the_chat_does_not_take_a_server_that_is_gone_for_an_answer_in_progress(world):
    person, run = left_alone(world, "Count a little.")
    person.open("#/chat/teller/alone?user=local")
    at_least(person, 20)
    killed(person)
    person.shows("current progress is unknown")
    field = person.wait_for("textarea")
    person.type(field, "Are you there?")
    person.keys(ENTER)
    person.shows("Your text is kept here")
    assert "in progress" not in person.text(), person.text()
    assert person.ask("return arguments[0].value", field) == "Are you there?"
    # The stop is not shown as sent either.
    person.stop()
    person.wait_for("button", "^Stop not sent")
    assert "Stopping" not in person.text(), person.text()
    person.house.begin()
    person.gone("#banner")
    person.gone("p", "Your text is kept here")
    person.house.settled(run)
    person.wait_for("button", "^Send")


@case
def the_page_of_a_run_stands_still_without_a_server(world):
    world.expect(*GONE)
    world.provider.plan("Work on.", [Call("shell", {"command": "sleep 300"})])
    person = world.person(world.new_house())
    run = person.house.start("worker", "Work on.")
    person.open(f"#/run/{run}")
    state = lambda: person.find(".runhead .state")
    until("its tool runs", lambda: state() and "tools" in person.text(state()))
    assert person.ask(SIGNALS, state()), "it is not green while it runs"
    killed(person)
    assert not person.ask(SIGNALS, state()), "it looks alive"
    time = lambda: person.ask("return [...document.querySelectorAll('.runhead dt')].find((e) => e.innerText === 'Duration').nextSibling.innerText")
    before = time()
    # Long enough for the page's own timer to have changed it.
    world.browser.later("let left = 5; const done = arguments[0]; const tick = setInterval(() => { if (!--left) { clearInterval(tick); done(); } }, 100)")
    assert time() == before, "time goes on for a run of which nobody knows anything"
    person.press("button", "^Stop$")
    person.wait_for("button", "^Stop not sent")
