// A trace processor that stays: node tp.mjs ENGINE_DIRECTORY TRACE [TRACE ...]
//
// Prints {"ready":true} once the traces are loaded (or {"error":"..."} and ends), then answers one line per line:
// in {"sql":"..."}, out {"columns":[...],"rows":[[...]]} or {"error":"..."}; in {"memory":true}, out {"memory":BYTES}. Integers are written with all their
// digits, floats always with a point or an exponent, blobs as {"blob":"hex"}.

import readline from 'node:readline';
import { Engine } from './engine.mjs';

const [directory, ...files] = process.argv.slice(2);

function cell(value) {
  if (value === null || value === undefined) return 'null';
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) return 'null';
    const digits = String(value);
    return /[.e]/.test(digits) ? digits : `${digits}.0`;
  }
  if (typeof value === 'string') return JSON.stringify(value);
  return JSON.stringify({ blob: value.toString('hex') });
}

function say(line) {
  process.stdout.write(`${line}\n`);
}

function complain(error) {
  say(JSON.stringify({ error: String(error?.message ?? error) }));
}

let engine;
try {
  engine = await Engine.start(directory);
  await engine.load(files);
} catch (error) {
  complain(error);
  process.exit(1);
}
say('{"ready":true}');

for await (const line of readline.createInterface({ input: process.stdin })) {
  try {
    const question = JSON.parse(line);
    if (question.memory) {
      say(JSON.stringify({ memory: engine.residentBytes() }));
      continue;
    }
    const { columns, rows } = await engine.query(question.sql);
    const body = rows.map((row) => `[${row.map(cell).join(',')}]`).join(',');
    say(`{"columns":${JSON.stringify(columns)},"rows":[${body}]}`);
  } catch (error) {
    complain(error);
  }
}
process.exit(0);
