"""The page of a server that is mounted in another program, which has a sign-in of its own."""

from types import SimpleNamespace

from browser import until
from cases.keys import UNKNOWN
from person import ENTER
from world import case


@case
def one_user_stops_their_run_in_another_program_while_the_run_of_another_user_goes_on(world):
    # The program's own pages have no icon.
    world.expect(*UNKNOWN, "^404 .*favicon")
    outer = world.mounted()
    bob = outer.sign_in("bob")
    begun = outer.ask(bob, "POST", "/v1/runs", {"app": "practice", "input": "count slowly to 500"})["run_id"]
    person = world.person(SimpleNamespace(url=f"{outer.url}/agents"))
    world.browser.open(f"{outer.url}/agents/")
    dialog = person.wait_for("dialog")
    person.shows("You are not signed in")
    assert not person.find("field", "key", dialog), "it asks for a key, which nobody has"
    person.press("link", "^Go to the sign-in page$")
    person.press("button", "^Ada$")
    person.shows("ada")
    person.shows("Nothing is running")
    assert "curl" not in person.text(), "it shows a call that would be refused"
    assert not person.find(f"[data-run='{begun}']"), "she sees the run of another"
    person.open("#/chat/practice")
    person.type(person.wait_for("textarea"), "tell me a long story")
    person.keys(ENTER)
    person.wait_for("button", "^Stop", person.wait_for("form"))
    person.picture("mounted-running")
    person.stop()
    person.wait_for("[data-cut]")
    person.picture("mounted-stopped")
    of_bob = outer.ask(bob, "GET", f"/v1/runs/{begun}")
    assert of_bob["state"] == "running", of_bob
    # Once she has signed out elsewhere, the page ends what it reads and leads to the sign-in; nothing of hers is left for Bob.
    person.type(person.wait_for("textarea"), "a secret of Ada")
    person.open("#/")
    person.shows("Recently settled")
    person.ask("fetch('/out', {method: 'POST'})")
    person.wait_for("dialog")
    person.picture("mounted-signed-out")
    assert not person.ask("return document.querySelector('main').textContent.trim()"), "something is left behind it"
    person.press("link", "^Go to the sign-in page$")
    person.press("button", "^Bob$")
    person.wait_for(f"[data-run='{begun}']")
    left = person.ask("return JSON.stringify(Object.entries(sessionStorage))")
    assert "secret" not in left, left
    person.open("#/chat/practice")
    person.picture("mounted-bob")
    until("it goes on", lambda: outer.ask(bob, "GET", f"/v1/runs/{begun}")["state"] == "running")
