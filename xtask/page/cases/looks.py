"""Dark and light, wide and narrow."""

import base64
import threading

from browser import until
from provider import Call, Thought
from world import case

# The contrast of each visible text against its background, as defined by WCAG.
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

# How far the page extends beyond the window, and which elements do.
WIDE = """
  const wide = document.documentElement.scrollWidth - innerWidth;
  const out = [...document.querySelectorAll('body *')].filter((e) => {
    if (!isShown(e) || e.getBoundingClientRect().right <= innerWidth + 1) return false;
    for (let up = e.parentElement; up; up = up.parentElement) if (getComputedStyle(up).overflowX !== 'visible') return false;
    return true;
  });
  return [wide, out.slice(0, 5).map((e) => `${e.tagName.toLowerCase()}.${e.className}: ${e.textContent.trim().slice(0, 60)}`)];
"""


# The style of each element, by its path in the page.
DRESS = """
  const kept = ['display', 'position', 'padding', 'margin', 'fontSize', 'fontFamily', 'fontWeight', 'lineHeight', 'color', 'backgroundColor',
    'border', 'borderRadius', 'alignItems', 'justifyContent', 'gap', 'flex', 'textAlign', 'overflow', 'maxWidth', 'zIndex'];
  const found = {};
  const walk = (e, path) => {
    if (!e.checkVisibility()) return;
    const style = getComputedStyle(e);
    // An element with another class may have another style, and so may its children.
    const place = `${path}.${e.className?.baseVal ?? e.className}`;
    found[place] = kept.map((name) => style[name]).join('; ');
    [...e.children].slice(0, 12).forEach((child, i) => walk(child, `${place}>${child.tagName.toLowerCase()}:${i}`));
  };
  walk(document.querySelector('main'), 'main');
  return found;
"""


def furnished(world):
    """A server with something to see in every view; returns the views, each with an element to wait for."""
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
    person.press("button", "Toggle dark mode")
    until("it is dark", lambda: scheme() == "dark")
    world.browser.reload()
    until("it is still dark", lambda: scheme() == "dark")
    person.press("button", "Toggle dark mode")
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
    # Twice through all of them without a reload: the second time the style sheets of all views are loaded.
    for name, (route, wanted) in [*views.items(), *views.items()]:
        person.ask("location.hash = arguments[0]", route)
        person.wait_for(wanted)
        worn, before = person.ask(DRESS), fresh[name]
        changed = [f"{path}: {before[path]} -> {worn[path]}" for path in before if path in worn and before[path] != worn[path]]
        if changed:
            wrong.append(f"{name}: {len(changed)} elements, such as {changed[0]}")
    assert not wrong, "\n".join(wrong)


# Where the text of an element starts and ends.
WORDS = """
  const wordsOf = (e) => {
    const range = document.createRange();
    const walk = document.createTreeWalker(e, NodeFilter.SHOW_TEXT, (n) => (n.data.trim() ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_SKIP));
    const first = walk.nextNode();
    if (!first) return null;
    range.selectNodeContents(first);
    const box = range.getBoundingClientRect();
    return [box.left, box.right];
  };
"""

# How far each column header is from the alignment of its cells.
APART = WORDS + """
  const wrong = [];
  const look = (name, head, cell, isRight) => {
    const [above, below] = [wordsOf(head), wordsOf(cell)];
    if (!above || !below || !isShown(head)) return;
    // A pill starts where its background does.
    const pill = cell.querySelector('.state')?.getBoundingClientRect();
    const apart = isRight ? above[1] - below[1] : above[0] - (pill?.left ?? below[0]);
    if (Math.abs(apart) > 1) wrong.push(`${name}: ${apart.toFixed(1)} px`);
  };
  for (const head of document.querySelectorAll('.grid .head [data-column]')) {
    const cell = document.querySelector(`.grid [data-run] [data-column="${head.dataset.column}"]`);
    look(head.dataset.column, head.querySelector('button'), cell, head.classList.contains('number'));
  }
  for (const table of document.querySelectorAll('main table')) {
    const row = table.querySelector('tbody tr');
    const right = (e) => ['right', 'end'].includes(getComputedStyle(e).textAlign);
    [...table.querySelectorAll('thead th')].forEach((head, at) => {
      const cell = row?.children[at];
      if (!cell || !isShown(cell) || !isShown(head)) return;
      if (right(head) !== right(cell)) wrong.push(`${head.innerText}: at another side`);
      else look(head.innerText, head, cell, right(cell));
    });
  }
  return wrong;
"""


