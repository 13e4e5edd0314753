"""The board: live runs, and how to stop one or several."""

import threading

from browser import until
from cases.stops import STUBBORN
from person import ENTER
from provider import Call
from telling import counted
from world import case


def row(person, run):
    return person.find(f"[data-run='{run}']")


def rows(person):
    """The runs on the screen, from top to bottom."""
    return person.ask(
        "return all('[data-run]').sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top).map((e) => e.dataset.run)"
    )


def column(person, name):
    """The cells of a column of the board."""
    return person.ask(
        """
        const cells = (row) => [...row.querySelectorAll('[role=columnheader], [role=gridcell], [role=rowheader], .cell')];
        const at = cells(all('[role=row]')[0]).findIndex((cell) => cell.innerText.trim() === arguments[0]);
        return all('[data-run]').map((row) => cells(row)[at]?.innerText.trim() ?? '');
        """,
        name,
    )


def says(person, run, *words):
    """Waits until the row of a run says one of these words."""

    def said():
        found = row(person, run)
        text = person.text(found).lower() if found else ""
        return any(word in text for word in words)

    until(f"the row of {run} says {' or '.join(words)}", said)


def staying(world):
    """A prompt whose answer lasts until the case ends."""
    world.provider.plan("Stay.", ["Here I am.", threading.Event()])
    return "Stay."


