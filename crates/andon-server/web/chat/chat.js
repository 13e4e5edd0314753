// The chat: which agent, which session, and the conversation.
//
// 1. The address identifies what is shown, so a reload, a link and a second tab show the same.
// 2. Send and Stop are one button; Escape stops wherever the focus is.

import { get, link, may, me, part, serverIsGone, STORED } from "../api.js";
import { Composer } from "./composer.js";
import { fill, h } from "../dom.js";
import { keepEnd } from "./ends.js";
import { Talk } from "./talk.js";
import { several } from "../words.js";

const SECOND = 1000;
const HOUR = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
/** A short date or time. */
const lately = (/** @type {string} */ wall) => (new Date(wall).toDateString() === new Date().toDateString() ? HOUR : DAY).format(new Date(wall));

/** @type {ViewModule["default"]} */
export default async function view(place, { parts: [app, session], query }, signal) {
  const { apps } = await get("/v1/apps", { signal });
  if (!app) {
    choose(place, apps);
    return;
  }
  const { user: own } = await me();
  if (signal.aborted) return;
  if (!may("run:read")) {
    fill(place, h("div", { class: "empty", role: "alert" },
      h("p", null, "Your key cannot read runs. Ask the server’s administrator for a key with the scope run:read.")));
    return;
  }
  const user = query.get("user") || own;
  const agent = apps.find((known) => known.app === app);
  if (!agent && !session) {
    fill(place, h("div", { class: "empty" }, h("p", null, `There is no agent named ${app.slice(0, 100)}.`),
      h("a", { href: "#/chat" }, "Choose another agent")));
    return;
  }
  await new Chat(place, { app, agent, user, own, session: session ?? null, signal }).open();
}

/* Choosing an agent. */

function choose(/** @type {HTMLElement} */ place, /** @type {Api.App[]} */ apps) {
  if (!apps.length) {
    fill(place, h("div", { class: "empty" }, h("p", null, "There are no agents yet."),
      h("p", null, "Start the server with ", h("code", null, "--agents FOLDER"), ". Each folder in it that contains a ",
        h("code", null, "root_agent.yaml"), " becomes an agent.")));
    return;
  }
  if (apps.length === 1 && !apps[0].refused) {
    location.replace(`#/chat/${part(apps[0].app)}`);
    return;
  }
  fill(place, h("h1", null, "Chat with an agent"), h("ul", { class: "agents" }, apps.map(agentCard)));
}

function agentCard(/** @type {Api.App} */ { app, model, description, refused }) {
  const name = refused ? h("b", null, app) : h("a", { href: `#/chat/${part(app)}` }, app);
  return h("li", { class: "card" }, h("h2", null, name), h("p", null, description ?? ""),
    refused ? h("p", { class: "problem small" }, `Unavailable: ${refused}`) : h("p", { class: "soft small" }, model));
}

/* A conversation. */

class Chat {
  /**
   * @param {HTMLElement} place
   * @param {{app: string, agent?: Api.App, user: string, own: string,
   *   session: string | null, signal: AbortSignal}} about `agent` is missing if it is not available, `user` is the one whose session
   *   it is, `own` our own
   */
  constructor(place, about) {
    const { app, agent, user, own, session, signal } = about;
    this.place = place;
    this.app = app;
    this.agent = agent;
    this.user = user;
    this.own = own;
    this.session = session;
    this.signal = signal;
    /** @type {number | undefined} how many runs were accepted when the sessions were last listed */
    this.accepted = undefined;
    this.name = h("bdi", { class: "soft small session-name", title: session }, session ?? "");
    // Starts and ends are announced; nobody wants to hear every word as it arrives.
    this.log = h("div", { class: "log", role: "log", "aria-live": "off", "aria-label": "Conversation" });
    this.empty = h("div", { class: "empty" });
    this.sessions = h("aside", { class: "sessions", id: "sessions", "aria-label": "Sessions" });
    this.drawer = h("button", { type: "button", class: "plain drawer", "aria-controls": "sessions", "aria-expanded": "false",
      onclick: () => this.openDrawer() }, "☰ Sessions");
    this.composer = new Composer({
      draftKey: () => `${STORED}draft.${this.app}.${this.user}.${this.session ?? ""}`,
      onSend: (text, isNext) => this.send(text, isNext),
      onStop: () => this.talk.press(),
      isStalled: () => this.talk.active?.state === "stalled",
    });
    this.ends = keepEnd(this.log, () => `${STORED}place.${this.app}.${this.user}.${this.session ?? ""}`, this.signal);
    this.build();
    this.talk = new Talk({
      ...about, log: this.log, onSession: (session) => this.began(session), onChange: () => this.changed(),
      onProblem: (...words) => this.composer.complain(...words), onGiveBack: (text) => this.composer.giveBack(text),
      onEarlier: (putIn) => this.ends.hold(putIn), onSettled: (answer) => this.settled(answer),
    });
    document.addEventListener("keydown", (event) => this.key(event), { signal: this.signal });
    link.addEventListener("gone", () => this.reached(), { signal: this.signal });
    link.addEventListener("back", () => { this.reached(); this.composer.complain(""); }, { signal: this.signal });
    const ticking = setInterval(() => this.tick(), SECOND);
    document.title = `${about.app.slice(0, 60)} · Andon`;
    this.signal.addEventListener("abort", () => clearInterval(ticking), { once: true });
  }

  /** Updates the times of runs that are known to be in progress. */
  tick() {
    if (serverIsGone()) return;
    for (const answer of this.talk.answers) if (!answer.isOver && answer.state !== "stalled") answer.tick();
  }

  /** The server is gone or back: redraws the runs in progress. */
  reached() {
    for (const answer of this.talk.answers) if (!answer.isOver) answer.drawDoing();
    this.composer.show();
  }

