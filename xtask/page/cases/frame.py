"""The frame around the views: it loads only from its server, and lets nothing in."""

import pathlib

from browser import until
from world import case

SEED = 20_261
UNITS = pathlib.Path(__file__).parent.parent / "units.js"


@case
def the_page_loads_from_its_server_alone(world):
    person = world.person()
    world.browser.open(world.house().url + "/")
    until("the address leads to the page", lambda: world.browser.address().startswith(world.house().url + "/ui/"))
    person.wait_for("link", "^Board$")
    assert person.ask("return document.title"), "the page has no title"
    for name in ("Board", "Chat", "History"):
        assert person.find("link", f"^{name}$"), name
    until("nothing is loaded any more", lambda: person.ask("return document.readyState === 'complete'"))
    sent = world.addresses()
    assert any(url.endswith("/ui/app.js") for url in sent), sent
    # Every case checks that all of them are on our server.


@case
def a_script_that_is_put_in_does_not_run(world):
    person = world.person()
    person.open()
    person.wait_for("link", "^Board$")
    # The browser reports the refusals in its own words.
    world.expect("")
    tried = """
      const done = arguments[arguments.length - 1];
      const what = {};
      const attempt = (name, work) => { try { work(); } catch (error) { what[name] = error.name; } };
      attempt('inline', () => { const s = document.createElement('script'); s.textContent = 'window.got = 1'; document.body.append(s); });
      attempt('html', () => { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.got = 2">'); });
      attempt('handler', () => { const b = document.createElement('i'); b.setAttribute('onclick', 'window.got = 3'); document.body.append(b); b.click(); });
      attempt('address', () => { const s = document.createElement('script'); s.src = 'https://elsewhere.example/x.js'; document.body.append(s); });
      const policy = (event) => { (what.refused ??= []).push(event.effectiveDirective); };
      document.addEventListener('securitypolicyviolation', policy);
      const image = new Image(); image.src = 'https://elsewhere.example/x.png';
      fetch('https://elsewhere.example/').catch(() => { what.fetch = 'refused'; setTimeout(() => done([what, window.got ?? null]), 200); });
    """
    what, got = world.browser.later(tried)
    assert got is None, f"a script ran: {got}"
    assert what["html"] == "TypeError" and what["fetch"] == "refused", what
    assert {"img-src", "connect-src"} <= set(what["refused"]), what
    # In a timer, because the policy does not apply to scripts of the driver.
    evaluated = world.browser.later("""
      const done = arguments[arguments.length - 1];
      setTimeout(() => { try { (0, eval)('window.got = 4'); done('ran'); } catch (error) { done(error.name); } });
    """)
    assert evaluated == "EvalError" and person.ask("return window.got ?? null") is None, evaluated
    answer = next(it for method, it in world.crossed() if method == "Network.responseReceived" and it["response"]["url"].endswith("/ui/"))
    policy = {name.lower(): value for name, value in answer["response"]["headers"].items()}["content-security-policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy, policy


@case
def an_address_that_is_no_view_says_so(world):
    person = world.person()
    person.open("#/nonsense/%E0%A4%A")
    person.shows("Page not found")
    person.press("link", "Go to the board")
    until("the board is there", lambda: person.ask("return location.hash") == "#/")


@case
def the_units_of_the_page_hold(world):
    person = world.person()
    person.open()
    person.wait_for("link", "^Board$")
    answer = world.browser.later(UNITS.read_text(), SEED)
    assert answer["failures"] == [] and answer["cases"] > 0, answer
