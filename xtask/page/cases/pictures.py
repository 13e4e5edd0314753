"""The pictures of the docs: what they show is checked before they are taken."""

import time

from browser import until
from cases.board import column
from person import Person
from world import case

SHELL = "tools:\n  - name: shell\n    args: {needs_approval: true}\n"
AGENTS = {"shop": ("practice", ""), "research": ("practice", ""), "release": ("practice", SHELL)}

# Agents, users and prompts. The long runs are still in progress when the picture is taken.
RUNS = [
    ("shop", "ada", "Where is my order?"),
    ("shop", "grace", "Do you have it in blue?"),
    ("research", "linus", "Tell me a long story about the tides"),
    ("research", "ada", "Think, and tell me a long story about salt"),
    ("practice", "bob", "Count slowly to 60"),
    ("release", "grace", "shell: ./release.sh --tag v1.4.0"),
    ("practice", "mary", "Write a note: order more paper"),
    ("research", "katherine", "Tell me a long story about the sea"),
    ("shop", "edsger", "Tell me a longer story about the shop"),
    ("practice", "barbara", "Count stubbornly to 90"),
]


def furnished(world):
    """A server with all kinds of runs."""
    house = getattr(world, "gallery", None)
    if house:
        tell_on(house)
        return house
    house = world.gallery = world.new_house(agents=AGENTS)
    runs = [house.start(app, prompt, user=user, session="monday") for app, user, prompt in RUNS]
    for run in runs[:2]:
        house.settled(run)
    more = house.start("research", "Tell me a long story about nothing", user="bob", session="tuesday")
    until("it has begun", lambda: house.run(more)["phase"] == "model")
    house.ask("POST", f"/v1/runs/{more}/cancel", {"note": "not now", "wait": True})
    for run in (runs[5], runs[6]):
        until("it waits", lambda: house.run(run)["state"] == "waiting")
    until("a tool runs", lambda: house.run(runs[4])["phase"] == "tools")
    return house


def tell_on(house):
    """Restarts the stories that have ended, so that something is always in progress."""
    live = {(run["app"], run["user"]) for run in house.runs(settled="false")}
    for app, user, prompt in RUNS:
        if "story" in prompt and (app, user) not in live:
            house.start(app, prompt, user=user, session="monday")


def shown(world, theme="light", height=720):
    world.browser.size(1120, height)
    world.browser.theme(theme)


def take(world, name):
    """Takes a picture, and checks its size."""
    file = world.pictures / f"{name}.png"
    world.browser.picture(file)
    size = file.stat().st_size
    # The size depends on fonts and the browser. Pictures in the docs must not be large.
    assert size > 10_000, f"{file.name} has {size} bytes"
    assert size < 150_000 or world.pictures == world.folder, f"{file.name} has {size} bytes"


def board(world, name, theme):
    house = furnished(world)
    shown(world, theme)
    person = Person(house, world.browser, world.folder)
    person.open()
    until("all that runs is there", lambda: len(person.all("[data-run]")) >= len(RUNS))
    until("tokens are counted", lambda: any(rate.isdigit() for rate in column(person, "Tokens/s")))
    take(world, name)
    return person


@case
def a_picture_of_the_board(world):
    board(world, "board", "light")


@case
def a_picture_of_the_board_in_the_dark(world):
    board(world, "board-dark", "dark")


@case
def a_picture_of_an_answer_that_was_stopped(world):
    house = furnished(world)
    shown(world)
    person = Person(house, world.browser, world.folder)
    person.open("#/chat/shop")
    person.wait_for("textarea")
    run = person.say("Tell me a long story about a lighthouse")
    until("some of it is there", lambda: len(person.text(person.find("main")).split()) > 130)
    person.stop()
    house.settled(run)
    person.wait_for("[data-cut]")
    person.wait_for("button", "^Send")
    take(world, "chat-stopped")


def stopped_run(world):
    """A run that was stopped in a tool, after it had said something."""
    house = furnished(world)
    run = getattr(world, "pictured", None)
    if not run:
        prompt = "Count slowly to 20, and roll 3 dice"
        run = world.pictured = house.start("practice", prompt, user="ada", session="friday")
        until("its tools run", lambda: house.run(run)["phase"] == "tools")
        # About as long as the answer before it, so that there is something to draw.
        enough = time.monotonic() + 1.5
        until("it has counted for a while", lambda: time.monotonic() > enough)
        house.ask("POST", f"/v1/runs/{run}/cancel", {"note": "wrong question", "wait": True})
    return house, run


@case
def a_picture_of_a_timeline(world):
    house, run = stopped_run(world)
    shown(world)
    person = Person(house, world.browser, world.folder)
    person.open(f"#/run/{run}")
    person.wait_for("[data-mark=settled]")
    person.wait_for("[data-type=run_settled], [data-seq]")
    take(world, "timeline")


@case
def a_picture_of_a_receipt(world):
    house, run = stopped_run(world)
    # High enough to show the times.
    shown(world, height=920)
    person = Person(house, world.browser, world.folder)
    person.open(f"#/run/{run}/receipt")
    person.wait_for("[data-verdict]")
    take(world, "receipt")


@case
def a_picture_of_the_cord(world):
    house = furnished(world)
    shown(world)
    person = Person(house, world.browser, world.folder)
    person.open()
    until("tokens are counted", lambda: any(rate.isdigit() for rate in column(person, "Tokens/s")))
    person.press("button", "cord")
    person.wait_for("dialog")
    take(world, "cord")
