// Results of a standing query as they come, a bounded list of them, and the question why.

import {button, make} from "../explorer/dom.js";
import {follow} from "../explorer/query.js";
import {parse} from "../explorer/values.js";
import {doing, put} from "./parts.js";
import {why} from "./server.js";
import {answer, values} from "./why.js";

const KEPT_MAX = 200, SHOW_MILLIS = 250;
// A browser has six connections to a server; some are needed to look and to act.
const FOLLOWED_MAX = 3;
const followed = [];
// What comes faster than so many a second leaves the browser no time for anything else: of that a sample is shown.
const BURST_MAX = 500, BURST_MILLIS = 1000, REST_MILLIS = 2000;

export function resultsTab(name) {
  let stream = null, waiting = [], missed = 0, count = 0, timer = 0, rest = 0, gap = "", burst = {since: 0, count: 0};
  const list = make("ol", {className: "results", ariaLabel: "Results of " + name}), said = make("span", {className: "soft"}), state = make("span", {className: "soft"});
  const answered = make("section", {className: "answer", ariaLabel: "Why", hidden: true}), again = button("Follow", () => start(), {hidden: true});
  const held = () => list.matches(":hover") || Boolean(list.querySelector(":focus-visible"));

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
  const tell = () => put(said, count ? `${count.toLocaleString("en")} so far` + (waiting.length ? `; held while you look: ${(waiting.length + missed).toLocaleString("en")} more` : "") : "None has come yet.");
  list.addEventListener("pointerleave", showSoon);
  list.addEventListener("focusout", showSoon);

  // What is never shown is not read.
  function take({data}) {
    count++;
    const now = performance.now();
    if (now - burst.since > BURST_MILLIS) burst = {since: now, count: 0};
    if (++burst.count > BURST_MAX) pauseFor("They come too fast to show all: this is a sample.");
    waiting.push({text: data, at: Date.now()});
    if (waiting.length > 2 * KEPT_MAX) { waiting = waiting.slice(-KEPT_MAX); missed += KEPT_MAX + 1; }
    showSoon();
  }

  function row({text, at: millis}) {
    const {meta, data} = parse(text), at = new Date(millis), isMatch = meta.isPositiveMatch, ask = button("why", () => doing(ask, () => explain(ask, isMatch ? {resultId: meta.resultId} : {data, resultId: meta.resultId})), {className: "plain link", ariaLabel: isMatch ? "Why is this a result?" : "Why is this no result any more?"});
    return make("li", {className: isMatch ? "match" : "gone"}, make("b", {title: isMatch ? "a match" : "a cancellation"}, isMatch ? "+" : "−"), make("time", {dateTime: at.toISOString()}, at.toLocaleTimeString("en", {hour12: false})), values(data), ask);
  }

  async function explain(from, question) {
    for (const one of list.querySelectorAll(".asked")) one.classList.remove("asked");
    from.closest("li").classList.add("asked");
    answered.hidden = false;
    answered.replaceChildren(make("p", {className: "soft"}, "asking …"));
    const close = button("×", () => { answered.hidden = true; from.closest("li").classList.remove("asked"); }, {className: "plain", ariaLabel: "Close"});
    try {
      answered.replaceChildren(make("div", {className: "answer-head"}, make("h4", {}, "Why"), close), answer(await why(name, question)));
    } catch (error) {
      answered.replaceChildren(make("div", {className: "answer-head"}, make("h4", {}, "Why"), close), make("p", {className: "problem"}, error.message));
    }
  }

  function start() {
    stop();
    followed.push(stop);
    if (followed.length > FOLLOWED_MAX) followed[0](`No more are taken: ${FOLLOWED_MAX} other queries are followed.`);
    stream = follow(name);
    again.hidden = true;
    put(state, gap || "connecting …");
    stream.addEventListener("result", take);
    stream.addEventListener("cancellation", take);
    let isOpen = false;
    // Where what is missing is not kept any more, it goes on with what comes now.
    const anew = () => pauseFor("Some were missed: they came faster than they could be taken.");
    stream.addEventListener("gap", anew);
    stream.onopen = () => { isOpen = true; put(state, gap); gap = ""; tell(); };
    stream.onerror = () => {
      if (stream?.readyState !== EventSource.CLOSED) return put(state, "connecting …");
      if (isOpen) return anew();
      stop();
      put(state, "The results have ended.");
    };
  }
  // Goes on with what comes a little later.
  function pauseFor(reason) {
    stream.close();
    gap = reason;
    put(state, reason);
    clearTimeout(rest);
    rest = setTimeout(start, REST_MILLIS);
  }
  function stop(reason = "") {
    clearTimeout(rest);
    if (followed.includes(stop)) followed.splice(followed.indexOf(stop), 1);
    stream?.close();
    stream = null;
    again.hidden = false;
    put(state, reason);
  }

  return {
    element: make("div", {className: "live"}, make("div", {className: "live-head"}, said, state, again), make("div", {className: "columns uneven"}, list, answered)),
    opened: start, closed: stop,
  };
}