def look_away(person):
    """Moves the mouse off the rows, which keep their order while it points at one."""
    person.browser.cdp("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)


@case
def the_board_lists_what_runs_live(world):
    house, person = world.house(), world.person()
    stay = staying(world)
    first = house.start("teller", stay, user="ada", session="monday")
    person.open()
    says(person, first, "model")
    text = person.text(row(person, first))
    for words in ("teller", "ada", stay):
        assert words in text, (words, text)
    # New runs appear by themselves.
    gate = threading.Event()
    world.provider.plan("Use a tool.", ["I use it.", Call("shell", {"command": "sleep 300"})], [gate])
    world.provider.plan("Ask me.", ["I ask.", Call("shell", {"command": "true"})], [gate])
    second = house.start("worker", "Use a tool.", user="bob")
    third = house.start("careful", "Ask me.", user="bob")
    says(person, second, "tools")
    says(person, third, "needs approval")
    # A run that ends is shown as ended, whatever ended it.
    house.ask("POST", f"/v1/runs/{first}/cancel", {"wait": True})
    says(person, first, "stopped")
    gate.set()


@case
def pieces_and_tokens_are_counted_on_the_board(world):
    house, person = world.house(), world.person()
    # They keep coming until the run is stopped, so that there is something to count however late the page is.
    world.provider.plan("Count forever.", counted(60_000, 0.01))
    world.provider.plan("Count for the board.", counted(40, 0))
    run = house.start("teller", "Count forever.")
    person.open()
    says(person, run, "model")
    cells = lambda: [text.strip() for text in person.text(row(person, run)).split("\n")]
    rates = until("a rate is shown", lambda: [float(rate) for rate in column(person, "Tokens/s") if rate not in ("", "–")])
    # At most a hundred pieces are sent per second, but after a pause of the machine several may arrive at once.
    assert len(rates) == 1 and 0 < rates[0] <= 1000, rates
    house.ask("POST", f"/v1/runs/{run}/cancel", {"wait": True})
    run = house.start("teller", "Count for the board.")
    house.settled(run)
    says(person, run, "completed")
    until("its tokens are shown", lambda: {"20", "10"} <= set(cells()))


def stopped_by_others(world, prompt):
    """A run that takes its time to stop, and that someone else has asked to stop."""
    house = world.house()
    begun = house.folder / "agents" / "worker" / prompt.replace(" ", "-")
    command = STUBBORN.replace("echo begun", f"touch {begun}")
    world.provider.plan(prompt, ["I begin.", Call("shell", {"command": command})], ["Never said."])
    run = house.start("worker", prompt)
    until("its tool runs", begun.exists)
    # Enough grace for the page to load on a busy machine.
    house.ask("POST", f"/v1/runs/{run}/cancel", {"note": "somebody else", "grace_ms": 600_000})
    return run


@case
def a_stop_that_did_not_reach_the_server_is_sent_again(world):
    house, person = world.house(), world.person()
    world.expect("^ERR_INTERNET_DISCONNECTED")
    stay = staying(world)
    runs = [house.start("teller", stay, user="ada"), house.start("teller", stay, user="bob")]
    for run, route, said in ((runs[0], "#/", "stop not sent"), (runs[1], f"#/run/{runs[1]}", "It will be sent again")):
        place = person.visit(route, f"[data-run='{run}']")
        button = person.wait_for("button", "^Stop", place)
        offline(world, True)
        world.browser.click(button)
        person.shows(said)
        assert house.run(run)["state"] == "running"
        offline(world, False)
        assert house.settled(run)["outcome"]["kind"] == "cancelled"
        person.gone("#banner")


def offline(world, is_gone):
    """Cuts the network while the server keeps running, or restores it."""
    rates = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    world.browser.cdp("Network.emulateNetworkConditions", offline=is_gone, **rates)


def forces(house, run):
    house.settled(run)
    return [request["force"] for request in house.receipt(run)["requests"]]


@case
def a_run_that_others_are_stopping_is_stopped_now_as_its_button_says(world):
    house, person = world.house(), world.person()
    run = stopped_by_others(world, "Be stubborn on the board.")
    person.open()
    person.press("button", "^Stop now: Be stubborn on the board")
    assert forces(house, run) == ["graceful", "now"]
    run = stopped_by_others(world, "Be stubborn on the page.")
    person.open(f"#/run/{run}")
    button = person.wait_for("button", "^Stopping… press again to stop now")
    person.ask("arguments[0].focus()", button)
    person.keys(ENTER)
    assert forces(house, run) == ["graceful", "now"]
    # The button is gone, and the receipt has its focus.
    until("the receipt has the focus", lambda: person.focused() == "a Receipt")


@case
def the_board_is_filtered_by_agent_user_and_state(world):
    house, person = world.house(), world.person()
    stay = staying(world)
    runs = {(app, user): house.start(app, stay, user=user) for app in ("teller", "worker") for user in ("ada", "bob")}
    person.open()
    until("all are there", lambda: set(runs.values()) <= set(rows(person)))
    choose(person, "agent|app", "teller")
    until("one agent's are there", lambda: set(rows(person)) & set(runs.values()) == {runs["teller", "ada"], runs["teller", "bob"]})
    choose(person, "user", "ada")
    until("one is there", lambda: set(rows(person)) & set(runs.values()) == {runs["teller", "ada"]})
    # The filter is in the address, so it can be linked to and survives a reload.
    world.browser.reload()
    until("one is there again", lambda: set(rows(person)) & set(runs.values()) == {runs["teller", "ada"]})
    choose(person, "agent|app", "")
    choose(person, "user", "")
    until("all are there again", lambda: set(runs.values()) <= set(rows(person)))
    house.ask("POST", f"/v1/runs/{runs['worker', 'bob']}/cancel", {"wait": True})
    person.press("button", "^Recently settled")
    look_away(person)
    until("the settled one is there", lambda: runs["worker", "bob"] in rows(person) and runs["teller", "ada"] not in rows(person))


def choose(person, name, value):
    """Sets a filter, whatever kind of field it is."""
    field = person.wait_for("field", name)
    person.ask(
        """
        const [field, value] = arguments;
        field.focus();
        field.value = field.tagName === 'SELECT' ? [...field.options].find((o) => o.value === value || o.text === value).value : value;
        for (const type of ['input', 'change']) field.dispatchEvent(new Event(type, {bubbles: true}));
        """,
        field,
        value,
    )


@case
def the_board_is_sorted_by_a_press_on_a_column(world):
    house, person = world.house(), world.person()
    stay = staying(world)
    runs = [house.start("teller", stay, user=user) for user in ("mia", "ada", "zoe")]
    ours = lambda: [run for run in rows(person) if run in runs]
    person.open()
    until("the newest is first", lambda: ours() == runs[::-1])
    person.press("button", "^User")
    look_away(person)
    until("it is sorted by user", lambda: ours() == [runs[1], runs[0], runs[2]])
    person.press("button", "^User")
    look_away(person)
    until("it is sorted the other way round", lambda: ours() == [runs[2], runs[0], runs[1]])


@case
def a_run_is_stopped_on_its_row(world):
    house, person = world.house(), world.person()
    stay = staying(world)
    runs = [house.start("teller", stay, user=user) for user in ("ada", "bob", "cleo")]
    person.open()
    says(person, runs[1], "model")
    person.press("button", "stop", row(person, runs[1]))
    says(person, runs[1], "stopped")
    receipt = house.receipt(runs[1])
    assert (receipt["reason"], receipt["by"], receipt["force"]) == ("requested", "local", "graceful"), receipt
    assert [house.run(run)["state"] for run in runs] == ["running", "settled", "running"]
    says(person, runs[0], "model")


@case
def what_a_filter_shows_is_stopped_together(world):
    house, person = world.house(), world.person()
    stay = staying(world)
    ada = [house.start("teller", stay, user="ada") for _ in range(3)]
    bob = house.start("teller", stay, user="bob")
    person.open()
    until("all are there", lambda: {*ada, bob} <= set(rows(person)))
    choose(person, "user", "ada")
    until("ada's are there", lambda: bob not in rows(person) and set(ada) <= set(rows(person)))
    person.press("button", "^Stop these 3")
    dialog = person.wait_for("dialog")
    person.shows("3 runs", dialog)
    person.press("button", "^Stop", dialog)
    for run in ada:
        assert house.settled(run)["outcome"]["kind"] == "cancelled"
    assert house.run(bob)["state"] == "running"
    says(person, ada[0], "stopped")


@case
def three_hundred_rows_are_a_windowful_of_elements(world):
    house, person = world.house(), world.person()
    stay = staying(world)
    runs = [house.start("teller", stay, user=f"user-{number:03}") for number in range(300)]
    person.open()
    until("the first are there", lambda: runs[-1] in rows(person))
    until("they are counted", lambda: "300" in person.text())
    assert len(rows(person)) < 100, "every row is in the page"
    # Runs of earlier cases that have settled are below them.
    person.press("button", "^Running")
    look_away(person)
    person.ask("scrollTo(0, document.documentElement.scrollHeight)")
    until("the last is there", lambda: runs[0] in rows(person))
    house.ask("POST", "/v1/cancel", {"all": True, "force": "now"})


def count_of(person, name):
    """The number on a filter of the board."""
    return int(person.text(person.wait_for("button", f"^{name}")).split()[-1])


@case
def a_count_is_that_of_the_rows_it_stands_over(world):
    # A separate server, whose board has no runs of other cases.
    person = world.person(world.new_house())
    house = person.house
    world.provider.plan("Say it.", ["Said."])
    for _ in range(3):
        house.settled(house.start("teller", "Say it."))
    person.open()
    until("all are there", lambda: len(rows(person)) == 3)
    until("they are counted", lambda: count_of(person, "All") == 3)
    staying(world)
    house.start("teller", "Stay.")
    until("the next one is there", lambda: len(rows(person)) == 4)
    until("it is counted, and the others still are", lambda: count_of(person, "All") == 4)
    person.shows("1 live.")
    for name, many in (("Running", 1), ("Recently settled", 3)):
        assert count_of(person, name) == many, (name, person.text())
        person.press("button", f"^{name}")
        look_away(person)
        until(f"{name} has as many rows as it says", lambda: len(rows(person)) == many == count_of(person, name))