  build() {
    const { app, agent, user, own } = this;
    const whose = user === own ? null : h("span", { class: "soft small session-name", title: user }, "user ", h("bdi", null, user));
    fill(this.place, h("div", { class: "chat" }, this.sessions,
      h("section", { class: "talk", "aria-label": `Chat with ${app}` },
        h("header", { class: "talk-head" }, this.drawer, h("h1", { title: agent?.description }, app), this.name, whose,
          h("span", { class: "space" }), may("run:create") && h("a", { class: "button", href: this.link(null) }, "New session")),
        this.empty, this.log,
        h("div", { class: "bottom" }, this.ends.button, this.composer.element))));
  }

  link(/** @type {string | null} */ session) {
    const query = this.user === this.own ? "" : `?user=${part(this.user)}`;
    return session ? `#/chat/${part(this.app)}/${part(session)}?user=${part(this.user)}` : `#/chat/${part(this.app)}${query}`;
  }

  async open() {
    this.composer.restore();
    if (!may("run:create") || !this.agent) this.close();
    else if (!matchMedia("(pointer: coarse)").matches) this.composer.focus();
    this.listSessions();
    await this.talk.open();
    this.ends.ready();
    this.composer.isReady = true;
    this.changed();
  }

  /** Disables the input. */
  close() {
    this.composer.close(this.agent ? "Your key cannot start runs." : `The agent ${this.app} is no longer available.`);
  }

  /**
   * @param {string} text
   * @param {boolean} [isNext]
   */
  send(text, isNext) {
    this.talk.send(text, isNext);
    this.ends.toEnd();
  }

  /** The first prompt of a new session was sent: the address names the session from here on (invariant 1). */
  began(/** @type {string} */ session) {
    this.session = session;
    fill(this.name, session);
    history.replaceState(null, "", this.link(session));
  }

  changed() {
    const { talk, composer } = this;
    const press = talk.active?.press;
    composer.become(press?.isUnsent ? "unsent" : press?.next ?? "send");
    this.showEmpty();
    const accepted = talk.answers.filter(({ run }) => run.acceptedAt).length;
    if (accepted !== this.accepted) this.listSessions();
    this.accepted = accepted;
  }

  /** Focuses the input after a run has ended, or the run itself if the input is disabled. */
  settled(/** @type {import("./answer.js").Answer} */ answer) {
    if (this.talk.active) return;
    const { activeElement } = document;
    const isFree = activeElement === document.body || this.composer.element.contains(activeElement);
    if (isFree && this.composer.isClosed) answer.element.focus({ preventScroll: true });
    else if (isFree) this.composer.focus();
    this.composer.complain("");
  }

  /** Escape stops, unless something closer uses it (invariant 2). */
  key(/** @type {KeyboardEvent} */ event) {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
    const { activeElement } = document;
    // A field elsewhere may use Escape itself; a button or a link does not.
    if (!this.place.contains(activeElement) && activeElement?.matches("input, textarea, select")) return;
    if (this.sessions.dataset.open !== undefined) this.openDrawer();
    else if (!event.repeat && this.talk.active && may("run:cancel")) this.talk.press();
    else return;
    event.preventDefault();
  }

  /* The empty state. */

  showEmpty() {
    const isEmpty = this.talk.answers.length === 0;
    this.empty.hidden = !isEmpty;
    if (!isEmpty || this.empty.childNodes.length || !this.agent) return;
    const about = this.session
      ? h("p", null, `There is no session named ${this.session} yet. Your first prompt starts it.`)
      : h("p", null, this.agent.description ?? `Send a prompt to ${this.app}.`);
    const tries = (may("run:create") ? examples(this.agent) : []).map((text) => h("button", { type: "button", onclick: () => this.send(text) }, text));
    fill(this.empty, about, tries.length > 0 && h("div", { class: "examples" }, tries));
  }

  /* Earlier sessions. */

  openDrawer() {
    const isOpen = this.sessions.dataset.open !== undefined;
    if (isOpen) delete this.sessions.dataset.open;
    else this.sessions.dataset.open = "";
    this.drawer.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) this.drawer.focus();
    else {
      /** @type {HTMLElement | null} */
      const first = this.sessions.querySelector("a, button");
      first?.focus();
    }
  }

  async listSessions() {
    const { app, user, signal } = this;
    try {
      const { sessions } = await get("/v1/sessions", { query: { app, user, limit: 50 }, signal });
      const close = h("button", { type: "button", class: "plain close", onclick: () => this.openDrawer() }, "Close");
      const all = sessions.map((known) => this.sessionItem(known));
      fill(this.sessions, h("header", null, h("h2", null, "Sessions"), close),
        all.length ? h("ul", null, all) : h("p", { class: "soft small" }, "No sessions yet."),
        h("p", { class: "small" }, h("a", { href: "#/chat" }, "All agents")));
    } catch { /* The list is not essential: the conversation reports what is wrong. */ }
  }

  sessionItem(/** @type {Api.Session} */ { session, title, updated_at: updated, runs }) {
    const isThis = session === this.session;
    return h("li", null, h("a", { href: this.link(session), "aria-current": isThis ? "page" : null },
      h("bdi", null, title ?? session), h("span", { class: "soft small" }, `${lately(updated)} · ${several(runs, "run")}`)));
  }
}

/** Example prompts for an agent with the practice model, which works offline. */
function examples(/** @type {Api.App} */ { app, model }) {
  if (model !== "practice") return [];
  const others = app === "practice" ? ["Count slowly to 20", "Write a note: buy milk"] : ["Think first: what is an andon cord?"];
  return ["Tell me a long story", ...others];
}
