"""Signing in, and what is offered with a key that may only read."""

import threading

from browser import until
from cases.keys import UNKNOWN, enter, guarded, key_for
from person import ESCAPE
from provider import Call
from world import case


def refusals(world):
    """The refusals of the server so far."""
    answers = [it["response"] for method, it in world.crossed() if method == "Network.responseReceived"]
    return [f"{answer['status']} {answer['url'].partition('/v1')[2]}" for answer in answers if answer["status"] in (401, 403)]


@case
def nothing_is_drawn_or_asked_behind_the_sign_in(world):
    world.expect(*UNKNOWN)
    house = guarded(world)
    person = world.person(house)
    person.open()
    dialog = person.wait_for("dialog")
    person.wait_for("field", "key", dialog)
    assert not person.ask("return document.querySelector('main').textContent.trim()"), "something is drawn behind it"
    assert not person.ask("return document.querySelector('[data-cord], [data-board], [data-line-state]')")
    assert not person.find("link", "^(Board|Chat|History)$"), "one can go where nothing is shown"
    # Waiting and changing the address cause no further requests.
    person.ask("location.hash = '#/runs'")
    person.ask("document.dispatchEvent(new Event('visibilitychange'))")
    world.browser.later("const done = arguments[0]; requestAnimationFrame(() => setTimeout(done, 300))")
    assert refusals(world) == ["401 /me"], refusals(world)
    person.type(person.find("field", "key", dialog), key_for(house, "hugo"))
    person.press("button", "^Sign in$")
    person.gone("dialog")
    person.wait_for("h1", "History")
    # Signing out leads back to the start.
    person.press("button", "^Sign out$")
    person.wait_for("dialog")
    assert not person.ask("return document.querySelector('main').textContent.trim()"), "something is left behind it"
    assert refusals(world) == ["401 /me"], refusals(world)


@case
def a_key_that_may_only_read_is_offered_nothing_else(world):
    world.expect(*UNKNOWN)
    house = guarded(world)
    starts = key_for(house, "iris")
    gate = threading.Event()
    world.provider.plan("Ask for Iris.", ["I ask.", Call("shell", {"command": "true"})], [gate])
    world.provider.plan("Work for Iris.", ["I work.", Call("shell", {"command": "sleep 300"})], [gate])
    world.provider.plan("Stay for Iris.", ["I stay.", gate])
    begin = lambda app, prompt, **more: house.ask("POST", "/v1/runs", {"app": app, "input": prompt, **more}, starts)
    asks, works = begin("careful", "Ask for Iris."), begin("worker", "Work for Iris.")
    stays = begin("teller", "Stay for Iris.", session="iris")
    queued = begin("teller", "Stay for Iris.", session="iris", when_busy="queue")
    until("one waits", lambda: house.run(asks["run_id"])["state"] == "waiting")
    person = world.person(house)
    enter(world, person, key_for(house, "iris", "run:read"))
    person.gone("dialog")
    person.wait_for(f"[data-run='{works['run_id']}']")
    chat = lambda run, app: f"#/chat/{app}/{run['session']}?user={run['user']}"
    views = {
        "board": ("#/", f"[data-run='{works['run_id']}']"),
        "run": (f"#/run/{works['run_id']}", "[data-seq]"),
        "tool": (chat(works, "worker"), "[data-call]"),
        "approval": (chat(asks, "careful"), "[data-call]"),
        "queue": (chat(stays, "teller"), f"[data-run='{queued['run_id']}']"),
        "practice": ("#/chat/practice", "textarea"),
        "runs": ("#/runs", "tr[data-run]"),
    }
    changes = "^(Stop|Pull|Hold|Open the|Approve|Deny|Send|New session|Review|Queue|Tell me|Count|Write|Think)"
    for name, (route, wanted) in views.items():
        person.open(route)
        person.wait_for(wanted)
        live = person.ask(
            "return [...all('button', arguments[0]), ...all('link', arguments[0])].filter((e) => !e.disabled && !e.matches('.chip')).map(nameOf)", changes
        )
        assert not live, f"{name} offers {live}"
        # The Escape key does nothing either.
        person.keys(ESCAPE)
    person.open(chat(asks, "careful"))
    person.shows("Your key cannot give it")
    assert [line for line in refusals(world) if line.startswith("403")] == [], refusals(world)
    assert {house.run(run["run_id"])["state"] for run in (asks, works, stays, queued)} == {"waiting", "running", "queued"}
    gate.set()
