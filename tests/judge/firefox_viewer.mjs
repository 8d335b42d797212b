// What the Firefox Profiler's own code makes of a profile: node firefox_viewer.mjs NODE_MODULES FILE
//
// Its command line loads a profile as the page does: it brings it up to date, works out all markers, and answers from what came of that. A process of its own
// keeps the profile meanwhile; it is ended before this one ends. Prints each thread with the weights of its samples and its markers by name.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const [modules, file] = process.argv.slice(2);
const cli = path.join(modules, '@firefox-devtools/profiler-cli/dist/profiler-cli.js');
// The path of a socket in it has 108 bytes at most.
const session = fs.mkdtempSync(path.join(os.tmpdir(), 'rsys-pq-'));
const env = { ...process.env, PROFILER_CLI_SESSION_DIR: session };
const run = (...words) => execFileSync('node', [cli, ...words], { env, encoding: 'utf8', maxBuffer: 1 << 28, timeout: 60_000, stdio: ['ignore', 'pipe', 'pipe'] });
const ask = (...words) => JSON.parse(run(...words, '--json'));

// On a busy machine the process that keeps the profile is slower to start than the command line waits.
const load = () => {
  try {
    run('load', file);
  } catch (error) {
    const deadline = Date.now() + 60_000;
    while (Date.now() < deadline) {
      try {
        return ask('profile', 'info', '--all');
      } catch {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
      }
    }
    throw error;
  }
  return ask('profile', 'info', '--all');
};

try {
  const info = load();
  const threads = info.processes.flatMap((one) => one.threads.map((thread) => ({ pid: one.pid, process: one.name, ...thread })));
  const found = threads.map(({ pid, process: of, name, tid, threadHandle }) => {
    const samples = ask('thread', 'samples', '--include-idle', '--thread', threadHandle);
    const markers = ask('thread', 'markers', '--thread', threadHandle);
    const byName = markers.byType.map(({ markerName, count, durationStats }) => [markerName, { count, ms: count * (durationStats?.avg ?? 0) }]);
    const functions = samples.topFunctionsByTotal.map(({ name: function_, totalSamples }) => [function_, totalSamples]);
    return {
      pid, process: of, name, tid,
      unit: samples.weightType,
      weight: samples.categoryBreakdown?.totalSamples ?? 0,
      functions: Object.fromEntries(functions),
      count: markers.totalMarkerCount,
      markers: Object.fromEntries(byName),
    };
  });
  console.log(JSON.stringify({ platform: info.platform, threads: found }));
} finally {
  // What went wrong before is told, not that there is nothing to stop.
  try { run('stop', '--all'); } catch {}
  fs.rmSync(session, { recursive: true, force: true });
}
