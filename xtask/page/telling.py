"""Answers made of numbered words, so that the screen can be compared with what is stored, word by word."""

import re

from browser import until


def counted(many, pause=0.01, begin=0):
    """A turn with this many numbered words, one after the other."""
    return [step for number in range(begin, begin + many) for step in (f"w{number} ", pause)]


def on_screen(person, within=None):
    """The numbered words on the screen, in order."""
    return re.findall(r"\bw\d+\b", person.text(within or person.find("main")))


def in_text(text):
    return re.findall(r"\bw\d+\b", text)


def at_least(person, many):
    """Waits until this many words are on the screen."""
    until(f"{many} words are shown", lambda: len(on_screen(person)) >= many)


def say_until(person, text, many):
    """Sends a prompt, and waits until this many words are on the screen; returns its run."""
    run = person.say(text)
    at_least(person, many)
    return run


def same_as_stored(person, run):
    """Checks that the screen shows exactly what is stored: no word missing, none repeated, letter by letter."""
    stored = person.house.said_by_model(run)
    assert in_text(stored), f"nothing is stored of {run}"
    until("the screen shows what is stored", lambda: on_screen(person) == in_text(stored))
    flat = lambda text: " ".join(text.split())
    assert flat(stored) in flat(person.text()), (stored, person.text())
    return stored
