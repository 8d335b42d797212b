// A page of `rsys-report html` in a reader's hands: node page.mjs PAGE.html ANSWER.json PICTURE
//
// Opens the file in a headless browser and fails on any error that the page reports, on any request but for the file, on text that is
// hard to read in one of both themes, on numbers that are not those of ANSWER.json (`rsys-report --json`), and on tables and flame graphs that do
// not do what mouse and keys ask for. Takes PICTURE.light.png and PICTURE.dark.png, and prints what was there as JSON.
// RSYS_JUDGE_DIR holds node_modules; CHROMIUM names the browser.

import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [file, answerFile, picture] = process.argv.slice(2, 5).map((word) => path.resolve(word));
const { chromium } = createRequire(path.join(process.env.RSYS_JUDGE_DIR, 'index.js'))('playwright-core');
const answer = JSON.parse(fs.readFileSync(answerFile, 'utf8'));

const CONTRAST_MIN = 4.5;
const ROWS_MAX = 1000;
const DRAWN_AT_FIRST = 12;
const SIZES = {
  ns: 1, 'µs': 1e3, ms: 1e6, s: 1e9, B: 1, kB: 1e3, MB: 1e6, GB: 1e9, 'B/s': 1, 'kB/s': 1e3, 'MB/s': 1e6, 'GB/s': 1e9, '%': 0.01, '': 1,
};

const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'rsys-page-'));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium-headless-shell',
  headless: true,
  viewport: { width: 1440, height: 1000 },
  colorScheme: 'light',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-dev-shm-usage',
    '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
// On a busy machine all takes longer; who waits for ever is ended below.
browser.setDefaultTimeout(300_000);
const complaints = [];
const seen = { tables: [], plots: [], flames: {}, maps: {}, compared: 0 };
const must = (holds, what) => { if (!holds) complaints.push(what); };

// What stands in a table: the key of each column, and the text of each cell.
const read = (table) => table.evaluate((element) => ({
  keys: [...element.querySelectorAll(':scope > .scroll > table > thead th')].map((head) => head.dataset.key),
  sorts: [...element.querySelectorAll(':scope > .scroll > table > thead th')].map((head) => head.getAttribute('aria-sort')),
  rows: [...element.querySelectorAll(':scope > .scroll > table > tbody > tr:not(.below)')]
    .map((row) => [...row.querySelectorAll(':scope > td:not(.open)')].map((cell) => cell.textContent)),
}));

// `1.500 ms` as a number; NaN for what is none.
function number(text) {
  const [, digits, unit] = /^(-?[\d.]+)(?: (\S+))?$/.exec(text) ?? [];
  return digits === undefined ? NaN : Number(digits) * (SIZES[unit ?? ''] ?? NaN);
}

const isShown = (text, value) => {
  if (value === null || value === undefined) return text === '-';
  if (typeof value !== 'number') return text === value;
  // Three digits behind the point, one of what is below the smallest unit.
  return Math.abs(number(text) - value) <= Math.max(0.0006 * Math.abs(value), / (ns|B|B\/s)$/.test(text) ? 0.05 : 0.0006);
};
const inner = (row, key) => key.split('.').reduce((value, one) => value?.[one], row);

// Every cell of the table against the answer.
async function compare(table, rows, name) {
  const more = table.getByRole('button', { name: 'Show all' }).first();
  if (await more.isVisible()) await more.click();
  const shown = await read(table);
  must(shown.rows.length === Math.min(rows.length, ROWS_MAX), `${name}: ${shown.rows.length} rows of ${rows.length}`);
  const beyond = `${(rows.length - ROWS_MAX).toLocaleString('en')} more are not on this page`;
  must(rows.length <= ROWS_MAX || (await table.textContent()).includes(beyond), `${name}: no word on ${beyond}`);
  shown.rows.forEach((cells, row) => cells.forEach((text, column) => {
    const value = inner(rows[row] ?? {}, shown.keys[column]);
    must(isShown(text, value), `${name}, row ${row}, ${shown.keys[column]}: ${text} is not ${value}`);
    seen.compared += 1;
  }));
}

