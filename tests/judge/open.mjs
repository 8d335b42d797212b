// Opens an address of Perfetto's page in a headless browser as a user would: node open.mjs ADDRESS QUERY
//
// Waits until a trace is loaded there, fails on any error that the page reports, and prints the first column of the answer to the query; on
// standard error, the tracks that are unfolded.
// RSYS_JUDGE_DIR holds node_modules; CHROMIUM names the browser.

import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

const [address, query] = process.argv.slice(2);
const { chromium } = createRequire(path.join(process.env.RSYS_JUDGE_DIR, 'index.js'))('playwright-core');
const LOAD_MS = 120_000;

const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'rsys-open-'));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium-headless-shell',
  headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-dev-shm-usage',
    '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
const complaints = [];
try {
  const page = await browser.newPage();
  page.on('pageerror', (error) => complaints.push(`page error: ${error}`));
  await page.addInitScript(() => localStorage.setItem('cookieAck', 'true'));
  // What makes the page's insides visible stands in front of the fragment.
  await page.goto(address.replace('#', '?testing=1#'));
  const dialog = page.locator('.modal-dialog, .pf-modal-dialog, .modal-confirm');
  await Promise.race([
    page.waitForFunction(() => window.app?.trace && !window.app.isLoadingTrace, null, { timeout: LOAD_MS }),
    dialog.first().waitFor({ state: 'visible', timeout: LOAD_MS }),
  ]);
  if (await dialog.first().isVisible()) throw new Error(`dialog: ${await dialog.first().innerText()}`);
  const lines = await page.evaluate(async (query) => {
    const answer = await window.app.trace.engine.query(query);
    const lines = [];
    for (const row = answer.iter({}); row.valid(); row.next()) lines.push(`${row.get(answer.columns()[0])}`);
    return lines;
  }, query);
  console.log(lines.join('\n'));
  const open = await page.evaluate(async () => {
    await window.waitForPerfettoIdle(500);
    return window.app.trace.workspaces.currentWorkspace.flatTracks
      .filter((track) => track.expanded && track.children.length > 0).map((track) => track.name);
  });
  console.error(`unfolded: ${open.join(', ')}`);
} catch (error) {
  complaints.push(String(error?.message ?? error));
} finally {
  await browser.close();
  fs.rmSync(profile, { recursive: true, force: true });
}
for (const complaint of complaints) console.error(complaint);
process.exit(complaints.length === 0 ? 0 : 1);
