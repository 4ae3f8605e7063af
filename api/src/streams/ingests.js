// The table of ingest streams, and what is told of one.

import {at, button, make, say} from "../explorer/dom.js";
import {write} from "../explorer/values.js";
import {newIngest} from "./create.js";
import {another} from "./definitions.js";
import {bytes, duration, perSecond, seconds, short} from "./figures.js";
import {full, streamKey, streamState} from "./flow.js";
import {asking, block, chip, doing, facts, finding, put, Rows, sparkline, spot, turning, unfolding} from "./parts.js";
import {createIngest, deleteIngest, pauseIngest, pushRecord, resumeIngest} from "./server.js";

const FAILED_SHOWN = 20;
const WORDS = {RUNNING: "running", PAUSED: "paused", RESTORED: "restored", COMPLETED: "completed", TERMINATED: "terminated", FAILED: "failed"};

// `acts`: look() looks at once, rate(key) and course(key) are of the meter.
export function ingestTable(acts) {
  const rows = new Rows(at("ingest-rows"), stream => row(stream, acts), at("new-ingest"));
  const create = initial => newIngest(async body => { const made = await createIngest(body); acts.look(); say(`The ${full("stream", body.name)} is there.`); return made; }, initial);
  acts.copyIngest = create;
  at("new-ingest").addEventListener("click", () => create());
  let all = [];
  const found = finding(at("find-ingest"), ({name, status, settings}) => [name, status, settings.source.type, settings.query].join(" "), () => rows.update(found.of(all)));
  return {
    open(name) { if (!rows.get(name)) found.all(); rows.get(name)?.open(); },
    update(streams, pressures) {
      const pressed = new Map(pressures.map(one => [one.name, one]));
      all = streams.map(stream => ({...stream, pressure: pressed.get(stream.name)}));
      rows.update(found.of(all));
      put(at("ingest-count"), streams.length ? String(streams.length) : "");
      at("ingest-table").hidden = !streams.length;
      at("no-ingest").hidden = streams.length > 0;
    },
  };
}

function row({name}, acts) {
  const kind = spot(), state = spot(), records = spot(), rate = spot(), failed = spot(), uptime = spot(), line = sparkline();
  const turn = turning(name, pauseIngest, resumeIngest, acts.look);
  const remove = asking("Delete", `Delete ${name}?`, async () => { await deleteIngest(name); await acts.look(); say(`The ${full("stream", name)} is gone.`); }, {ariaLabel: "Delete " + name});
  const cells = [["source", kind], ["", state], ["number", records], ["number rate", make("span", {}, line.element, rate)], ["number failed", failed], ["number uptime", uptime], ["acts", make("span", {}, turn.element, remove)]]
    .map(([className, content]) => make("td", {className}, content));
  const one = unfolding({name, cells, details: () => details(name, acts)});
  return {...one, update(stream) {
    const key = streamKey(name), flow = acts.rate(key), [flowing, why] = streamState(stream, stream.pressure, flow || 0), {stats, status} = stream;
    put(kind, stream.settings.source.type);
    chip(state, flowing, flowing === "flowing" || WORDS[status] !== "running" ? WORDS[status] : flowing, why);
    put(records, short(stats.ingestedCount));
    records.title = stats.ingestedCount.toLocaleString("en");
    put(rate, status === "RUNNING" ? perSecond(flow) : "–");
    line.update(acts.course(key));
    put(failed, stream.failedRecords ? short(stream.failedRecords.count) : "0");
    failed.parentElement.classList.toggle("wrong", Boolean(stream.failedRecords?.count));
    put(uptime, duration(Math.floor(seconds(stats.totalRuntime) || 0)));
    const paused = status === "PAUSED" || status === "RESTORED" || status === "FAILED";
    turn.update(paused, paused || status === "RUNNING");
    one.update(stream);
  }};
}

function details(name, acts) {
  let last = null;
  const message = make("p", {className: "problem", role: "status", hidden: true}), query = block("Query for each record"), settings = block("Configuration", "tall");
  const told = facts([["began", "since"], ["bytes", "bytes"], ["byteRate", "bytes a second, overall"], ["overall", "records a second, overall"], ["limit", "at most"], ["lag", "not read yet"]]);
  const failed = failedRecords(), push = pusher(name);
  const again = button("Make another like it", () => acts.copyIngest(another(last.settings)));
  return {
    element: make("div", {className: "told"}, message, told.element, make("div", {className: "columns"},
      make("section", {}, make("h4", {}, "Query"), query.element, failed.element, push.element),
      make("section", {}, make("h4", {}, "Configuration"), settings.element, make("div", {className: "buttons"}, again)))),
    update(stream) {
      last = stream;
      const {stats} = stream;
      message.hidden = !stream.message;
      message.classList.toggle("mild", stream.status === "RUNNING");
      put(message, stream.message || "");
      told.update({began: new Date(stats.startTime).toLocaleString(), bytes: bytes(stats.byteRates.count), byteRate: bytes(stats.byteRates.overall) + "/s", overall: perSecond(stats.rates.overall), limit: stream.settings.maxPerSecond && stream.settings.maxPerSecond.toLocaleString("en") + " records a second", lag: stats.lag?.toLocaleString("en")});
      query.put(stream.settings.query || "");
      settings.put(write(stream.settings, "  "));
      failed.update(stream.failedRecords);
      push.element.hidden = stream.settings.source.type !== "HttpPush";
    },
  };
}

// The first records that failed.
function failedRecords() {
  const body = make("tbody"), head = make("h4"), table = make("table", {}, make("thead", {}, make("tr", {}, ...["Record", "Why", "What it is"].map(text => make("th", {scope: "col"}, text)))), body);
  const element = make("div", {hidden: true}, head, make("div", {className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Failed records"}, table));
  let shown = -1;
  return {element, update(failed) {
    element.hidden = !failed?.count;
    if (!failed) return;
    const first = failed.first.slice(0, FAILED_SHOWN);
    put(head, `Failed records: ${failed.count.toLocaleString("en")}` + (failed.count > first.length ? `, the first ${first.length}` : ""));
    if (first.length === shown) return;
    shown = first.length;
    body.replaceChildren(...first.map(({number, reason, sample}) => make("tr", {}, make("td", {}, String(number)), make("td", {}, reason), make("td", {}, sample ?? ""))));
  }};
}

// Records that are handed in by hand, where a stream takes such.
function pusher(name) {
  const text = make("textarea", {rows: 3, spellcheck: false, ariaLabel: "Record", placeholder: '{"id": 1}'}), said = make("span", {role: "status"});
  const send = button("Hand it in", () => doing(send, async () => {
    put(said, "");
    const {records} = await pushRecord(name, text.value);
    put(said, records === 1 ? "One record is in." : `${records} records are in.`);
  }));
  return {element: make("div", {className: "push", hidden: true}, make("h4", {}, "Hand in a record"), text, make("div", {className: "buttons"}, send, said))};
}
