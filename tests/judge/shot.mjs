// A look through the user's eyes: node shot.mjs WEB_DIRECTORY TRACE PICTURE.png [GROUP ...]
//
// Serves Perfetto's own pages on the loopback interface, opens the trace in a headless browser, waits until it is
// loaded, fails on any error that the page reports, opens the groups of tracks whose names begin so (without any: all), selects all
// time so that the flame graph shows, and takes a picture of a window of 1600 × 1200. PICTURE.txt lists all tracks; PICTURE.json says where
// on the page those stand that are not folded away, and where the part of the page that shows tracks ends.
// RSYS_JUDGE_DIR holds node_modules; CHROMIUM names the browser.

import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

const [web, trace, picture] = process.argv.slice(2, 5).map((word) => path.resolve(word));
const groups = process.argv.slice(5);
const { chromium } = createRequire(path.join(process.env.RSYS_JUDGE_DIR, 'index.js'))('playwright-core');

const LOAD_MS = 120_000;
const IDLE_MS = 20_000;
const TOTAL_MS = 300_000;
const TYPES = {
  '.css': 'text/css', '.html': 'text/html', '.js': 'text/javascript', '.json': 'application/json',
  '.png': 'image/png', '.wasm': 'application/wasm', '.woff2': 'font/woff2',
};

const server = http.createServer((request, response) => {
  const wanted = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
  const file = wanted === '/the-trace' ? trace : path.join(web, wanted === '/' ? 'index.html' : wanted);
  if (!fs.existsSync(file) || !fs.statSync(file).isFile()) {
    response.writeHead(404).end();
    return;
  }
  const type = TYPES[path.extname(file)] ?? 'application/octet-stream';
  response.writeHead(200, { 'content-type': type, 'content-length': fs.statSync(file).size });
  fs.createReadStream(file).pipe(response);
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const origin = `http://127.0.0.1:${server.address().port}`;

const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'rsys-shot-'));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium-headless-shell',
  headless: true,
  viewport: { width: 1600, height: 1200 },
  args: [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-dev-shm-usage',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
  ],
});

const complaints = [];
setTimeout(() => {
  console.error(`no picture after ${TOTAL_MS / 1000} s`);
  browser.close().finally(() => process.exit(1));
}, TOTAL_MS).unref();
try {
  const page = await browser.newPage();
  page.on('pageerror', (error) => complaints.push(`page error: ${error}`));
  await page.addInitScript(() => {
    localStorage.setItem('cookieAck', 'true');
    localStorage.setItem('dismissedPanningHint', 'true');
  });
  const query = `?testing=1&hideSidebar=true#!/?url=${encodeURIComponent(`${origin}/the-trace`)}`;
  await page.goto(`${origin}/${query}`);

  // Loaded, or an error dialog: whichever comes first.
  const dialog = page.locator('.modal-dialog, .pf-modal-dialog, .modal-confirm');
  await Promise.race([
    page.waitForFunction(() => window.app?.trace && !window.app.isLoadingTrace, null, { timeout: LOAD_MS }),
    dialog.first().waitFor({ state: 'visible', timeout: LOAD_MS }),
  ]);
  if (await dialog.first().isVisible()) throw new Error(`dialog: ${await dialog.first().innerText()}`);
  // Pages that are busy for ever, as one is now and then on a slow machine, are looked at as they are.
  const idle = () => Promise.race([
    page.evaluate(() => window.waitForPerfettoIdle(500)),
    new Promise((resolve) => setTimeout(resolve, IDLE_MS)),
  ]);
  await idle();

  const errors = await page.evaluate(async () => {
    const answer = await window.app.trace.engine.query(
      "select name || ': ' || value as line from stats where value > 0 and severity in ('error', 'data_loss')");
    const lines = [];
    for (const row = answer.iter({}); row.valid(); row.next()) lines.push(row.get('line'));
    return lines;
  });
  complaints.push(...errors.map((line) => `import: ${line}`));
  const badge = page.locator('.error-box, .pf-statusbar-error, [title*="errors occurred" i]');
  if (await badge.count() > 0) complaints.push(`the page shows an error badge: ${await badge.first().innerText()}`);

  // Open groups, then select all time, of the processes' samples if a glance is wanted: the flame graph shows below.
  await page.evaluate((groups) => {
    const app = window.app.trace;
    const workspace = app.currentWorkspace ?? app.workspaces.currentWorkspace; // its place depends on the version
    const tracks = workspace.flatTracks;
    const wanted = (node) => groups.length === 0 || groups.some((start) => node.name.startsWith(start));
    for (const node of tracks) if (node.hasChildren && wanted(node)) node.expand();
    const selected = tracks.filter((node) => groups.length === 0 || node.name === 'Process Callstacks');
    const trackUris = selected.map((node) => node.uri).filter((uri) => uri !== undefined);
    app.selection.selectArea({ start: app.traceInfo.start, end: app.traceInfo.end, trackUris });
  }, groups);
  await idle();
  // The tracks in the order in which they stand, a line each.
  const outline = await page.evaluate(() => {
    const app = window.app.trace;
    const workspace = app.currentWorkspace ?? app.workspaces.currentWorkspace;
    const lines = [];
    const list = (node, depth) => {
      lines.push('  '.repeat(depth) + node.name);
      node.children.forEach((child) => list(child, depth + 1));
    };
    workspace.children.forEach((child) => list(child, 0));
    return lines.join('\n') + '\n';
  });
  fs.writeFileSync(picture.replace(/\.png$/, '.txt'), outline);
  // The page may not have been idle yet: what is judged is waited for.
  const tab = page.getByText(/perf sample flamegraph/i);
  await tab.first().waitFor({ state: 'attached', timeout: LOAD_MS }).catch(() => {});
  if (await tab.count() === 0) complaints.push('no flame graph tab');
  else await tab.first().click();
  await idle();
  await page.waitForFunction(
    () => document.querySelector('canvas') && document.querySelector('.pf-track__header'), null, { timeout: LOAD_MS }).catch(() => {});
  const names = await page.evaluate(() => document.querySelectorAll('canvas').length);
  if (names === 0) complaints.push('nothing was drawn');
  await page.mouse.move(0, 0);
  const places = await page.evaluate(() => {
    const drawer = document.querySelector('.pf-split-panel__handle')?.getBoundingClientRect();
    const tracks = [...document.querySelectorAll('.pf-track__header')].map((header) => {
      const { top, bottom } = header.getBoundingClientRect();
      return { title: header.querySelector('.pf-track__title-popup')?.textContent ?? '', top, bottom };
    });
    return { fold: drawer?.top ?? window.innerHeight, tracks };
  });
  fs.writeFileSync(picture.replace(/\.png$/, '.json'), JSON.stringify(places));
  await page.screenshot({ path: picture });
} catch (error) {
  complaints.push(String(error?.message ?? error));
} finally {
  await browser.close();
  server.close();
  fs.rmSync(profile, { recursive: true, force: true });
}
for (const complaint of complaints) console.error(complaint);
if (complaints.length === 0) console.log(picture);
process.exit(complaints.length === 0 ? 0 : 1);
