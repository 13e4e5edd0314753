// Unit tests of the page's pure modules, run in the browser as an async script of WebDriver in an open page (`/ui/`). The result is
// a list of failures, a sentence each, and some measurements.
//
// `arguments[0]` is the seed (a number, optional), the last argument is the callback for the result.

const answer = arguments[arguments.length - 1];
const seed = Number(arguments[0]) || 20_261;

(async () => {
  const here = new URL("./", document.baseURI);
  const load = (/** @type {string} */ file) => import(new URL(file, here).href);
  const [{ Markdown, markdown }, { inline, revealed }, folding, { pretty }, { doing, plus, shownState, stalledWords }, stops, { standing },
    { Card }] = await Promise.all(
    ["chat/markdown.js", "chat/inline.js", "chat/fold.js", "chat/pretty.js", "words.js", "stop.js", "run/run.js", "chat/card.js"].map(load));
  await (await load("dom.js")).styled("chat/chat.css");
  const { callsOf, fold, learn, newRun, textOf, usageOf } = folding;
  const { cuts, hardest, nextForce, Press, WORDS } = stops;

  const failures = [];
  /** @type {Record<string, string | number>} */
  const measured = { seed };
  const says = (/** @type {unknown} */ wanted, /** @type {unknown} */ found) => {
    const [a, b] = [JSON.stringify(wanted), JSON.stringify(found)];
    if (a !== b) throw new Error(`wanted ${String(a).slice(0, 600)}, found ${String(b).slice(0, 600)}`);
  };
  const isTrue = (/** @type {string} */ what, /** @type {unknown} */ is) => { if (!is) throw new Error(what); };
  const html = (/** @type {string} */ text) => markdown(text).innerHTML.replaceAll(' dir="auto"', "");
  /** @type {[name: string, run: () => unknown][]} */
  const cases = [];
  const test = (/** @type {string} */ name, /** @type {() => unknown} */ run) => cases.push([name, run]);

  /** Pseudo-random numbers: the same for the same seed. */
  function chance(/** @type {number} */ from) {
    let state = from >>> 0;
    return (/** @type {number} */ most) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((state / 2 ** 32) * most);
    };
  }

  /* Markdown: nothing becomes a tag. */

  test("html in a text is shown as text", () => {
    const place = markdown('<img src=x onerror=alert(1)> <script>alert(1)</script>\n\n<b onclick="x">bold</b> <a href="javascript:x">y</a>');
    says("<img src=x onerror=alert(1)> <script>alert(1)</script><b onclick=\"x\">bold</b> <a href=\"javascript:x\">y</a>", place.textContent);
    says(0, place.querySelectorAll("img, script, b, a").length);
  });
  test("no element is made but those of markdown, and none has a listener in an attribute", () => {
    const place = markdown("# <svg onload=x>\n\n> <iframe>\n\n- <style>*{}</style>\n\n| a | b |\n|---|---|\n| <form> | `<input>` |\n\n```html\n<body onload=x>\n```");
    const known = new Set(["H3", "BLOCKQUOTE", "P", "UL", "LI", "DIV", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD", "CODE", "PRE", "SPAN", "BUTTON"]);
    for (const element of place.querySelectorAll("*")) {
      isTrue(`<${element.tagName}> was made`, known.has(element.tagName));
      for (const { name } of element.attributes) isTrue(`${name} was set`, !name.startsWith("on") && name !== "style");
    }
  });
  test("a link leads to http, https or mailto, or is not a link", () => {
    for (const bad of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", " javascript:x",
      "java\tscript:x", "blob:x", "//evil.example", "/relative", "x"]) {
      for (const text of [`[a](${bad})`, `[a](<${bad}>)`, `<${bad}>`, `![a](${bad})`]) {
        const place = markdown(text);
        says(0, place.querySelectorAll("a, img").length);
        isTrue(`${text} lost its text`, place.textContent.includes("a") || place.textContent.includes("x"));
      }
    }
    for (const good of ["https://example.com/a?b=c#d", "http://example.com/", "mailto:ada@example.com"]) {
      const link = markdown(`[words](${good})`).querySelector("a");
      says([good, good, "noopener noreferrer", "_blank", "words"], [link.href, link.title, link.rel, link.target, link.textContent]);
    }
  });
  test("an image is a link, and nothing is loaded", () => {
    const place = markdown("![a cat](https://example.com/cat.png) and [![x](https://a.example/x.png)](https://b.example/)");
    says(0, place.querySelectorAll("img").length);
    says("https://example.com/cat.png", place.querySelector("a").href);
  });
  test("an address that stands in a text is a link without the full stop after it", () => {
    const place = markdown("See https://example.com/a_(b). And (https://example.com/c), but not xhttps://no.example or https://");
    says(["https://example.com/a_(b)", "https://example.com/c"], [...place.querySelectorAll("a")].map(({ href }) => href));
  });

  /* Markdown: what it looks like. */

  const LOOKS = [
    ["two paragraphs", "a\nb\n\nc", "<p>a\nb</p><p>c</p>"],
    ["headings", "# One #\n## Two\n####### seven\n#no", '<h3 class="level-1">One</h3><h4 class="level-2">Two</h4><p>####### seven\n#no</p>'],
    ["a heading that is underlined", "Title\n===\n\nSub\n---", '<h3 class="level-1">Title</h3><h4 class="level-2">Sub</h4>'],
    ["emphasis", "*a* **b** ***c*** ~~d~~ _e_ __f__", "<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <del>d</del> <em>e</em> <strong>f</strong></p>"],
    ["emphasis within emphasis", "**a *b* c** *d **e***", "<p><strong>a <em>b</em> c</strong> <em>d <strong>e</strong></em></p>"],
    ["marks that are none", "2 * 3 * 4, snake_case_name, a ** b, ~one~, **open", "<p>2 * 3 * 4, snake_case_name, a ** b, ~one~, **open</p>"],
    ["marks that cross", "*a _b* c_", "<p><em>a _b</em> c_</p>"],
    ["a mark that is escaped", "\\*a\\* \\\\ \\q", "<p>*a* \\ \\q</p>"],
    ["code in a line", "`a*b*` ``c ` d`` `` ` `` `open", '<p><code dir="ltr">a*b*</code> <code dir="ltr">c ` d</code> <code dir="ltr">`</code> `open</p>'],
    ["a rule", "a\n\n---\n\n* * *", "<p>a</p><hr><hr>"],
    ["a list", "- a\n- b\n* c", "<ul><li>a</li><li>b</li><li>c</li></ul>"],
    ["a list within a list", "- a\n  - b\n    - c\n- d", "<ul><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li><li>d</li></ul>"],
    ["a list below a number", "1. a\n   - b\n2. c", "<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>"],
    ["a list that begins at seven", "7. a\n8. b", '<ol start="7"><li>a</li><li>b</li></ol>'],
    ["a list with gaps", "- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"],
    ["a list and then a paragraph", "- a\nlazy\n\nb", "<ul><li>a\nlazy</li></ul><p>b</p>"],
    ["a list with boxes", "- [ ] a\n- [x] b", "<ul><li>☐ a</li><li>☑ b</li></ul>"],
    ["a year is not a list", "It was in\n1986. Really", "<p>It was in\n1986. Really</p>"],
    ["a quote", "> a\nlazy\n> > b\n\nc", "<blockquote><p>a\nlazy</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>"],
    ["a table", "| a | b |\n|:--|--:|\n| 1 | 2 \\| 3 |\n| 4 |\nend", '<div class="wide" tabindex="0" role="region" aria-label="Table"><table><thead><tr><th class="to-start">a</th><th class="to-end">b</th></tr></thead>' +
      '<tbody><tr><td class="to-start">1</td><td class="to-end">2 | 3</td></tr><tr><td class="to-start">4</td><td class="to-end"></td></tr><tr><td class="to-start">end</td><td class="to-end"></td></tr></tbody></table></div>'],
    ["what looks like a table but is not one", "| a | b |\n|---|\n| 1 |", "<p>| a | b |\n|---|\n| 1 |</p>"],
    ["a break in a line", "a\\\nb", "<p>a<br>b</p>"],
    ["an empty text", "", ""],
    ["line ends of another system", "a\r\n\r\nb\r\n", "<p>a</p><p>b</p>"],
  ];
  for (const [name, text, wanted] of LOOKS) test(`${name} looks as it should`, () => says(wanted, html(text)));

  test("a fence that is not closed is code to the end", () => {
    says(["a\n\n**b**"], [...markdown("```js\na\n\n**b**").querySelectorAll("pre code")].map(({ textContent }) => textContent));
    says(["a"], [...markdown("~~~\na\n~~~").querySelectorAll("pre code")].map(({ textContent }) => textContent));
    says("x ``` y", markdown("x ``` y").textContent);
    says(["```\nb"], [...markdown("````\n```\nb\n````").querySelectorAll("pre code")].map(({ textContent }) => textContent));
  });
  test("code within a list keeps its lines", () => {
    const place = markdown("1. do\n   ```sh\n   a\n     b\n\n   c\n   ```\n2. done");
    says(["a\n  b\n\nc"], [...place.querySelectorAll("li pre code")].map(({ textContent }) => textContent));
    says(2, place.querySelectorAll("ol > li").length);
  });
  test("marks that turn the direction of writing are seen in code, and stay within their block elsewhere", () => {
    says("⟪U+202E⟫a⟪U+2066⟫", revealed("\u202Ea\u2066"));
    says("x⟪U+202E⟫y", markdown("`x\u202Ey`").textContent);
    isTrue("code shows no mark", markdown("```\na\u202Eb\n```").textContent.includes("a⟪U+202E⟫b"));
    for (const element of markdown("a\u202Eb\n\n- c\n\n> d").querySelectorAll("p, li, blockquote")) says("auto", element.dir);
  });
  test("marks that are not seen are seen in code, and those that letters and pictures need are left alone", () => {
    says("rm⟪U+200B⟫ a⟪U+00AD⟫b⟪U+E0041⟫⟪U+FEFF⟫x⟪U+200D⟫", revealed("rm\u200B a\u00ADb\u{E0041}\uFEFFx\u200D"));
    for (const fine of ["👩‍👩‍👧", "می‌خواهم", "ça 漢字 🏳️‍🌈"]) says(fine, revealed(fine));
  });
  test("a link whose words name another place says where it leads", () => {
    const said = (/** @type {string} */ text) => markdown(text).querySelector("a").textContent;
    says("https://bank.example (evil.example)", said("[https://bank.example](https://evil.example/x)"));
    says("bank.example/login (evil.example)", said("[bank.example/login](https://evil.example)"));
    says("https://bank.example@evil.example/ (evil.example)", said("https://bank.example@evil.example/"));
    says("https://bаnk.example/ (xn--bnk-6cd.example)", said("https://bаnk.example/"));
    for (const fine of ["https://a.example/b", "[words](https://a.example)", "[a.example](https://a.example/c)", "<https://A.example>"]) {
      isTrue(fine, !said(fine).includes("("));
    }
  });
  test("what is copied of code is what was written", () => {
    const place = document.createElement("div");
    const drawn = new Markdown(place);
    for (const piece of ["```\na\u202E", "b\n", "c"]) {
      drawn.write(piece);
      drawn.flush();
    }
    const code = /** @type {HTMLElement & {written?: string}} */ (place.querySelector("code"));
    says(["a\u202Eb\nc", "a⟪U+202E⟫b\nc"], [code.written, code.textContent]);
  });
  test("nothing is lost of a text, however broken", () => {
    const next = chance(seed);
    const alphabet = ["*", "_", "`", "```", "~~", "[", "]", "(", ")", "<", ">", "!", "\\", "|", "-", "#", "1.", " ", "  ", "\n", "\n\n", "word", "й", "😀", "\u202E", ":", "---"];
    for (let round = 0; round < 200; round += 1) {
      let text = "";
      for (let count = next(60); count >= 0; count -= 1) text += alphabet[next(alphabet.length)];
      const shown = markdown(text).textContent;
      const words = (/** @type {string} */ it) => [...it].filter((letter) => letter === "й" || letter === "😀" || letter === "w").join("");
      says(words(text), words(shown));
    }
  });

  /* Markdown: drawn while it arrives. */

  const SAMPLE = ["# Head\n\npara *one*\nmore `co", "de`\n\n- a\n  - b\n\n    more\n- c\n\n1. x\n2. y\n\n```js\nlet a = 1;\n\n", "// **x**\n```\n\n| a | b |\n|---|:-:|\n",
    "| 1 | 2 |\n| 3 | 😀 |\n\n> quote\n> - in it\n\nlast **bold** https://example.com/x and [l](https://e.example/) \\* end\n===\n\n---\n~~~\nopen"].join("");

  test("a text that comes in pieces gives the same elements as one that comes at once", () => {
    const wanted = markdown(SAMPLE).innerHTML;
    const next = chance(seed);
    for (let round = 0; round < 60; round += 1) {
      const place = document.createElement("div");
      const drawn = new Markdown(place);
      for (let at = 0; at < SAMPLE.length;) {
        const end = at + 1 + next(round % 3 ? 40 : 4);
        drawn.write(SAMPLE.slice(at, end));
        if (next(2)) drawn.flush();
        at = end;
      }
      drawn.flush();
      says(wanted, place.innerHTML);
    }
  });
  test("a long text that comes in pieces gives the same elements as one that comes at once", () => {
    const next = chance(seed);
    const parts = ["- item\n", "word ", "\n\n", "```\n", "code line\n", "😀", "| a | b |\n|---|---|\n", "> q\n", "# h\n", "x".repeat(900)];
    let text = "";
    while (text.length < 700_000) text += parts[next(parts.length)];
    const wanted = markdown(text).innerHTML;
    for (let round = 0; round < 2; round += 1) {
      const place = document.createElement("div");
      const drawn = new Markdown(place);
      for (let at = 0; at < text.length;) {
        const end = at + 1 + next(40_000);
        drawn.write(text.slice(at, end));
        drawn.flush();
        at = end;
      }
      isTrue("the elements are not the same", wanted === place.innerHTML);
    }
    says(text.length - (text.match(/😀/g) ?? []).length, [...text].length);
  });
  test("a block that is complete stays in the page", () => {
    const place = document.createElement("div");
    const drawn = new Markdown(place);
    drawn.write("one\n\ntwo");
    drawn.flush();
    const [first] = place.children;
    drawn.write(" and more\n\nthree");
    drawn.flush();
    isTrue("the first paragraph was drawn anew", place.children[0] === first);
    says(["one", "two and more", "three"], [...place.children].map(({ textContent }) => textContent));
  });
  test("code that grows stays in the page", () => {
    const place = document.createElement("div");
    const drawn = new Markdown(place);
    drawn.write("```js\na");
    drawn.flush();
    const pre = place.querySelector("pre");
    drawn.write("b\nc");
    drawn.flush();
    isTrue("the box was drawn anew", place.querySelector("pre") === pre);
    says("ab\nc", pre?.textContent);
  });

  /* Markdown: it never freezes. */

  const HARD = {
    "letters": "a".repeat(5_000_000), "words": "word ".repeat(1_000_000), "stars": "*a ".repeat(1_700_000), "open brackets": "[".repeat(5_000_000),
    "links that never end": "[a](<b".repeat(800_000), "ticks of all lengths": Array.from({ length: 3000 }, (_, n) => "`".repeat(n)).join(" "),
    "quotes in quotes": ">".repeat(5_000_000), "lists in lists": Array.from({ length: 2000 }, (_, n) => `${" ".repeat(n)}- x`).join("\n"),
    "emphasis in lines": "*a* **b** `c`\n".repeat(350_000), "items": "- a\n".repeat(1_250_000), "rows": `|a|b|\n|-|-|\n${"|1|2|\n".repeat(800_000)}`,
    "empty lines": "a\n\n".repeat(1_600_000), "bars": "|a".repeat(2_500_000), "marks of two kinds": "*_".repeat(2_500_000), "underscores": "_a __b ".repeat(700_000),
  };
  for (const [name, text] of Object.entries(HARD)) {
    test(`5 MB of ${name} in one go keep the page awake`, async () => {
      const chat = document.body.appendChild(document.createElement("div"));
      chat.className = "chat";
      const place = chat.appendChild(document.createElement("div"));
      place.className = "said";
      // Leftover work of the previous case does not count.
      await new Promise((done) => { requestAnimationFrame(() => setTimeout(done, 20)); });
      const end = new AbortController();
      const drawn = new Markdown(place, end.signal);
      let [longest, last, task] = [0, performance.now(), 0];
      const began = last;
      const tasks = new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) task = Math.max(task, duration); });
      tasks.observe({ entryTypes: ["longtask"] });
      drawn.write(text);
      while (drawn.queue.length) {
        await new Promise((done) => { requestAnimationFrame(() => setTimeout(done)); });
        longest = Math.max(longest, performance.now() - last);
        last = performance.now();
        if (last - began > 20_000) break;
      }
      end.abort();
      await new Promise((done) => { setTimeout(done, 20); });
      tasks.disconnect();
      const isAll = !drawn.queue.length;
      const length = place.textContent.length;
      chat.remove();
      measured[name] = `longest task ${task ? Math.round(task) : "under 50"} ms, longest frame ${Math.round(longest)} ms, all in ${Math.round(last - began)} ms`;
      isTrue(`${name}: not drawn in 20 s`, isAll);
      isTrue(`${name}: ${length} characters are shown`, length > text.replaceAll(/[>\n -]/g, "").length * 0.2);
      // Far more than it takes on a busy machine, and far less than a quadratic algorithm would.
      isTrue(`${name}: ${measured[name]}`, task < 10_000);
    });
  }
  test("a line of marks is read in linear time", () => {
    const time = (/** @type {string} */ text) => { const from = performance.now(); inline(text); return performance.now() - from; };
    for (const unit of ["*a ", "[a](", "`a ``b ", "**a* ", "![", "<a ", "https://a.b ", "_a*b~~c ", "\\"]) {
      time(unit.repeat(500));
      const long = time(unit.repeat(Math.floor(16_000 / unit.length)));
      isTrue(`${unit} takes ${Math.round(long)} ms for 16,000 characters`, long < 3000);
    }
  });

  /* The fold. */

  // The items are as loose as a server's: what a test does not need is left out.
  /** @typedef {Record<string, any>} Item */
  const stamp = (/** @type {number} */ ms) => ({ wall: new Date(Date.UTC(2026, 0, 1) + ms).toISOString(), mono_us: ms * 1000 });
  /** @type {(seq: number, type: string, more?: Item, epoch?: number) => Item} */
  const item = (seq, type, more, epoch = 1) => ({ v: 1, seq, epoch, at: stamp(seq * 100), type, ...more });
  const figureOf = (/** @type {number | null} */ value) => ({ value, provenance: value === null ? "unknown" : "reported", low: value, high: value });
  const usage = (/** @type {number | null} */ input, /** @type {number | null} */ output) => ({ input: figureOf(input), unsplit: figureOf(0), cache_read: figureOf(0), cache_write: figureOf(0), output: figureOf(output), reasoning: figureOf(0) });
  const used = (/** @type {number | null} */ input, /** @type {number | null} */ output) => ({ delivered: usage(input, output), billed: usage(input, output) });
  const accepted = { run: "r", session: { app: "a", user: "u", session: "s" }, input: { role: "user", parts: [{ type: "text", text: "hi" }] } };
  /** @type {(fact: Item, state: string, phase?: string | null, force?: string) => Item} a fact with the standing of the run after it */
  const stood = (fact, state, phase, force) => ({ ...fact, standing: { state, ...(phase && { phase }), ...(force && { force }) } });
  const begin = [stood(item(1, "run_accepted", { accepted }), "queued", "queued"), stood(item(2, "run_started"), "running", "between"),
    stood(item(3, "model_started", { call: 1, model: "m" }), "running", "model")];
  const request = (/** @type {number} */ ms, force = "graceful") => ({ reason: "requested", force, by: "ada", requested_at: stamp(ms) });
  const result = (/** @type {string} */ call, /** @type {string} */ status, /** @type {string} */ text) => ({ call, status, content: [{ type: "text", text }] });
  /** @type {Item[]} */
  const whole = [
    ...begin,
    { type: "delta", at: "3.5", thinking: "hmm, " }, { type: "delta", at: "3.9", thinking: "well" },
    { type: "delta", at: "3.14", text: "Hello" }, { type: "delta", at: "3.20", text: " there" },
    { type: "delta", at: "3.23", tool_input: '{"a"', call: "c1", tool: "look" }, { type: "delta", at: "3.27", tool_input: ":1}", call: "c1", tool: "look" },
    { type: "delta", at: "3.29", tool_input: "{}", call: "c2", tool: "wait" },
    item(4, "message", { message: { role: "assistant", parts: [{ type: "thinking", text: "hmm, well" }, { type: "text", text: "Hello there" },
      { type: "tool_call", id: "c1", name: "look", arguments: '{"a":1}' }, { type: "tool_call", id: "c2", name: "wait", arguments: "{}" }] } }),
    item(5, "usage", { call: 1, used: used(10, 5) }), item(6, "model_finished", { call: 1, end: { how: "answered", stop: "tool_use" } }),
    stood(item(7, "tool_started", { call: "c1", effect: "read_only" }), "running", "tools"),
    stood(item(8, "tool_started", { call: "c2", effect: "effect" }), "running", "tools"),
    { type: "delta", at: "8.2", tool_output: "o1", call: "c2" }, { type: "delta", at: "8.4", tool_output: "o2", call: "c2" },
    item(9, "tool_finished", { call: "c1", end: "finished", result: result("c1", "ok", "seen") }),
    stood(item(10, "cancel_requested", { request: request(990), delivered_at: stamp(991) }), "cancelling", "tools", "graceful"),
    stood(item(11, "grace_ended", { calls: ["c2"] }), "cancelling", "tools", "graceful"),
    stood(item(12, "tool_finished", { call: "c2", end: "unknown", result: result("c2", "unknown", "o1o2"), remains: { leaked: ["sleep"] } }),
      "cancelling", "between", "graceful"),
    stood(item(13, "run_quieted"), "cancelling", "between", "graceful"),
    stood(item(14, "run_settled", { outcome: { kind: "cancelled", reason: "requested" } }), "settled", null, "graceful"),
  ];
  const folded = (/** @type {Item[]} */ items) => items.reduce((run, it) => fold(run, it), newRun("r"));
  /** What is shown of a run, however it was split into pieces. */
  const seen = (/** @type {ChatRun} */ run) => ({
    ...run, answerFrom: null,
    parts: run.parts.map((/** @type {Item} */ part) => ({ ...part, ...(part.pieces && { pieces: textOf(part), edition: 0 }), ...(part.output && { output: part.output.join("") }) })),
  });

  test("a feed gives the same run live and after a reload, wherever it was cut", () => {
    const wanted = seen(folded(whole));
    for (let cut = 0; cut <= whole.length; cut += 1) {
      const run = folded(whole.slice(0, cut));
      for (const it of whole.slice(cut)) fold(run, it);
      says(wanted, seen(run));
    }
    // After a reload the streamed text arrives as one piece of each kind.
    const lump = whole.filter(({ type }) => type !== "delta");
    lump.splice(3, 0, { type: "delta", at: "3.9", thinking: "hmm, well" }, { type: "delta", at: "3.20", text: "Hello there" },
      { type: "delta", at: "3.27", tool_input: '{"a":1}', call: "c1", tool: "look" }, { type: "delta", at: "3.29", tool_input: "{}", call: "c2", tool: "wait" });
    lump.splice(lump.findIndex(({ seq }) => seq === 8) + 1, 0, { type: "delta", at: "8.4", tool_output: "o1o2", call: "c2" });
    says(wanted, seen(folded(lump)));
  });
  test("parts keep their identity, and their text only grows", () => {
    const run = newRun("r");
    /** @type {ChatPart[]} */
    let before = [];
    for (const it of whole) {
      fold(run, it);
      before.forEach((part, at) => isTrue(`part ${at} is another at ${it.type}`, run.parts[at] === part));
      before = [...run.parts];
      for (const part of run.parts) says(0, part.edition ?? 0);
    }
  });
  test("the answer on record has the last word", () => {
    const run = folded([...begin, { type: "delta", at: "3.9", text: "shown but lost" }, { type: "text_lost", at: "3.9" },
      item(4, "message", { message: { role: "assistant", parts: [{ type: "text", text: "shown" }], cut: { by: "lost" } } }),
      item(5, "model_finished", { call: 1, end: { how: "lost" } }), item(6, "run_settled", { outcome: { kind: "lost" } }, 2)]);
    says(["shown", 1, true, "lost"], [textOf(run.parts[0]), run.parts[0].edition, run.isTextLost, run.outcome.kind]);
  });
  test("an answer of which nothing is on record goes down with the server", () => {
    const run = folded([...begin, { type: "delta", at: "3.9", text: "never stored" }, { type: "text_lost", at: "3.9" },
      item(4, "run_settled", { outcome: { kind: "lost" } }, 2)]);
    says([0, true, "lost"], [run.parts.length, run.isTextLost, run.outcome.kind]);
  });
  test("what was shown and is not on record goes", () => {
    const run = folded([...begin, { type: "delta", at: "3.9", text: "a" }, { type: "delta", at: "3.12", tool_input: "{", call: "c9", tool: "t" },
      item(4, "message", { message: { role: "assistant", parts: [{ type: "text", text: "a" }], cut: { by: "cancelled", reason: "requested" } } })]);
    says(["text"], run.parts.map((/** @type {ChatPart} */ { kind }) => kind));
  });
  test("a run is cancelling when it was asked to stop, and cut when it has settled", () => {
    const states = [];
    const run = newRun("r");
    for (const it of whole) states.push(fold(run, it).state);
    says("running", states[whole.findIndex(({ type }) => type === "tool_started")]);
    says(["cancelling", "cancelling", "cancelling", "cancelling", "settled"], states.slice(-5));
    says([null, null, "graceful"], [run.quietTook, run.settledTook, run.force]);
    const { quietTook, settledTook } = learn(run, { calls: [], took: { quiet_us: 310000, settled_us: 456789 } });
    says([310, 456.789], [quietTook, settledTook]);
  });
  /** How the chat and the run's page show a run with these facts, and what their Stop does next. */
  const shownBy = (/** @type {Item[]} */ items) => {
    const run = folded(items);
    const page = items.reduce(standing, null);
    return [run, page].map(({ state, phase, force }) => [state, phase, force, nextForce(force)]);
  };
  test("P7: a run that is to stop after its turn is the same in the chat and on its page, and its Stop is graceful in both", () => {
    const asked = [...begin, stood(item(4, "cancel_requested", { request: request(390, "after_turn") }), "cancelling", "model", "after_turn")];
    const wanted = ["cancelling", "model", "after_turn", "graceful"];
    says([wanted, wanted], shownBy(asked));
    // A model call that ends meanwhile does not change that.
    const goesOn = [...asked, stood(item(5, "model_finished", { call: 1, end: { how: "answered", stop: "tool_use" } }), "cancelling", "tools", "after_turn")];
    says(["cancelling", "tools", "after_turn", "graceful"], shownBy(goesOn)[1]);
    const harder = [...goesOn, stood(item(6, "cancel_requested", { request: request(395) }), "cancelling", "tools", "graceful")];
    says([["cancelling", "tools", "graceful", "now"], ["cancelling", "tools", "graceful", "now"]], shownBy(harder));
  });
  test("P7: with two approvals open and one denied the chat and the run's page say the same", () => {
    const parts = ["a", "b"].map((id) => ({ type: "tool_call", id, name: "t", arguments: "{}" }));
    const waits = (/** @type {number} */ seq, /** @type {string} */ type, /** @type {Item} */ more) => stood(item(seq, type, more), "waiting", "waiting");
    const asked = [...begin, stood(item(4, "message", { message: { role: "assistant", parts } }), "running", "model"),
      stood(item(5, "approval_requested", { call: "a", arguments: "d1" }), "running", "tools"), waits(6, "approval_requested", { call: "b", arguments: "d2" }),
      waits(7, "approval_resolved", { call: "a", verdict: { verdict: "denied" } })];
    const wanted = ["waiting", "waiting", null, "graceful"];
    says([wanted, wanted], shownBy(asked));
    const refused = waits(8, "tool_refused", { call: "a", why: "denied_by_person", result: result("a", "refused", "no") });
    says([wanted, wanted], shownBy([...asked, refused]));
  });
  test("a settled run is settled on its page, with how and when it ended", () => {
    const { state, phase, force, outcome, ended_at: at } = whole.reduce(standing, /** @type {any} */ (null));
    says(["settled", null, "graceful", "cancelled", stamp(1400).wall], [state, phase, force, outcome.kind, at]);
    const before = begin.reduce(standing, null);
    isTrue("a fact that changes nothing makes something new to show", standing(before, stood(item(4, "usage"), "running", "model")) === before);
  });
  test("each verdict is kept as it was told", () => {
    const calls = ["finished", "cut", "unknown", "never_started", "leaked", "detached", "panicked"];
    const parts = calls.map((verdict) => ({ type: "tool_call", id: verdict, name: "t", arguments: "{}" }));
    const ends = calls.map((verdict, at) => item(10 + at, "tool_finished", { call: verdict, end: verdict, result: result(verdict, "ok", "") }));
    const run = folded([...begin, item(4, "message", { message: { role: "assistant", parts } }), ...ends]);
    says(calls, callsOf(run).map((/** @type {CallPart} */ { verdict }) => verdict));
    learn(run, { calls: [{ call: "leaked", verdict: "late" }, { call: "cut", verdict: "cut" }, { call: "other", verdict: "late" }] });
    says(["finished", "cut", "unknown", "never_started", "late", "detached", "panicked"], callsOf(run).map((/** @type {CallPart} */ { verdict }) => verdict));
  });
  test("what a prompt brought along is shown before it", () => {
    const history = [{ role: "user", parts: [{ type: "text", text: "I am Ada." }] }, { role: "assistant", parts: [{ type: "text", text: "Hello." }] }];
    says(history, folded([item(1, "run_accepted", { accepted: { ...accepted, history } })]).before);
    says([], folded(begin).before);
  });
  test("what a hook changed is shown as it is now", () => {
    const parts = [{ type: "text", text: "secret" }, { type: "tool_call", id: "c", name: "look", arguments: "{}" }];
    const hook = (/** @type {number} */ seq, /** @type {string} */ point, /** @type {Item} */ change) => item(seq, "hook_finished", { point, end: "changed", change });
    const run = folded([...begin, item(4, "message", { message: { role: "assistant", parts } }), item(5, "model_finished", { call: 1, end: { how: "answered", stop: "tool_use" } }),
      hook(6, "after_model", { what: "answer", answer: { role: "assistant", parts: [{ type: "text", text: "public" }, parts[1]] } }),
      hook(7, "before_tool", { what: "call", call: { id: "c", name: "see", arguments: '{"n":1}' } }),
      item(8, "tool_started", { call: "c", effect: "effect" }), item(9, "tool_finished", { call: "c", end: "finished", result: result("c", "ok", "seen") }),
      hook(10, "after_tool", { what: "result", result: result("c", "ok", "hidden") })]);
    says([["text", "public"], ["call", '{"n":1}']], run.parts.map((/** @type {Item} */ part) => [part.kind, textOf(/** @type {Written} */ (part))]));
    says([["see", result("c", "ok", "hidden")]], callsOf(run).map((/** @type {CallPart} */ part) => [part.tool, part.result]));
  });
  test("of two calls with one id the first is made and the second is refused", () => {
    const parts = [1, 2].map((n) => ({ type: "tool_call", id: "same", name: `t${n}`, arguments: "{}" }));
    const run = folded([...begin, item(4, "message", { message: { role: "assistant", parts } }),
      item(5, "tool_refused", { call: "same", why: "duplicate_id", result: result("same", "refused", "") }),
      item(6, "tool_started", { call: "same", effect: "effect" }), item(7, "tool_finished", { call: "same", end: "finished", result: result("same", "ok", "") })]);
    says([["t1", "finished"], ["t2", "never_started"]], callsOf(run).map((/** @type {CallPart} */ { tool, verdict }) => [tool, verdict]));
  });
  test("an approval is asked for, decided, and closed by a stop", () => {
    const message = item(4, "message", { message: { role: "assistant", parts: [{ type: "tool_call", id: "c", name: "t", arguments: "{}" }] } });
    const asked = [...begin, message, stood(item(5, "approval_requested", { call: "c", arguments: "d1" }), "waiting", "waiting")];
    const waits = folded(asked);
    says(["waiting", "waits", "d1"], [waits.state, waits.parts[0].stage, waits.parts[0].digest]);
    const yes = folded([...asked, item(6, "approval_resolved", { call: "c", verdict: { verdict: "approved", by: "ada" } }),
      stood(item(7, "tool_started", { call: "c", effect: "effect" }), "running", "tools")]);
    says(["running", "runs", "ada"], [yes.state, yes.parts[0].stage, yes.parts[0].approval.by]);
    const no = folded([...asked, item(6, "approval_resolved", { call: "c", verdict: { verdict: "denied", why: "no" } }),
      item(7, "tool_refused", { call: "c", why: "denied_by_person", result: result("c", "refused", "no") })]);
    says(["over", "never_started", "denied_by_person"], [no.parts[0].stage, no.parts[0].verdict, no.parts[0].why]);
    const closed = folded([...asked, stood(item(6, "cancel_requested", { request: request(590) }), "cancelling", "waiting", "graceful"), item(7, "approval_resolved", { call: "c", verdict: { verdict: "closed" } })]);
    says(["cancelling", "asked", "closed"], [closed.state, closed.parts[0].stage, closed.parts[0].approval.verdict]);
  });
  test("a failed call that is tried again says so, and why", () => {
    const run = folded([...begin, item(4, "model_finished", { call: 1, end: { how: "failed", failure: { error: "model", message: "busy" } } }),
      item(5, "backoff_started", { delay_ms: 500 })]);
    says([["again", 500, "busy", false]], run.parts.map((/** @type {AgainPart} */ { kind, delay, failure, isOver }) => [kind, delay, failure?.message, isOver]));
    says(true, fold(run, item(6, "backoff_finished")).parts[0].isOver);
  });
  test("how long it thought is known only to readers who were there", () => {
    const items = [...begin, { type: "delta", at: "3.5", thinking: "hm" }, { type: "delta", at: "3.7", text: "a" }];
    const live = newRun("r");
    items.forEach((it, at) => fold(live, it, at * 100));
    says([100, null], [live.parts[0].took, folded(items).parts[0].took]);
    const cut = newRun("r");
    const alone = [...items.slice(0, 4), item(4, "message", { message: { role: "assistant", parts: [{ type: "thinking", text: "hm" }], cut: { by: "cancelled", reason: "requested" } } })];
    alone.forEach((it, at) => fold(cut, it, at * 100));
    says([100, false, "cancelled"], [cut.parts[0].took, cut.parts[0].isOpen, cut.parts[0].cut.by]);
  });
  test("of a tool's output the end is held, and the rest is counted", () => {
    const run = folded([...begin, item(4, "message", { message: { role: "assistant", parts: [{ type: "tool_call", id: "c", name: "t", arguments: "{}" }] } }),
      item(5, "tool_started", { call: "c", effect: "effect" })]);
    for (let n = 0; n < 500; n += 1) fold(run, { type: "delta", at: `5.${n}`, tool_output: `${n}`.padStart(999, ".") + "\n", call: "c" });
    const [part] = callsOf(run);
    says(500_000, part.dropped + part.outputSize);
    isTrue("too much is held", part.outputSize <= folding.OUTPUT_KEPT);
    isTrue("the end is not there", part.output.join("").endsWith("499\n"));
    fold(run, { type: "delta", at: "6.1", tool_output: "x".repeat(5_000_000), call: "c" });
    says([5_500_000, folding.OUTPUT_KEPT], [part.dropped + part.outputSize, part.outputSize]);
  });
  /** The card of a call that is running, and a function that gives it output and draws it. */
  function runningCard() {
    const run = folded([...begin, item(4, "message", { message: { role: "assistant", parts: [{ type: "tool_call", id: "c", name: "t", arguments: "{}" }] } }),
      item(5, "tool_started", { call: "c", effect: "effect" })]);
    const card = new Card({ id: "r", isStopping: false, state: "running" }, callsOf(run)[0]);
    /** @param {string[]} pieces */
    const write = (...pieces) => {
      for (const piece of pieces) fold(run, { type: "delta", at: "5.1", tool_output: piece, call: "c" });
      card.update();
    };
    return { card, run, write };
  }
  /** How many characters the card says are not shown. */
  const countedAsGone = (/** @type {any} */ card) => (card.gone.hidden ? 0 : Number(card.gone.textContent.replace(/\D/g, "")));

  test("P7: what a card shows of an output and what it says is not shown are the whole output", () => {
    const { card, write } = runningCard();
    let all = "";
    for (const size of [150_000, 80_000, 10, 10, 90_000, 10, 10, 450_000, 10]) {
      const text = `${all.length}:`.padEnd(size, "x");
      all += text;
      write(text);
      const shown = card.output.textContent;
      isTrue("what is shown is not the end", all.endsWith(shown));
      says(all.length, shown.length + countedAsGone(card));
    }
  });
  test("P7: hidden characters in an output are counted as they were written", () => {
    const { card, write } = runningCard();
    const line = `${"\u202E".repeat(499)}\n`;
    const drawn = revealed(line).length;
    for (let n = 1; n <= 1500; n += 1) {
      write(line);
      // The text is long, so it is not read for each line.
      if (n % 100 === 0) says(n * line.length, (card.output.textContent.length / drawn) * line.length + countedAsGone(card));
    }
    says(folding.OUTPUT_KEPT / line.length, card.output.textContent.length / drawn);
  });
  test("a character that is written in two pieces is shown whole", () => {
    const { card, write } = runningCard();
    for (const piece of ["👩", "\u200D👩", "\u200D👧 a", "\u200Db"]) write(piece);
    says("👩‍👩‍👧 a⟪U+200D⟫b", card.output.textContent);
  });
  test("P7: a long result with hidden characters is as long as it was written", () => {
    const { card, run } = runningCard();
    const text = "\u202E".repeat(20_000);
    fold(run, item(6, "tool_finished", { call: "c", end: "finished", result: result("c", "ok", text) }));
    card.update();
    says("Show all 20 kB", card.result.querySelector(".showall").textContent);
    isTrue("a mark is cut in two", /^(⟪U\+202E⟫)+$/.test(card.result.querySelector("pre").textContent));
  });
  test("an item that is not known changes nothing", () => {
    const run = folded(whole);
    const before = JSON.stringify(seen(run));
    for (const it of [{ type: "new_thing", seq: 99 }, { type: "toString" }, { type: "tool_finished", call: "nobody", end: "cut", at: stamp(1) }, {}]) fold(run, it);
    says(before, JSON.stringify(seen(run)));
  });
  test("tokens add up, and unknown is not 0", () => {
    const run = folded([...begin, item(4, "usage", { call: 1, used: used(10, 5) }), item(5, "usage", { call: 2, used: used(20, null) })]);
    says([30, null, 5], [usageOf(run).input.value, usageOf(run).output.value, usageOf(run).output.low]);
    says({ value: 3, provenance: "estimated", low: 3, high: 3 }, plus(figureOf(1), { ...figureOf(2), provenance: "estimated" }));
    says(null, usageOf(newRun("x")));
  });
  test("a million pieces are folded in a moment", () => {
    const run = folded(begin);
    const from = performance.now();
    for (let n = 0; n < 1_000_000; n += 1) fold(run, { type: "delta", at: "3.1", text: "word " });
    const took = performance.now() - from;
    measured["fold of a million pieces"] = `${Math.round(took)} ms`;
    says(5_000_000, textOf(run.parts[0]).length);
    isTrue(`it took ${took} ms`, took < 30_000);
  });

  /* The Stop button. */

  test("P6: a press is graceful first, also after a stop after the turn, then now, and then there is nothing harder", () => {
    const forces = [null, "after_turn", "graceful", "now"];
    /** @type {Record<string, string>} */
    const wanted = { null: "graceful", after_turn: "graceful", graceful: "now", now: "none" };
    for (const force of forces) {
      for (const pressed of forces) {
        const press = new Press();
        press.take({ state: force ? "cancelling" : "running", force });
        press.becomes(pressed);
        says([force, pressed, wanted[hardest(force, pressed)]], [force, pressed, press.next]);
      }
    }
    says(["graceful", "graceful", "graceful", "now", "none"], [undefined, ...forces].map(nextForce));
    says([false, false, true, true], forces.map(cuts));
    says([null, "now", "graceful"], [hardest(), hardest("now", "graceful"), hardest("after_turn", null, "graceful")]);
  });
  test("P7: the button has words for whatever its press does, wherever it is", () => {
    for (const [where, words] of Object.entries(WORDS)) for (const next of ["graceful", "now", "none"]) isTrue(`${where} ${next}`, words[next]);
    says(["Stop", "Stop", "Stop", "Stop"], [WORDS.run.graceful, WORDS.call.graceful, WORDS.chat.graceful[0], WORDS.row.graceful.label]);
  });
  const failing = (/** @type {object} */ more) => () => Promise.reject(Object.assign(new Error("no"), more));
  /** What a Stop button does next after each change, beginning with the press, and what it says about the press. */
  const pressing = async (/** @type {any} */ press, /** @type {() => Promise<unknown>} */ send) => {
    /** @type {unknown[]} */
    const shown = [];
    await press.send(send, (/** @type {unknown} */ answer) => shown.push([press.next, press.isUnsent ? "unsent" : press.words, press.isStopping, answer ?? null]));
    return shown;
  };
  test("P7: a stop that does not reach the server is sent again, one that is refused does not count as a press, and one on its way to the disk does", async () => {
    const heard = { state: "cancelling", force: "graceful" };
    let tries = 0;
    const unsent = ["now", "unsent", false, null];
    says([["now", "", true, null], unsent, unsent, ["now", "", true, heard]],
      await pressing(new Press(), () => ((tries += 1) < 3 ? failing({ isGone: true })() : Promise.resolve(heard))));
    says([["now", "", true, null], ["now", "no", true, null]], await pressing(new Press(), failing({ body: { pulled: true } })));
    says([["now", "", true, null], ["graceful", "no", false, null]], await pressing(new Press(), failing({ body: {} })));
    // Once the run has settled there is nothing left to send.
    const over = new Press();
    says([["now", "", true, null], ["graceful", "", false, null]], await pressing(over, () => {
      over.take({ state: "settled" });
      return failing({ isGone: true })();
    }));
  });
  test("P7: after a refused second press the button is back to what the server says", async () => {
    const press = new Press();
    await pressing(press, () => Promise.resolve({ state: "cancelling", force: "graceful" }));
    says([["none", "", true, null], ["now", "no", true, null]], await pressing(press, failing({ body: {} })));
    // The first press was not accepted yet, and its own answer says when it is.
    const early = new Press();
    early.becomes("graceful");
    says([["none", "", true, null], ["graceful", "no", false, null]], await pressing(early, failing({ body: {} })));
    early.take({ state: "cancelling", force: "graceful" });
    says("now", early.next);
  });
  test("P7: a press is forgotten once the server says that the run is stopped as hard as that, and not before", async () => {
    const press = new Press();
    press.becomes("now", "not on disk yet");
    press.take({ state: "running" });
    press.take({ state: "cancelling", force: "graceful" });
    says(["now", "not on disk yet", "graceful"], [press.pressed, press.words, press.told]);
    press.take({ state: "cancelling", force: "now" });
    // What is older than that changes nothing.
    press.take({ state: "cancelling", force: "graceful" });
    says([null, "", "now", "none"], [press.pressed, press.words, press.told, press.next]);
    // The answer about a call has the force of its run.
    const call = new Press();
    await pressing(call, () => Promise.resolve({ state: "cancelling", force: "now", call: "c1" }));
    says([null, "graceful", "now"], [call.told, call.pressed, call.next]);
  });
  test("P7: a harder press replaces one that has not reached the server, which is not sent again", async () => {
    const press = new Press();
    let tries = 0;
    const first = pressing(press, () => { tries += 1; return failing({ isGone: true })(); });
    const second = pressing(press, () => Promise.resolve({ state: "cancelling", force: "now" }));
    await Promise.all([first, second]);
    says([1, null, "now", ""], [tries, press.pressed, press.told, press.words]);
  });

  /* States. */

  test("a run whose end is not written is stalled, whatever it was doing, until it has settled", () => {
    const why = "the disk is full";
    for (const state of ["running", "waiting", "cancelling"]) {
      says(["stalled", "stalled"], [shownState({ state, stalled: why }), doing({ state, phase: "model", stalled: why })]);
      says(state, shownState({ state }));
    }
    const settled = { state: "settled", outcome: { kind: "failed" }, stalled: why };
    says(["settled", "failed"], [shownState(settled), doing(settled)]);
  });
  test("what stalled means ends with what the server says, and tells how a run that was stopped will settle", () => {
    const [left, stopped] = [stalledWords("the disk is full", false), stalledWords("the disk is full", true)];
    for (const words of [left, stopped]) isTrue(words, words.endsWith("The server says: the disk is full."));
    says([false, true], [left, stopped].map((words) => words.includes("settle on its own as stopped")));
  });

  /* Arguments. */

  test("arguments are laid out, and nothing in them changes but white space", () => {
    says('{\n  "a": 12345678901234567890,\n  "a": [\n    1,\n    {}\n  ],\n  "b": "x, {y}: \\" \\\\",\n  "c": []\n}',
      pretty('{"a":12345678901234567890,"a":[1,{}],"b":"x, {y}: \\" \\\\","c":[ ]}'));
    says("no json {", pretty("no json {"));
    says("", pretty(""));
  });

  for (const [name, run] of cases) {
    try {
      await run();
    } catch (error) {
      failures.push(`${name}: ${error instanceof Error ? error.message : error}`);
    }
  }
  return { failures, cases: cases.length, measured };
})().then(answer, (error) => answer({ failures: [`the cases could not be run: ${error.stack ?? error}`], cases: 0, measured: {} }));
