"""Records: the history, the page of a run with its timeline, events and conversation, and the receipt."""

import datetime
import json
import re
import threading

from browser import DIRECT, until
from provider import Call
from world import case


def stopped_in_a_tool(world, prompt="Make a record.", session="records"):
    """A run with one finished call and one that was cut; returns its id."""
    house = world.house()
    calls = [Call("shell", {"command": "echo quick"}), Call("shell", {"command": "echo slow; sleep 300"})]
    world.provider.plan(prompt, ["I do two things.", 0.2, *calls], ["Never said."])
    run = house.start("worker", prompt, session=session)
    feed = lambda: events_of(house, run, "tool_finished")
    until("the quick one is done", lambda: len(feed()) == 1)
    house.ask("POST", f"/v1/runs/{run}/cancel", {"force": "now", "note": "for the record", "wait": True})
    return run


def feed_of(house, run):
    """The items of a run's feed so far: read to its end or, if the run is in progress, until nothing arrives for a moment."""
    found = []
    is_over = house.run(run)["state"] == "settled"
    try:
        with DIRECT.open(f"{house.url}/v1/runs/{run}/events?aside=true", timeout=90 if is_over else 0.5) as feed:
            for line in feed:
                if line.startswith(b"data:"):
                    found.append(json.loads(line[5:]))
    except TimeoutError:
        pass
    return found


def events_of(house, run, kind=None):
    """The facts of a run's feed."""
    return [it for it in feed_of(house, run) if "seq" in it and kind in (None, it["type"])]


# The events in view; then scrolls the list to its other end.
ROWS = """
  const rows = [...document.querySelectorAll('[data-type][data-seq]')];
  let list = rows[0]?.parentElement;
  while (list && list.scrollHeight <= list.clientHeight) list = list.parentElement;
  if (list) list.scrollTop = list.scrollTop > 0 ? 0 : list.scrollHeight;
  return rows.map((e) => [Number(e.dataset.seq), e.dataset.type]);
"""


@case
def the_page_of_a_run_shows_each_event(world):
    run = stopped_in_a_tool(world)
    person = world.person()
    person.open(f"#/run/{run}")
    person.wait_for("[data-seq]")
    stored = events_of(world.house(), run)
    person.shows(f"{len(stored)} events")
    # Only the events in view are in the page, so the list is scrolled from end to end.
    listed = {}

    def read():
        here = person.ask(ROWS)
        listed.update({seq: kind for seq, kind in here})
        return {stored[0]["seq"], stored[-1]["seq"]} <= set(listed)

    until("the first and the last event have been in sight", read)
    assert sorted(listed.items()) == [(it["seq"], it["type"]) for it in stored], (listed, stored)
    person.shows("Make a record.")
    assert "stopped" in person.text().lower()


@case
def the_timeline_is_drawn_to_scale(world):
    run = stopped_in_a_tool(world)
    person, receipt = world.person(), world.house().receipt(run)
    person.open(f"#/run/{run}")
    person.wait_for("[data-kind]")
    # The first chart shows the whole run; the second magnifies the stop.
    marks = person.ask(
        "return Object.fromEntries([...all('svg')[0].querySelectorAll('[data-mark]')].map((e) => [e.dataset.mark, e.getBoundingClientRect().left]))"
    )
    assert {"requested", "settled"} <= set(marks), marks
    bars = person.ask("return all('[data-kind]', '', all('svg')[0]).map((e) => [e.dataset.kind, (e.querySelector('rect') ?? e).getBoundingClientRect().width])")
    wide = sorted(width for kind, width in bars if kind.startswith("tool"))
    assert any(kind == "model" for kind, _ in bars), bars
    # The widths of the quick and the slow call are proportional to their durations.
    took = sorted(call["took_us"] for call in receipt["calls"])
    assert len(wide) == len(took) == 2, (bars, receipt["calls"])
    scale = wide[1] / took[1]
    assert abs(wide[0] - took[0] * scale) <= 4, f"not to scale: {wide} px for {took} µs"
    # The distance between the marks is proportional to the time between them.
    apart, passed = marks["settled"] - marks["requested"], receipt["took"]["settled_us"]
    assert abs(apart - passed * scale) <= 4, f"not to scale: {apart} px for {passed} µs"


@case
def the_conversation_is_shown_as_the_provider_will_see_it(world):
    run = stopped_in_a_tool(world)
    person = world.person()
    person.open(f"#/run/{run}")
    person.press("[role=tab]", "Conversation")
    person.shows("Make a record.")
    person.shows("This call was stopped before it finished")
    person.press("[role=tab]", "Usage")
    person.shows("stand-in")
    until("what was used is shown", lambda: re.search(r"\b20\b", person.text()) and re.search(r"\b10\b", person.text()))