@case
def the_name_of_a_column_stands_over_what_it_names(world):
    person = world.person()
    views = furnished(world)
    wrong = {}
    for name in ("board", "runs"):
        person.visit(*views[name])
        until("its figures are there", lambda: name != "runs" or "…" not in person.text(person.find("tr[data-state=settled]")))
        wrong[name] = person.ask(APART)
    person.visit(*views["run"])
    person.press("[role=tab]", "Usage")
    person.wait_for("table.usage")
    wrong["usage"] = person.ask(APART)
    assert not any(wrong.values()), wrong


@case
def the_first_run_is_high_up_on_a_telephone(world):
    world.browser.size(390, 844)
    person = world.person()
    views = furnished(world)
    person.visit(*views["board"])
    person.shows("live.")
    top = lambda: person.ask("return Math.min(...all('[data-run]').map((e) => e.getBoundingClientRect().top))")
    until("the first run is in the upper part", lambda: top() < 844 * 0.4)
    # One press unfolds what was folded away, another folds it again.
    for name, part in (("^Filter", "field"), ("^Charts", "svg")):
        assert not person.find(part, "", person.find("main")), f"{name} is not folded"
        person.press("button", name)
        person.wait_for(part, "", person.find("main"))
        person.press("button", name)
        person.gone(part, "", person.find("main"))
    person.visit(*views["runs"])
    until("what ran is high up too", lambda: top() < 844 * 0.4)


@case
def a_dialog_dims_the_page_to_its_edge(world):
    world.browser.theme("light")
    person = world.person()
    person.visit(*furnished(world)["board"])
    person.press("button", "^Pull the cord")
    person.wait_for("dialog")
    file = world.folder / "dialog.png"
    world.browser.picture(file)
    image = base64.b64encode(file.read_bytes()).decode()
    width, *edge = world.browser.later(EDGE, image)
    assert width > 1000 and max(edge) < 200, f"the edge is bright: {edge}"


# The brightness of a picture at its left and right edges, at several heights.
EDGE = """
  const done = arguments[arguments.length - 1];
  const bytes = Uint8Array.from(atob(arguments[0]), (c) => c.charCodeAt(0));
  createImageBitmap(new Blob([bytes], {type: 'image/png'})).then((image) => {
    const canvas = new OffscreenCanvas(image.width, image.height);
    const brush = canvas.getContext('2d');
    brush.drawImage(image, 0, 0);
    const light = (x, y) => { const [r, g, b] = brush.getImageData(x, y, 1, 1).data; return Math.max(r, g, b); };
    const heights = [0.2, 0.5, 0.9].map((part) => Math.floor(image.height * part));
    done([image.width, ...heights.flatMap((y) => [light(1, y), light(image.width - 3, y)])]);
  });
"""


@case
def all_of_an_agents_card_leads_to_it(world):
    person = world.person()
    for part in ("p", ".soft"):
        person.open("#/")
        person.open("#/chat")
        card = person.wait_for("li.card", "^teller")
        # A click anywhere on the card.
        x, y = person.ask("const box = arguments[0].getBoundingClientRect(); return [box.left + 5, box.top + 5]", person.wait_for(part, "", card))
        for kind in ("mousePressed", "mouseReleased"):
            world.browser.cdp("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        until("the chat is there", lambda: person.ask("return location.hash").startswith("#/chat/teller"))
        person.wait_for("textarea")
