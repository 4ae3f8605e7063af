// Results of a standing query as they come, a bounded list of them, and the question why.

import {button, make} from "../explorer/dom.js";
import {Following} from "../explorer/query.js";
import {parse} from "../explorer/values.js";
import {Missed, short} from "./figures.js";
import {doing, put} from "./parts.js";
import {why} from "./server.js";
import {answer, values} from "./why.js";

const KEPT_MAX = 200, SHOW_MILLIS = 250;
// A browser has six connections to a server, those of all its pages together; some are needed to look and to act.
const FOLLOWED_MAX = 2;
const followed = [];
// What comes faster than so many a second leaves the browser no time for anything else: of that a sample is shown.
const BURST_MAX = 500, BURST_MILLIS = 1000;

export function resultsTab(name) {
  // `left` is how many did not come here, which is told where it is a sample.
  let waiting = [], missed = 0, count = 0, timer = 0, gap = "", burst = {since: 0, count: 0}, isSample = false, left = 0, questions = 0;
  const others = new Missed();
  const list = make("ol", {className: "results", tabIndex: 0, ariaLabel: `Results of ${name}; arrows go from one to the next`}), said = make("span", {className: "soft"}), state = make("span", {className: "soft", role: "status"});
  const answered = make("section", {className: "answer", ariaLabel: "Why", ariaLive: "polite", hidden: true}), again = button("Follow", () => start(), {hidden: true});
  const held = () => list.matches(":hover, :focus-visible") || Boolean(list.querySelector(":focus-visible"));

  // While somebody points into the list nothing moves in it.
  function showSoon() {
    timer ||= setTimeout(() => { timer = 0; if (held() && list.childElementCount) tell(); else flush(); }, SHOW_MILLIS);
  }
  function flush() {
    list.prepend(...waiting.slice(-KEPT_MAX).toReversed().map(row));
    while (list.childElementCount > KEPT_MAX) list.lastChild.remove();
    waiting = [];
    missed = 0;
    tell();
  }
  const tell = () => put(said, count ? `${count.toLocaleString("en")} so far` + (isSample && left ? `, about ${short(left)} more left out` : "") + (waiting.length && held() ? `; held while you look: ${(waiting.length + missed).toLocaleString("en")} more` : "") : "None has come yet.");
  list.addEventListener("pointerleave", showSoon);
  list.addEventListener("focusout", showSoon);
  // One stop for the key Tab, however many there are.
  list.addEventListener("keydown", event => {
    const all = [...list.querySelectorAll("button.ask")], here = document.activeElement.closest("li"), at = all.findIndex(one => one.closest("li") === here), to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    (all[Math.min(to, all.length - 1)] || list).focus();
  });

  // What is never shown is not read.
  function take({data}) {
    count++;
    const now = performance.now();
    if (now - burst.since > BURST_MILLIS) burst = {since: now, count: 0};
    if (++burst.count > BURST_MAX) { following.skip(); skipped(`More than ${BURST_MAX} a second are too many to show: this is a sample.`); }
    waiting.push({text: data, at: Date.now()});
    if (waiting.length > 2 * KEPT_MAX) { waiting = waiting.slice(-KEPT_MAX); missed += KEPT_MAX + 1; }
    showSoon();
  }

  function row({text, at: millis}) {
    const {meta, data} = parse(text), at = new Date(millis), isMatch = meta.isPositiveMatch, ask = button("why", () => doing(ask, () => explain(ask, isMatch ? {resultId: meta.resultId} : {data, resultId: meta.resultId})), {className: "plain link ask", tabIndex: -1, ariaLabel: isMatch ? "Why is this a result?" : "Why is this no result any more?"});
    return make("li", {className: isMatch ? "match" : "gone"}, make("b", {title: isMatch ? "a match" : "a cancellation"}, isMatch ? "+" : "−"), make("time", {dateTime: at.toISOString()}, at.toLocaleTimeString("en", {hour12: false})), values(data, {tabIndex: -1}), ask);
  }

  // Of several answers that are waited for only the last is shown, and none that was closed.
  async function explain(from, question) {
    const mine = ++questions;
    for (const one of list.querySelectorAll(".asked")) one.classList.remove("asked");
    from.closest("li").classList.add("asked");
    answered.hidden = false;
    const close = button("×", () => { questions++; answered.hidden = true; from.closest("li").classList.remove("asked"); (from.isConnected ? from : list).focus(); }, {className: "plain", ariaLabel: "Close"});
    answered.onkeydown = event => { if (event.key === "Escape") close.click(); };
    const told = make("div", {}, make("p", {className: "soft"}, "asking …"));
    answered.replaceChildren(make("div", {className: "answer-head"}, make("h4", {}, "Why"), close), told);
    const content = await why(name, question).then(answer).catch(error => make("p", {className: "problem"}, error.message));
    if (mine === questions) told.replaceChildren(content);
  }

  const me = {stop}, following = new Following(name, {
    take,
    opens() { put(state, gap); gap = ""; tell(); },
    waits: text => put(state, gap || text),
    missed: skipped,
    ended: stop,
  });

  function start() {
    stop();
    followed.push(me);
    if (followed.length > FOLLOWED_MAX) followed[0].stop(`No more are taken: ${FOLLOWED_MAX} other queries are followed.`);
    if (document.activeElement === again) list.focus();
    again.hidden = true;
    try { following.start(); } catch (error) { stop(error.message); }
  }
  function skipped(reason) {
    gap = reason;
    isSample = true;
    put(state, reason);
  }
  function stop(reason = "") {
    following.stop();
    if (followed.includes(me)) followed.splice(followed.indexOf(me), 1);
    again.hidden = false;
    put(state, reason);
  }

  return {
    element: make("div", {className: "live"}, make("div", {className: "live-head"}, said, state, again), make("div", {className: "columns uneven"}, list, answered)),
    opened: start, closed: () => stop(),
    update({stats}) {
      // Until it is followed for the first time nothing is missed.
      if (!following.isOpen && !isSample) return;
      left = others.count(Number(stats.local?.rates?.count ?? 0), count);
      tell();
    },
  };
}
