"""A server that asks for a key."""

import threading

from browser import until
from person import ESCAPE
from telling import at_least, counted, say_until
from world import case

# What requests without a valid key get.
UNKNOWN = ["^401"]


def guarded(world):
    """The server of these cases, which needs keys."""
    house = getattr(world, "guarded", None)
    if not house:
        house = world.guarded = world.new_house("--auth")
    return house


def key_for(house, name, *scopes):
    words = [word for scope in scopes or ("run:create", "run:read", "run:cancel") for word in ("--scope", scope)]
    return house.command("keys", "create", name, *words).strip()


def enter(world, person, key):
    person.open()
    dialog = person.wait_for("dialog")
    person.type(person.wait_for("field", "key", dialog), key)
    person.press("button", "^Sign in$")


def kept_nowhere(world, person, key):
    """Checks that the key is in no address and in nothing that outlives the tab or that others can read."""
    addresses = world.addresses()
    assert addresses and not any(key in url for url in addresses), [url for url in addresses if key in url]
    kept = person.ask("return JSON.stringify([Object.entries(localStorage), document.cookie, location.href, history.state])")
    assert key not in kept and key.partition("_")[2] not in kept, kept
    assert not world.browser.cdp("Network.getCookies")["cookies"]
    assert key not in person.ask("return document.documentElement.outerHTML")


@case
def a_server_with_keys_asks_for_one(world):
    world.expect(*UNKNOWN)
    house = guarded(world)
    person = world.person(house)
    enter(world, person, "andon_" + "0" * 40)
    person.shows("not valid")
    assert person.find("dialog"), "a wrong key is let in"
    key = key_for(house, "ada")
    field = person.wait_for("field", "key", person.find("dialog"))
    person.ask("arguments[0].select()", field)
    person.type(field, key)
    person.press("button", "^Sign in$")
    person.gone("dialog")
    person.shows("ada")
    # The feed works too, although it cannot send headers.
    run = house.ask("POST", "/v1/runs", {"app": "practice", "input": "tell me a long story"}, key)["run_id"]
    person.wait_for(f"[data-run='{run}']")
    kept_nowhere(world, person, key)
    world.browser.reload()
    person.wait_for(f"[data-run='{run}']")
    assert not person.find("dialog"), "a reload asks again"
    # Signing out lasts.
    person.press("button", "^Sign out$")
    person.wait_for("dialog")
    world.browser.reload()
    person.wait_for("dialog")
    kept_nowhere(world, person, key)


@case
def the_question_for_a_key_stays_and_who_forgets_it_sees_nothing(world):
    world.expect(*UNKNOWN)
    house = guarded(world)
    person = world.person(house)
    person.open()
    person.wait_for("dialog")
    for _ in range(3):
        person.keys(ESCAPE)
    field = person.wait_for("field", "key", person.wait_for("dialog"))
    person.type(field, "clé")
    person.press("button", "^Sign in$")
    person.shows("not a key")
    assert not person.find("#banner"), "a key that cannot be sent is taken for a server that is gone"
    key = key_for(house, "gil")
    person.ask("arguments[0].select()", field)
    person.type(field, key)
    person.press("button", "^Sign in$")
    person.gone("dialog")
    first = house.ask("POST", "/v1/runs", {"app": "practice", "input": "tell me a long story"}, key)["run_id"]
    person.wait_for(f"[data-run='{first}']")
    person.press("button", "^Sign out$")
    person.wait_for("dialog")
    assert not person.ask("return document.querySelector('[data-run]')"), "a browser that forgot the key still shows runs"


@case
def a_chat_with_a_key_is_started_and_stopped(world):
    world.expect(*UNKNOWN)
    house = guarded(world)
    key = key_for(house, "cleo")
    world.provider.plan("Count for Cleo.", counted(3000, 0.01))
    person = world.person(house)
    enter(world, person, key)
    person.gone("dialog")
    person.open("#/chat/teller")
    run = say_until(person, "Count for Cleo.", 20)
    person.stop()
    house.settled(run)
    person.wait_for("[data-cut]")
    receipt = house.receipt(run)
    assert (receipt["by"], house.run(run)["user"]) == ("cleo", "cleo"), receipt
    kept_nowhere(world, person, key)


@case
def a_key_that_is_revoked_is_asked_for_again(world):
    world.expect(*UNKNOWN)
    house = guarded(world)
    key = key_for(house, "dora")
    person = world.person(house)
    enter(world, person, key)
    person.gone("dialog")
    until("she is known", lambda: "dora" in person.text())
    listed = house.get("/v1/keys")
    listed = listed["keys"] if isinstance(listed, dict) else listed
    [own] = [one for one in listed if one["name"] == "dora"]
    house.ask("DELETE", f"/v1/keys/{own['id']}")
    until("a key is asked for", lambda: person.find("dialog"))
    again = key_for(house, "dora-again")
    person.type(person.wait_for("field", "key", person.find("dialog")), again)
    person.press("button", "^Sign in$")
    person.gone("dialog")
    run = house.ask("POST", "/v1/runs", {"app": "practice", "input": "tell me a long story"}, again)["run_id"]
    person.wait_for(f"[data-run='{run}']")


@case
def a_key_that_may_not_start_runs_may_stop_them(world):
    world.expect(*UNKNOWN)
    house = guarded(world)
    # A key of the same name is the same user in the same tenant.
    starts = key_for(house, "gina")
    world.provider.plan("Count for Gina.", counted(3000, 0.01))
    run = house.ask("POST", "/v1/runs", {"app": "teller", "input": "Count for Gina."}, starts)
    person = world.person(house)
    enter(world, person, key_for(house, "gina", "run:read", "run:cancel"))
    person.gone("dialog")
    person.open(f"#/chat/teller/{run['session']}?user={run['user']}")
    at_least(person, 20)
    assert person.ask("return document.querySelector('textarea').disabled"), "it may write"
    person.stop()
    assert house.settled(run["run_id"])["outcome"]["kind"] == "cancelled"
    person.wait_for("[data-cut]")
    # The input is disabled, so the stopped answer gets the focus.
    focused = lambda: person.ask("return document.activeElement?.dataset.run ?? document.activeElement?.tagName")
    until("what was stopped has the focus", lambda: focused() == run["run_id"])


@case
def one_sees_ones_own_runs_alone(world):
    world.expect(*UNKNOWN)
    house = guarded(world)
    gate = threading.Event()
    world.provider.plan("Stay.", [gate])
    ours, theirs = key_for(house, "emil"), key_for(house, "frida")
    own = house.ask("POST", "/v1/runs", {"app": "teller", "input": "Stay."}, ours)["run_id"]
    other = house.ask("POST", "/v1/runs", {"app": "teller", "input": "Stay."}, theirs)["run_id"]
    person = world.person(house)
    enter(world, person, ours)
    person.wait_for(f"[data-run='{own}']")
    assert not person.find(f"[data-run='{other}']") and "frida" not in person.text()
    # The cord is only for those who may pull it for everyone.
    assert not person.find("button", "pull the cord|hold the line"), person.text()
    person.open(f"#/run/{other}")
    until("the page says that the run is not there", lambda: "Run not found" in person.text())
    world.expect("^404")
    gate.set()