@case
def a_receipt_tells_who_why_when_and_what_became_of_each_call(world):
    run = stopped_in_a_tool(world)
    person, receipt = world.person(), world.house().receipt(run)
    person.open(f"#/run/{run}/receipt")
    person.wait_for("[data-verdict]")
    text = person.text()
    for words in ("local", "for the record", "on request", run, "stand-in"):
        assert words in text, (words, text)
    shown = person.ask("return [...document.querySelectorAll('[data-call][data-verdict]')].map((e) => [e.dataset.call, e.dataset.verdict])")
    assert sorted(map(tuple, shown)) == sorted((call["call"], call["verdict"]) for call in receipt["calls"]), shown
    for instant in ("requested", "delivered", "quiet", "settled"):
        assert instant in text.lower(), instant
    # It can be linked to: the address is enough in a new tab.
    world.browser.new_tab()
    person.open(f"#/run/{run}/receipt")
    person.shows("for the record")
    # And printed, without the frame.
    world.browser.cdp("Emulation.setEmulatedMedia", media="print")
    assert not person.find("nav") and not person.find("button"), "buttons on paper"
    assert "for the record" in person.text()


@case
def a_run_is_stopped_on_its_own_page(world):
    house, person = world.house(), world.person()
    world.provider.plan("Work until I say so.", ["I work.", Call("shell", {"command": "echo busy; sleep 300"})], ["Never said."])
    run = house.start("worker", "Work until I say so.")
    person.open(f"#/run/{run}")
    person.press("button", "^Stop$")
    assert house.settled(run)["outcome"]["kind"] == "cancelled"
    until("it is shown", lambda: "stopped" in person.text().lower())
    person.gone("button", "^Stop")
    person.press("link", "^Receipt$")
    person.wait_for("[data-verdict]")
    person.shows("Stop button")


@case
def what_ran_is_listed_and_leads_to_each_run(world):
    run = stopped_in_a_tool(world, "Make another record.")
    person = world.person()
    person.open("#/runs")
    person.shows("Make another record.")
    person.press(f"a[href='#/run/{run}']")
    person.wait_for("[data-seq]")
    person.open("#/runs?app=teller")
    until("only the others are there", lambda: not person.find(f"a[href='#/run/{run}']") and person.find("main"))


def listed(person):
    return person.ask("return all('tr[data-run]').map((e) => e.dataset.run)")


@case
def what_ran_is_searched_by_words_and_days(world):
    house, person = world.house(), world.person()
    world.provider.plan("Find the Zwetschge.", ["Found."])
    run = house.start("teller", "Find the Zwetschge.", user="orchard", session="plums")
    house.settled(run)
    other = house.start("teller", "Nothing to find.", user="elsewhere")
    house.settled(other)
    person.open("#/runs")
    until("both are there", lambda: {run, other} <= set(listed(person)))
    for words in ("zwetsch", "ORCHARD", "plums", run):
        field = person.wait_for("field", "^Search by prompt, session, user or run ID")
        person.ask("arguments[0].value = ''", field)
        person.type(field, words)
        until(f"{words} finds it", lambda: listed(person) == [run])
    # The filter is in the address.
    world.browser.reload()
    until("it finds it again", lambda: listed(person) == [run])
    for query, expected in (("from={0}", True), ("to={0}", True), ("from={1}", False), ("to={2}", False), ("from={0}&to={0}", True)):
        today, tomorrow, yesterday = (datetime.date.today() + datetime.timedelta(days) for days in (0, 1, -1))
        person.open("#/")
        person.open(f"#/runs?text={run}&{query.format(today, tomorrow, yesterday)}")
        person.shows("1 run in total." if expected else "No runs match.")
        assert listed(person) == [run] * expected, query
    assert person.find("field", "^From") and person.find("field", "^To")


@case
def what_ran_says_what_it_used_and_what_that_cost(world):
    prices = world.folder / "prices.yaml"
    prices.write_text('currency: USD\nmodels:\n  "openai/stand-in": {input: 1000, output: 2000}\n')
    person = world.person(world.new_house("--prices", str(prices)))
    world.provider.plan("What is it worth?", ["Little."])
    run = person.house.start("teller", "What is it worth?")
    person.house.settled(run)
    # 20 tokens at 1000 and 10 at 2000 dollars per million.
    person.open("#/runs")
    row = person.wait_for(f"tr[data-run='{run}']")
    person.shows("20 / 10", row)
    person.shows("$0.04", row)
    assert person.find("th", "^Cost$")
    # A run in progress has no figures yet, and no zeros.
    world.provider.plan("Stay.", [threading.Event()])
    live = person.house.start("teller", "Stay.", user="ada")
    person.press("button", "^Refresh$")
    row = person.wait_for(f"tr[data-run='{live}']")
    person.shows("…", row)
    assert "0" not in person.text(row).partition("in progress")[2], person.text(row)


@case
def what_ran_says_nothing_of_costs_where_nobody_knows_the_prices(world):
    person = world.person()
    run = stopped_in_a_tool(world, "Make a cheap record.")
    person.open("#/runs")
    row = person.wait_for(f"tr[data-run='{run}']")
    person.shows("20 / 10", row)
    assert not person.find("th", "^Cost$")
