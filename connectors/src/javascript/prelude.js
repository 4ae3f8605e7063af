// Runs before a transformation: takes away what makes code out of text or waits, freezes everything that is there, so that nothing is
// remembered from record to record, and gives the two functions that weir itself calls.
(function () {
  'use strict';
  const refuse = function () {
    throw new TypeError('text is not run as code here');
  };
  const prototypes = [
    function () {}, function* () {}, async function () {}, async function* () {},
  ].map((kind) => Object.getPrototypeOf(kind));
  for (const prototype of prototypes) {
    Object.defineProperty(prototype, 'constructor', { value: refuse });
  }
  const call = Function.prototype.call;
  for (const name of ['eval', 'Function', 'Atomics', 'SharedArrayBuffer', 'queueMicrotask']) {
    delete globalThis[name];
  }

  const time = call.bind(Date.prototype.getTime);
  const from = Array.from.bind(Array);
  const isView = ArrayBuffer.isView;
  const Bytes = Uint8Array;
  const Buffer = ArrayBuffer;
  const { freeze, getPrototypeOf, getOwnPropertyDescriptor } = Object;
  const { ownKeys } = Reflect;
  const iterator = Symbol.iterator;

  const look = (value) => {
    if (value instanceof Date) return ['date', time(value)];
    if (isView(value)) return ['bytes', new Bytes(value.buffer, value.byteOffset, value.byteLength)];
    if (value instanceof Buffer) return ['bytes', new Bytes(value)];
    if (value instanceof Promise) return ['promise'];
    if (typeof value[iterator] === 'function') return ['list', from(value)];
    return undefined;
  };

  const seen = new Set();
  const close = (thing) => {
    if (thing === null || (typeof thing !== 'object' && typeof thing !== 'function') || seen.has(thing)) return;
    seen.add(thing);
    freeze(thing);
    close(getPrototypeOf(thing));
    for (const key of ownKeys(thing)) {
      const { value, get, set } = getOwnPropertyDescriptor(thing, key);
      close(value);
      close(get);
      close(set);
    }
  };
  // Reached by no name.
  for (const hidden of [
    [][iterator](), ''[iterator](), new Map()[iterator](), new Set()[iterator](), ''.matchAll(/x/g),
    (function* () {})(), (async function* () {})(), refuse,
  ]) {
    close(hidden);
  }
  prototypes.forEach(close);
  close(globalThis);
  return { look, freeze };
})()
