// What speedscope's own importer makes of files: node speedscope.mjs NODE_MODULES FILE [FILE ...]
//
// The importer is in the bundle of its web page, which is run up to where it would draw. Prints for each file its profiles with their name,
// unit and weights.

import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [modules, ...files] = process.argv.slice(2);
const folder = path.join(modules, 'speedscope/dist/release');
const bundle = fs.readdirSync(folder).find((name) => /^speedscope-.*\.js$/.test(name));
const source = fs.readFileSync(path.join(folder, bundle), 'utf8');
const importer = source.match(/(\w+)=Promise\.resolve\(\)\.then\(\(\)=>\(\w+\(\),\w+\)\)/)?.[1];
const end = source.lastIndexOf('console.log(`speedscope v');
if (!importer || end < 0) throw new Error('this version of speedscope is built differently');

const said = [];
const page = vm.createContext({
  TextDecoder,
  TextEncoder,
  setTimeout,
  console: { ...console, log() {}, warn: (...words) => said.push(words.join(' ')), error: (...words) => said.push(words.join(' ')) },
});
vm.runInContext(
  `var window = globalThis, self = globalThis, location = { hash: '' }, navigator = { userAgent: '' };
   var addEventListener = () => {}, document = { currentScript: null, createElement: () => ({}), addEventListener };`,
  page,
);
const script = `${source.slice(0, end)}globalThis.importer=${importer};return;${source.slice(end)}`;
new vm.Script(script, { filename: bundle }).runInContext(page);
const { importProfilesFromArrayBuffer } = await page.importer;

const found = [];
for (const file of files) {
  page.bytes = fs.readFileSync(file);
  const buffer = vm.runInContext('Uint8Array.from(bytes).buffer', page);
  const group = await importProfilesFromArrayBuffer(path.basename(file), buffer);
  const profiles = group?.profiles.map((profile) => {
    const frames = {};
    profile.forEachFrame((frame) => (frames[frame.name] = (frames[frame.name] ?? 0) + frame.getSelfWeight()));
    return { name: profile.getName(), unit: profile.getWeightUnit(), total: profile.getTotalWeight(), busy: profile.getTotalNonIdleWeight(), frames };
  });
  found.push(profiles ?? null);
}
console.log(JSON.stringify({ found, said }));
