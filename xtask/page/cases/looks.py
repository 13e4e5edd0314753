"""Dark and light, wide and narrow."""

import threading

from browser import until
from provider import Call, Thought
from telling import at_least, counted
from world import case

# The contrast of each text against what is behind it, as WCAG counts it; only what is shown, and only what has words of its own.
CONTRAST = """
  const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;
  const brush = canvas.getContext('2d', {willReadFrequently: true});
  const colour = (css) => {
    brush.clearRect(0, 0, 1, 1); brush.fillStyle = css; brush.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const behind = (e) => {
    const layers = [];
    for (let up = e; up; up = up.parentElement) layers.push(colour(getComputedStyle(up).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const bad = [];
  let looked = 0;
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !isShown(e) || e.closest('.unseen, .skip, :disabled, svg, [aria-hidden=true]')) continue;
    const style = getComputedStyle(e);
    let opacity = 1;
    for (let up = e; up; up = up.parentElement) opacity *= Number(getComputedStyle(up).opacity);
    const ground = behind(e), [r, g, b, a] = colour(style.color);
    const found = ratio(over([r, g, b, a * opacity], ground), ground);
    looked += 1;
    if (found < 4.5) bad.push(`${e.tagName.toLowerCase()}.${e.className} ${found.toFixed(2)}: ${e.textContent.trim().slice(0, 40)}`);
  }
  return [looked, bad];
"""

# How far the page reaches past its window, and what reaches there.
WIDE = """
  const wide = document.documentElement.scrollWidth - innerWidth;
  const out = [...document.querySelectorAll('body *')].filter((e) => {
    if (!isShown(e) || e.getBoundingClientRect().right <= innerWidth + 1) return false;
    for (let up = e.parentElement; up; up = up.parentElement) if (getComputedStyle(up).overflowX !== 'visible') return false;
    return true;
  });
  return [wide, out.slice(0, 5).map((e) => `${e.tagName.toLowerCase()}.${e.className}: ${e.textContent.trim().slice(0, 60)}`)];
"""


# How each element is dressed, by its place in the page.
DRESS = """
  const kept = ['display', 'position', 'padding', 'margin', 'fontSize', 'fontFamily', 'fontWeight', 'lineHeight', 'color', 'backgroundColor',
    'border', 'borderRadius', 'alignItems', 'justifyContent', 'gap', 'flex', 'textAlign', 'overflow', 'maxWidth', 'zIndex'];
  const found = {};
  const walk = (e, path) => {
    if (!e.checkVisibility()) return;
    const style = getComputedStyle(e);
    // Another class is another dress, also for what is in it.
    const place = `${path}.${e.className?.baseVal ?? e.className}`;
    found[place] = kept.map((name) => style[name]).join('; ');
    [...e.children].slice(0, 12).forEach((child, i) => walk(child, `${place}>${child.tagName.toLowerCase()}:${i}`));
  };
  walk(document.querySelector('main'), 'main');
  return found;
"""


def furnished(world):
    """A house in which there is something to see on every view; gives the views, each with what is waited for."""
    house = world.house()
    long_word = "Donaudampfschifffahrtsgesellschaftskapitänsmützenfabrik" * 3
    shell = Call("shell", {"command": f"echo {long_word}; sleep 300"})
    table = "| a | b | c | d | e | f | g |\n|---|---|---|---|---|---|---|\n" + "| some words here | more of them | x | y | z | u | v |\n"
    text = f"# Look\n\n{long_word}\n\n```\n{long_word} {long_word}\n```\n\n{table}\n\n> quoted\n\n[link](https://example.org)\n\n"
    world.provider.plan("Show all.", [Thought("Let me see."), text, shell], ["Never said."])
    world.provider.plan("May I?", ["I ask.", Call("shell", {"command": "rm -rf nothing"})], ["Never said."])
    world.provider.plan("Stay.", ["Still here."], [threading.Event()])
    stopped = house.start("worker", "Show all.", session="looks")
    until("its tool runs", lambda: house.run(stopped)["phase"] == "tools")
    house.ask("POST", f"/v1/runs/{stopped}/cancel", {"force": "now", "wait": True})
    waiting = house.start("careful", "May I?", session="looks")
    until("it waits", lambda: house.run(waiting)["state"] == "waiting")
    live = house.start("worker", "Show all.", user="somebody-with-a-long-name@" + "example." * 6 + "org")
    return {
        "board": ("#/", f"[data-run='{live}']"),
        "chat": ("#/chat/worker/looks?user=local", "[data-cut], [data-call]"),
        "approval": ("#/chat/careful/looks?user=local", "[data-call]"),
        "chats": ("#/chat", "main h1"),
        "run": (f"#/run/{stopped}", "[data-seq]"),
        "receipt": (f"#/run/{stopped}/receipt", "tr[data-verdict]"),
        "runs": ("#/runs", f"tr[data-run='{stopped}']"),
    }


def each_view(world, look):
    person = world.person()
    wrong = {}
    for name, (route, wanted) in furnished(world).items():
        person.visit(route, wanted)
        found = look(person, name)
        if found:
            wrong[name] = found
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def legible(theme):
    def look(person, name):
        person.picture(f"{name}-{theme}")
        wide, out = person.ask(WIDE)
        assert wide <= 0, f"{name} is {wide} px too wide: {out}"
        looked, bad = person.ask(CONTRAST)
        assert looked > 5, f"only {looked} texts on {name}"
        return bad

    return look


@case
def every_text_can_be_read_in_the_light(world):
    world.browser.theme("light")
    each_view(world, legible("light"))


@case
def every_text_can_be_read_in_the_dark(world):
    world.browser.theme("dark")
    person = world.person()
    person.open()
    until("the page is dark", lambda: person.ask("return getComputedStyle(document.documentElement).colorScheme") == "dark")
    each_view(world, legible("dark"))


@case
def nothing_is_wider_than_a_telephone(world):
    world.browser.size(390, 844)

    def look(person, name):
        person.picture(f"{name}-narrow")
        wide, out = person.ask(WIDE)
        return (wide, out) if wide > 0 or out else None

    each_view(world, look)


@case
def light_and_dark_can_be_chosen_and_stay(world):
    world.browser.theme("light")
    person = world.person()
    person.open()
    scheme = lambda: person.ask("return getComputedStyle(document.documentElement).colorScheme")
    until("it is light", lambda: scheme() == "light")
    person.press("button", "Light or dark")
    until("it is dark", lambda: scheme() == "dark")
    world.browser.reload()
    until("it is still dark", lambda: scheme() == "dark")
    person.press("button", "Light or dark")
    until("it is light again", lambda: scheme() == "light")


@case
def the_style_of_one_view_does_not_touch_another(world):
    person = world.person()
    views = furnished(world)
    fresh = {}
    for name, (route, wanted) in views.items():
        person.visit(route, wanted)
        fresh[name] = person.ask(DRESS)
    wrong = []
    # Twice through all of them without a reload: the second time each is seen with the styles of all.
    for name, (route, wanted) in [*views.items(), *views.items()]:
        person.ask("location.hash = arguments[0]", route)
        person.wait_for(wanted)
        worn, before = person.ask(DRESS), fresh[name]
        changed = [f"{path}: {before[path]} -> {worn[path]}" for path in before if path in worn and before[path] != worn[path]]
        if changed:
            wrong.append(f"{name}: {len(changed)} elements, such as {changed[0]}")
    assert not wrong, "\n".join(wrong)
