"""A person in front of the page: what they press, and what they see.

Controls are found as a person finds them, by what they are and what they are called. Nothing here sleeps: every wait is for
something to appear.
"""

import json
import pathlib

from browser import ELEMENT, until

ENTER, ESCAPE, TAB, SPACE = "\ue007", "\ue00c", "\ue004", " "

# What is visible of all that matches. A control's name is roughly what a screen reader would say.
SEEN = """
const isShown = (e) => e.checkVisibility({visibilityProperty: true, opacityProperty: true}) && e.getClientRects().length > 0;
const labels = (e) => [...(e.labels ?? [])].map((l) => l.innerText).join(' ');
const by = (e) => (e.getAttribute('aria-labelledby') ?? '').split(' ').filter(Boolean)
  .map((id) => document.getElementById(id)?.textContent ?? '').join(' ');
const nameOf = (e) => (e.getAttribute('aria-label') || by(e) || labels(e) || e.innerText || e.placeholder || e.title || '')
  .replace(/\\s+/g, ' ').trim();
const ROLES = {
  button: 'button, [role=button], summary', link: 'a[href]', field: 'input, textarea, select',
  dialog: 'dialog[open], [role=dialog], [role=alertdialog]',
};
const all = (role, name, within) => [...(within ?? document).querySelectorAll(ROLES[role] ?? role)]
  .filter((e) => isShown(e) && (!name || new RegExp(name, 'i').test(nameOf(e))));
"""


class Person:
    def __init__(self, house, browser, folder):
        self.house, self.browser, self.folder = house, browser, pathlib.Path(folder)

    # Navigation.

    def open(self, route="#/"):
        self.browser.open(f"{self.house.url}/ui/{route}")

    def visit(self, route, wanted):
        """Opens a view in a fresh page, and waits for something in it."""
        self.browser.open("about:blank")
        self.open(route)
        return self.wait_for(wanted)

    def chat(self, app="teller"):
        """A new conversation with an agent."""
        self.open("#/")
        self.open(f"#/chat/{app}")
        until("there is a place to write", lambda: self.find("textarea"))

    # What is shown.

    def ask(self, text, *arguments):
        """The result of a script in the page."""
        return self.browser.script(SEEN + text, *arguments)

    def all(self, role, name="", within=None):
        """All visible elements of a role, or of a selector, whose name matches."""
        return self.ask("return all(...arguments)", role, name, within)

    def find(self, role, name="", within=None):
        found = self.all(role, name, within)
        return found[0] if found else None

    def wait_for(self, role, name="", within=None):
        return until(f"there is {role} {name!r}", lambda: self.find(role, name, within))

    def gone(self, role, name="", within=None):
        until(f"{role} {name!r} is gone", lambda: not self.all(role, name, within))

    def text(self, within=None):
        """The visible text, without what is only for screen readers."""
        return self.ask(
            """
            const parts = arguments[0] ? [arguments[0]] : [...document.body.children].filter((e) => e.id !== 'announce' && e.checkVisibility());
            return parts.map((e) => e.innerText ?? '').join('\\n');
            """,
            within,
        )

    def shows(self, text, within=None):
        until(f"{text!r} is shown", lambda: text in self.text(within))

    def told(self):
        """What was announced to screen readers since `listen`."""
        return self.ask("return window.told ?? []")

    def listen(self):
        """Records what is put into live regions from now on."""
        self.ask("""
          window.told = [];
          const regions = '[aria-live], [role=status], [role=alert], [role=log]';
          new MutationObserver((changes) => {
            for (const {target} of changes) {
              const element = target.nodeType === 1 ? target : target.parentElement;
              const region = element?.closest(regions);
              if (region && region.getAttribute('aria-live') !== 'off' && region.textContent.trim()) window.told.push(region.textContent.trim());
            }
          }).observe(document.body, {subtree: true, childList: true, characterData: true});
        """)

    # Actions.

    def press(self, role, name="", within=None):
        """Clicks a control. If it is redrawn at that moment, it is looked up again."""

        def pressed():
            element = self.find(role, name, within)
            if element:
                self.browser.click(element)
            return element

        return until(f"{role} {name!r} can be pressed", pressed)

    def type(self, field, text):
        """Types into a field."""
        place = f"{self.browser.session}/element/{field[ELEMENT]}/value"
        self.browser.call("POST", place, {"text": text})

    def keys(self, *keys):
        self.browser.press(*keys)

    def say(self, text):
        """Sends a prompt in the chat; returns the run that it started."""
        before = {run["run_id"] for run in self.house.runs()}
        self.type(self.wait_for("textarea"), text)
        self.keys(ENTER)
        begun = lambda: [run for run in self.house.runs() if run["run_id"] not in before]
        return until(f"a run of {text!r} begins", begun)[0]["run_id"]

    def stop(self):
        """Presses Stop beside the input."""
        self.press("button", "^Stop", self.wait_for("form"))

    def focused(self):
        """The name of the focused element."""
        return self.ask("const e = document.activeElement; return e ? `${e.tagName.toLowerCase()} ${nameOf(e)}` : ''")

    def tab_to(self, wanted, most=60):
        """Presses Tab until an element with a matching name has the focus."""
        passed = []
        for _ in range(most):
            self.keys(TAB)
            here = self.focused()
            if self.ask("return new RegExp(arguments[0], 'i').test(arguments[1])", wanted, here):
                return here
            passed.append(here)
        raise AssertionError(f"Tab never comes to {wanted!r}, only to {passed}")

    # Records.

    def picture(self, name):
        self.browser.picture(self.folder / f"{name}.png")

    def failure(self, name):
        """Saves what was on the screen when a case failed."""
        try:
            self.picture(f"failed-{name}")
            words = self.text()[-3000:]
            (self.folder / f"failed-{name}.txt").write_text(words)
            return f"{self.browser.address()}\n{words}\n{json.dumps(self.browser.console())[-2000:]}"
        except (OSError, RuntimeError) as error:
            return f"the browser does not answer: {error}"
