// Runs Perfetto's trace processor (the WebAssembly build that ships with its UI) inside Node.
//
// The engine's bundle is written for a web worker. We evaluate it with the few globals that it looks for, give it
// one end of a message port, and exchange `TraceProcessorRpcStream` bytes: a sequence of messages in field 1.

import fs from 'node:fs';
import path from 'node:path';
import { field, Reader } from './wire.mjs';

const METHOD = { append: 1, finalize: 2, query: 3 };
const REQUEST = { sequence: 1, method: 2, appendData: 101, query: 103 };
const REPLY = { invalid: 4, fatal: 5, append: 201, query: 203, finalize: 212 };
const CELL = { null: 1n, int: 2n, float: 3n, text: 4n, blob: 5n };
const CHUNK_BYTES = 1 << 20; // as Perfetto's UI reads files

export class Engine {
  #port;
  #received = Buffer.alloc(0);
  #onReply = null;
  #sequence = 0;
  #memory = null;

  /** Starts the engine found in `directory`. */
  static async start(directory) {
    const engine = new Engine();
    engine.#port = { onmessage: null, postMessage: (data) => engine.#receive(data) };
    const scope = evaluateBundle(directory, (memory) => { engine.#memory = memory; });
    scope.onmessage({ data: engine.#port });
    while (!engine.#port.onmessage) await new Promise(setImmediate);
    // The module finishes its own start in later turns of the event loop; its first reply tells that it is up.
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
    return engine;
  }

  /** Loads trace files, one after the other as if they were concatenated. */
  async load(files) {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    for (const file of files) {
      const descriptor = fs.openSync(file, 'r');
      try {
        for (;;) {
          const length = fs.readSync(descriptor, chunk, 0, chunk.length);
          if (length === 0) break;
          const body = field(REQUEST.appendData, chunk.subarray(0, length));
          throwOnError('append', await this.#call(METHOD.append, body, REPLY.append));
        }
      } finally {
        fs.closeSync(descriptor);
      }
    }
    throwOnError('finalize', await this.#call(METHOD.finalize, Buffer.alloc(0), REPLY.finalize));
  }

  /** Bytes of the engine's memory that it has touched so far: it gives none back, so this is the most that it needed. */
  residentBytes() {
    // Of the mappings of this process, the engine's is the one of exactly its size.
    const kb = this.#memory.buffer.byteLength / 1024;
    const maps = fs.readFileSync('/proc/self/smaps', 'latin1').match(/^Size: [^]*?^Rss: .*$/gm);
    const numbers = maps.map((map) => map.match(/\d+(?= kB)/g).map(Number));
    const own = numbers.filter(([size]) => size === kb);
    if (own.length !== 1) throw new Error(`${own.length} mappings of ${kb} kB`);
    return own[0].at(-1) * 1024;
  }

  /** Answers `{columns, rows}`; cells are null, bigint, number, string or Buffer. */
  query(sql) {
    const result = { columns: [], rows: [] };
    let row = [];
    let error = '';
    const body = field(REQUEST.query, field(1, sql));
    return this.#exchange(METHOD.query, body, REPLY.query, (payload) => {
      let last = false;
      for (const [number, value] of new Reader(payload).fields()) {
        if (number === 1) result.columns.push(value.toString());
        else if (number === 2) error ||= value.toString();
        else if (number === 3) {
          last = decodeBatch(value, (cell) => {
            row.push(cell);
            if (row.length === result.columns.length) {
              result.rows.push(row);
              row = [];
            }
          }) || last;
        }
      }
      if (error) throw new Error(error);
      return last ? result : undefined;
    });
  }

  #call(method, body, reply) {
    return this.#exchange(method, body, reply, (payload) => payload);
  }

  /** Sends one request and feeds its replies to `step` until that returns a value. */
  #exchange(method, body, reply, step) {
    return new Promise((resolve, reject) => {
      this.#onReply = (message) => {
        try {
          for (const [number, value] of new Reader(message).fields()) {
            if (number === REPLY.fatal) throw new Error(value.toString());
            if (number === REPLY.invalid) throw new Error(`the engine refused request ${value}`);
            if (number !== reply) continue;
            const answer = step(value);
            if (answer !== undefined) resolve(answer);
          }
        } catch (error) {
          reject(error);
        }
      };
      const head = [field(REQUEST.sequence, this.#sequence++), field(REQUEST.method, method)];
      const bytes = field(1, Buffer.concat([...head, body]));
      try {
        this.#port.onmessage({ data: new Uint8Array(bytes) });
      } catch (error) {
        reject(error);
      }
    });
  }

  #receive(data) {
    this.#received = Buffer.concat([this.#received, Buffer.from(data)]);
    for (;;) {
      const reader = new Reader(this.#received);
      let message;
      try {
        if (reader.done) return;
        reader.varint();
        message = reader.take(Number(reader.varint()));
      } catch (error) {
        if (error instanceof RangeError) return; // the rest is still to come
        throw error;
      }
      this.#received = this.#received.subarray(reader.at);
      this.#onReply?.(message);
    }
  }
}

function throwOnError(what, reply) {
  for (const [, value] of new Reader(reply).fields()) {
    if (Buffer.isBuffer(value) && value.length > 0) throw new Error(`${what}: ${value}`);
  }
}

/** Calls `emit` for each cell; tells whether this was the last batch. */
function decodeBatch(batch, emit) {
  let kinds = [];
  let ints = null;
  let floats = null;
  let texts = [];
  const blobs = [];
  let last = false;
  for (const [number, value] of new Reader(batch).fields()) {
    if (number === 1) kinds = value;
    else if (number === 2) ints = new Reader(value);
    else if (number === 3) floats = value;
    else if (number === 4) blobs.push(value);
    else if (number === 5) texts = value.toString().split('\0');
    else if (number === 6) last = value !== 0n;
  }
  let float = 0;
  let text = 0;
  let blob = 0;
  for (const kind of kinds) {
    switch (BigInt(kind)) {
      case CELL.int: emit(ints.varint()); break;
      case CELL.float: emit(floats.readDoubleLE(8 * float++)); break;
      case CELL.text: emit(texts[text++]); break;
      case CELL.blob: emit(blobs[blob++]); break;
      default: emit(null);
    }
  }
  return last;
}

/**
 * Runs `engine_bundle.js` with the globals of a worker; returns the scope object it hung its handler on. `tellMemory` is called with the memory of the
 * engine's module when that is made.
 */
function evaluateBundle(directory, tellMemory) {
  const read = (url) => {
    const bytes = fs.readFileSync(path.join(directory, path.basename(String(url))));
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  };
  class SynchronousRequest {
    open(_method, url) { this.url = url; }
    send() { this.status = 200; this.response = read(this.url); }
  }
  class Instance extends WebAssembly.Instance {
    constructor(...words) {
      super(...words);
      const memory = Object.values(this.exports).find((one) => one instanceof WebAssembly.Memory);
      if (memory) tellMemory(memory);
    }
  }
  const globals = {
    WebAssembly: Object.create(WebAssembly, { Instance: { value: Instance } }),
    self: { location: { href: `file://${directory}/` } },
    process: undefined, // else the bundle takes Node for the host and looks for files itself
    WorkerGlobalScope: class {},
    XMLHttpRequest: SynchronousRequest,
    fetch: async (url) => ({ ok: true, arrayBuffer: async () => read(url) }),
    console: { ...console, log() {}, info() {}, debug() {}, warn() {} },
  };
  const source = fs.readFileSync(path.join(directory, 'engine_bundle.js'), 'utf8');
  new Function(...Object.keys(globals), source)(...Object.values(globals));
  return globals.self;
}