// Sorts by the mouse and by keys, and filters.
async function use(table, key, name) {
  const heading = table.locator(`th[data-key="${key}"] button`).first();
  const column = async () => {
    const { keys, sorts, rows } = await read(table);
    const at = keys.indexOf(key);
    return { sort: sorts[at], values: rows.map((cells) => number(cells[at])).filter((value) => !Number.isNaN(value)) };
  };
  const isSorted = (values, sign) => values.every((value, at) => at === 0 || sign * (value - values[at - 1]) >= 0);
  await heading.click();
  const down = await column();
  must(down.sort === 'descending' && isSorted(down.values, -1), `${name}: a click on ${key} does not sort: ${JSON.stringify(down)}`);
  await heading.focus();
  await browser.pages().at(-1).keyboard.press('Enter');
  const up = await column();
  must(up.sort === 'ascending' && isSorted(up.values, 1), `${name}: Enter on ${key} does not sort: ${JSON.stringify(up)}`);
  must(up.values.length > 1 && up.values[0] < up.values.at(-1), `${name}: nothing to sort by ${key}`);
  must(await heading.evaluate((element) => element === document.activeElement), `${name}: the focus is lost when it is sorted`);
  const before = (await read(table)).rows;
  const word = before[0].find((text) => text.length > 2 && Number.isNaN(number(text))) ?? before[0][0];
  await table.getByRole('searchbox').first().fill(word);
  const after = (await read(table)).rows;
  must(after.length > 0 && after.length < before.length, `${name}: ${word} leaves ${after.length} of ${before.length} rows`);
  must(after.every((row) => row.some((text) => text.toLowerCase().includes(word.toLowerCase()))), `${name}: rows without ${word}`);
  await table.getByRole('searchbox').first().fill('');
}

async function flame(page, panel, title) {
  const graph = panel.locator('.flame svg');
  const boxes = graph.locator('g');
  const width = () => graph.evaluate((svg) => svg.getBoundingClientRect().width);
  const focused = () => page.evaluate(() => document.activeElement.getAttribute('aria-label'));
  // It is drawn when its width is known.
  await boxes.first().waitFor();
  must(await boxes.count() > 2, `${title}: no flame graph`);
  // A frame that is not as wide as the graph.
  const narrow = await boxes.evaluateAll((all) => all.findIndex((box) => {
    const { width } = box.getBoundingClientRect();
    return width > 8 && width < 0.9 * box.ownerSVGElement.getBoundingClientRect().width;
  }));
  if (narrow >= 0) {
    const label = await boxes.nth(narrow).getAttribute('aria-label');
    const before = await boxes.nth(narrow).locator('rect').evaluate((rect) => rect.getBoundingClientRect().width);
    await boxes.nth(narrow).locator('rect').click();
    const now = graph.locator('g[tabindex="0"]');
    must(await now.getAttribute('aria-label') === label, `${title}: another frame than ${label} was zoomed`);
    const after = await now.locator('rect').evaluate((rect) => rect.getBoundingClientRect().width);
    must(after > before && after > 0.98 * await width(), `${title}: ${label} is ${after} wide`);
    await panel.getByRole('button', { name: 'Whole graph' }).click();
  }
  // By keys: down into what took most time, wide, and out again.
  await graph.locator('g[tabindex="0"]').focus();
  const start = await focused();
  await page.keyboard.press('ArrowDown');
  const below = await focused();
  must(below !== start, `${title}: the keys do not move`);
  must((await panel.locator('.detail').textContent()).startsWith(below.split(', ')[0]), `${title}: no words on ${below}`);
  await page.keyboard.press('Enter');
  must(await focused() === below, `${title}: the focus is lost in zooming`);
  must(!await panel.getByRole('button', { name: 'Whole graph' }).isDisabled(), `${title}: Enter does not zoom`);
  await page.keyboard.press('Escape');
  must(await panel.getByRole('button', { name: 'Whole graph' }).isDisabled(), `${title}: Escape does not lead out`);
  await page.keyboard.press('/');
  await page.keyboard.type(below.split(', ')[0].slice(0, 3).replace(/[^\w]/g, '.'));
  must(await graph.locator('g.is-found').count() > 0, `${title}: the search finds nothing`);
  must(/ frames?, .* %/.test(await panel.locator('[role=status]').first().textContent()), `${title}: the search tells no time`);
  await panel.getByRole('searchbox').fill('(');
  must(/not a regular expression/.test(await panel.textContent()), `${title}: a bad expression goes without a word`);
  await panel.getByRole('searchbox').fill('');
  return boxes.count();
}

