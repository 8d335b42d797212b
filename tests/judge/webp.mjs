// A small picture for documents: node webp.mjs SOURCE.png|SOURCE.html PICTURE.webp
//
// Of a page, what its first screen shows (light). A browser makes the WebP.
// RSYS_JUDGE_DIR holds node_modules; CHROMIUM names the browser.

import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [source, picture] = process.argv.slice(2, 4).map((word) => path.resolve(word));
const { chromium } = createRequire(path.join(process.env.RSYS_JUDGE_DIR, 'index.js'))('playwright-core');

const WIDTH = 1400;
const HEIGHT = 1050;
const QUALITY = 0.8;

const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'rsys-webp-'));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium-headless-shell',
  headless: true,
  viewport: { width: WIDTH, height: HEIGHT },
  colorScheme: 'light',
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-dev-shm-usage', '--disable-background-networking'],
});
try {
  const page = await browser.newPage();
  let image = source;
  if (source.endsWith('.html')) {
    await page.goto(pathToFileURL(source).href);
    await page.waitForFunction(() => document.documentElement.dataset.ready === 'yes');
    image = path.join(profile, 'page.png');
    await page.screenshot({ path: image });
  }
  const encoded = `data:image/png;base64,${fs.readFileSync(image).toString('base64')}`;
  await page.goto('about:blank');
  const made = await page.evaluate(async ([encoded, width, quality]) => {
    const image = new Image();
    image.src = encoded;
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = width;
    canvas.height = Math.round(width * image.height / image.width);
    const context = canvas.getContext('2d');
    context.imageSmoothingQuality = 'high';
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL('image/webp', quality);
  }, [encoded, WIDTH, QUALITY]);
  fs.mkdirSync(path.dirname(picture), { recursive: true });
  fs.writeFileSync(picture, Buffer.from(made.split(',')[1], 'base64'));
} finally {
  await browser.close();
  fs.rmSync(profile, { recursive: true, force: true });
}
console.log(picture);
