"""A conversation: answers are streamed, and stay."""

import threading

from browser import until
from provider import Thought
from telling import at_least, counted, on_screen, same_as_stored, say_until
from world import case


@case
def an_answer_is_shown_while_it_is_said(world):
    gate = threading.Event()
    world.provider.plan("Count, please.", [*counted(20, 0), gate, *counted(20, 0, begin=20)])
    person = world.chat()
    run = say_until(person, "Count, please.", 20)
    assert person.house.run(run)["state"] == "running"
    assert on_screen(person) == [f"w{number}" for number in range(20)]
    assert "Count, please." in person.text(), "what was asked is not shown"
    assert person.find("button", "^Stop"), "Send has not turned into Stop"
    assert not person.find("button", "^Send"), "Send is still there"
    gate.set()
    at_least(person, 40)
    assert person.house.settled(run)["outcome"]["kind"] == "completed"
    person.wait_for("button", "^Send")
    person.gone("button", "^Stop")
    same_as_stored(person, run)
    assert not person.find("[data-cut]"), "a whole answer is marked as cut"


@case
def the_next_prompt_goes_on_in_the_same_conversation(world):
    world.provider.plan("First.", ["One."])
    world.provider.plan("Second.", ["Two."])
    person = world.chat()
    first = person.say("First.")
    person.shows("One.")
    person.house.settled(first)
    person.wait_for("button", "^Send")
    second = person.say("Second.")
    person.shows("Two.")
    person.house.settled(second)
    assert person.house.run(first)["session"] == person.house.run(second)["session"]
    said = [message["role"] for message in person.house.history(second)]
    assert said == ["user", "assistant", "user", "assistant"], said
    text = person.text()
    places = [text.index(words) for words in ("First.", "One.", "Second.", "Two.")]
    assert places == sorted(places), text


@case
def a_thought_is_folded_until_somebody_opens_it(world):
    world.provider.plan("Think.", [Thought("Nobody reads my mind. "), Thought("Or so I hope."), "I have thought."])
    person = world.chat()
    run = person.say("Think.")
    person.shows("I have thought.")
    person.house.settled(run)
    assert "Nobody reads my mind" not in person.text(), "the thought is not folded"
    person.press("button", "th(ought|inking|ink)")
    person.shows("Nobody reads my mind. Or so I hope.")


MARKDOWN = """# A title

Some *stress*, some **more**, `code` and a [link](https://example.org/a).

- one
- two

```python
print("<b>not bold</b>")
```

| a | b |
|---|---|
| 1 | 2 |
"""


@case
def markdown_is_shown_as_it_is_meant(world):
    world.provider.plan("Write.", [MARKDOWN[place : place + 7] for place in range(0, len(MARKDOWN), 7)])
    person = world.chat()
    run = person.say("Write.")
    person.house.settled(run)
    person.wait_for("button", "^Send")
    shown = lambda selector: person.ask("return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)", selector)
    until("the list is there", lambda: shown("[data-run] li") == ["one", "two"])
    assert shown("main em") == ["stress"] and shown("main strong")[-1:] == ["more"], (shown("main em"), shown("main strong"))
    assert 'print("<b>not bold</b>")' in "".join(shown("main pre")), shown("main pre")
    assert any("A title" in text for text in shown("main :is(h1, h2, h3, h4, h5, h6)"))
    link = person.ask("const a = document.querySelector('main a[href^=\"https://example.org\"]'); return a && [a.href, a.rel]")
    assert link and link[0] == "https://example.org/a" and "noopener" in link[1], link
    assert not person.find("[data-run] b"), "a tag in code became a tag"
    assert "**" not in person.text() and "```" not in person.text()


@case
def an_error_of_the_model_is_told(world):
    person = world.person()
    world.provider.plan("Fail.", ["Some w0 words", ConnectionError()])
    person.chat()
    run = person.say("Fail.")
    assert person.house.settled(run)["outcome"]["kind"] == "failed"
    until("the page says that it failed", lambda: "fail" in person.text().lower().replace("fail.", "", 1))
    assert "Some w0 words" in person.text(), "what was said is gone"
    person.wait_for("button", "^Send")