// Texts whose colour is too near to what is behind them.
const unreadable = (page) => page.evaluate((least) => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const light = ([red, green, blue]) => [red, green, blue].map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    const box = element.previousElementSibling;
    if (element.matches('svg text') && box?.matches('rect')) return rgba(getComputedStyle(box).fill);
    for (let at = element; at; at = at.parentElement) {
      const found = rgba(getComputedStyle(at).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255, 255];
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest('script, noscript') || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const ink = rgba(element.matches('svg text') ? style.fill : style.color);
    const [one, other] = [light(ink), light(behind(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < least) found.add(`${node.data.trim().slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  return [...found].slice(0, 10);
}, CONTRAST_MIN);

async function open(address) {
  const page = await browser.newPage();
  page.on('pageerror', (error) => complaints.push(`page error: ${error}`));
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) complaints.push(`console: ${message.text()}`); });
  page.on('request', (request) => {
    if (request.url().split('#')[0] !== address && !request.url().startsWith('data:')) complaints.push(`request: ${request.url()}`);
  });
  await page.goto(address);
  await page.waitForFunction(() => document.documentElement.dataset.ready === 'yes');
  return page;
}

// The page with an answer that was not asked for, as another version may make it.
async function withFindings(html) {
  const [before, rest] = html.split(/(?<=<script type="application\/json" id="data">)/);
  const end = rest.indexOf('</script>');
  const data = JSON.parse(rest.slice(0, end));
  const columns = [['number', '#', ''], ['title', 'finding', ''], ['saves_ns', 'up to', 'ns'], ['place', 'where', '']];
  const evil = '<img src=x onerror=alert(1)>';
  data.parts.unshift(
    { name: 'advice', tables: [{ key: 'findings', title: '', detail: false, columns, rows: [[1, evil, 2.5e9, 'train.py:12']], count: 1 }] },
    { name: 'novelty', tables: [{ key: 'new', title: 'New', detail: false, columns: [['x', 'x', '']], rows: [[1]], count: 1 }] });
  const changed = path.join(profile, 'changed.html');
  fs.writeFileSync(changed, before + JSON.stringify(data).replaceAll('<', '\\u003c') + rest.slice(end));
  const page = await open(pathToFileURL(changed).href);
  const told = await page.locator('main section').first().textContent();
  must(told.startsWith('What to look at first') && told.includes(`${evil} up to 2.500 s`) && told.includes('where: train.py:12'), `findings: ${told}`);
  must(await page.locator('#novelty [data-table=new] tbody tr').count() === 1, 'an unknown answer has no section');
  await page.close();
}

// Of many GPUs the first are drawn, and all in a map; a button draws the others, and takes them away again.
async function manyGpus(page, count) {
  const [map, busy, bars] = ['[data-plot=idle_map]', '[data-plot=busy]', '[data-plot=timeline]'].map((plot) => page.locator(plot));
  const isMany = count > DRAWN_AT_FIRST;
  must(await map.count() === (isMany ? 1 : 0), `${count} GPUs, ${await map.count()} maps of idleness`);
  if (!isMany) return;
  const courses = busy.locator('figure:not([data-plot=idle_map] figure)');
  const names = bars.locator('.lanes > .name');
  must(await courses.count() === DRAWN_AT_FIRST, `${await courses.count()} courses at first`);
  // In front of the bars of GPUs is their sum.
  must(await names.count() === DRAWN_AT_FIRST + 1 && await names.first().textContent() === `all ${count} GPUs`, 'bars at first');
  for (const [plot, drawn, extra] of [[busy, courses, 0], [bars, names, 1]]) {
    await plot.getByRole('button', { name: `Show all ${count} GPUs` }).click();
    must(await drawn.count() === count + extra, `${await drawn.count()} of ${count} GPUs are drawn`);
    await plot.getByRole('button', { name: 'Show fewer' }).click();
    must(await drawn.count() === DRAWN_AT_FIRST + extra, 'the button does not take them away');
  }
  const slider = map.locator('[role=slider]');
  await slider.focus();
  await slider.press('Home');
  seen.idlest = [];
  for (let place = 0; place < 300; place += 1) {
    seen.idlest.push(await map.locator('output').first().textContent());
    if (Number(await slider.getAttribute('aria-valuenow')) >= 100) break;
    await slider.press('ArrowRight');
  }
  must(await map.locator('svg path').count() > 1, 'a map of idleness without shades');
}

// What a map of ranks tells at each of its places, which the keys go through; it has something drawn in it.
async function mapTells(map) {
  must((await map.locator('svg rect').count()) > 0, 'a map of ranks without anything in it');
  const slider = map.locator('[role=slider]');
  await slider.focus();
  await slider.press('Home');
  const told = [];
  for (let place = 0; place < 200; place += 1) {
    told.push(await map.locator('output').first().textContent());
    if (Number(await slider.getAttribute('aria-valuenow')) >= 100) break;
    await slider.press('ArrowRight');
  }
  return [...new Set(told)];
}

setTimeout(() => {
  console.error('no end after 300 s');
  browser.close().finally(() => process.exit(1));
}, 300_000).unref();
try {
  const page = await open(pathToFileURL(file).href);
  seen.firstPaintMs = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null);
  seen.tables = await page.locator('[data-table]').evaluateAll((all) => all.map((table) => table.dataset.table));
  seen.plots = await page.locator('[data-plot]').evaluateAll((all) => all.map((plot) => plot.dataset.plot));
  seen.roofs = await page.locator('[data-plot=roofline] path').count();
  must(await page.evaluate(() => !document.getElementById('main').textContent.includes('[object ')), 'an element is shown as text');
  must(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), 'the page is wider than the window');
  await page.screenshot({ path: `${picture}.light.png`, fullPage: true });

  for (const title of await page.getByRole('tab').allTextContents()) {
    await page.getByRole('tab', { name: title, exact: true }).click();
    seen.flames[title] = await flame(page, page.getByRole('tabpanel'), title);
  }
  complaints.push(...(await unreadable(page)).map((text) => `light: ${text}`));
  await page.locator('#theme').focus();
  await page.keyboard.press('Enter');
  must(await page.evaluate(() => getComputedStyle(document.body).backgroundColor) === 'rgb(16, 21, 27)', 'the switch does not make it dark');
  await page.screenshot({ path: `${picture}.dark.png`, fullPage: true });
  complaints.push(...(await unreadable(page)).map((text) => `dark: ${text}`));

  const found = (part, key) => page.locator(`#${part} [data-table=${key}]`);
  for (const [part, key] of [
    ['functions', 'functions'], ['functions', 'threads'], ['functions', 'processes'], ['functions', 'waits'], ['kernels', 'kernels'], ['calls', 'calls'],
    ['copies', 'copies'], ['memory', 'memory'], ['sensors', 'sensors'],
  ]) {
    const table = found(part, key);
    const rows = answer[part]?.[key] ?? [];
    must((await table.count() > 0) === rows.length > 0, `${key}: ${rows.length} rows, ${await table.count()} tables`);
    if (rows.length) await compare(table, rows, key);
  }
  const causes = (answer.gaps?.runs?.[0]?.devices ?? []).flatMap((device) => device.causes.map((cause) => ({ ...device, ...cause })));
  if (causes.length) await compare(found('gaps', 'devices'), causes.map((cause) => ({ ...cause })), 'causes');
  const devices = answer.timeline?.runs?.[0]?.devices ?? [];
  if (devices.length) await compare(found('timeline', 'devices'), devices, 'timeline');
  const totals = new Set((answer.functions?.functions ?? []).map((row) => row.total_ns));
  if (totals.size > 1) await use(found('functions', 'functions'), 'total_ns', 'functions');

  const cost = await page.locator('#cost').textContent();
  must(cost === `Profiling itself cost: ${answer.profiling_cost?.[0]?.text}`, `cost: ${cost}`);

  // A picture tells what is under the arrow keys.
  await page.locator('[data-plot] [role=slider]').first().focus();
  await page.keyboard.press('ArrowRight');
  must(/^at /.test(await page.locator('[data-plot] figure output').first().textContent()), 'the keys find nothing in a picture');
  await manyGpus(page, devices.length);
  for (const kind of ['iterations', 'collectives']) {
    const map = page.locator(`[data-plot=${kind}]`);
    if (await map.count()) seen.maps[kind] = await mapTells(map);
  }
  await withFindings(fs.readFileSync(file, 'utf8'));
} catch (error) {
  complaints.push(String(error?.stack ?? error));
} finally {
  await browser.close();
  fs.rmSync(profile, { recursive: true, force: true });
}
for (const complaint of complaints.slice(0, 40)) console.error(complaint);
console.log(JSON.stringify(seen));
process.exit(complaints.length === 0 ? 0 : 1);
