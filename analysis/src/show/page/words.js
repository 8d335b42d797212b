// Numbers with units as in the text form (analysis/src/show/quantity.rs), and elements.

const SCALES = {
  ns: [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], 'ns'],
  bytes: [[1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB'], 'B'],
  bandwidth: [[1e9, 'GB/s'], [1e6, 'MB/s'], [1e3, 'kB/s'], 'B/s'],
};

// A cell as it is shown.
function quantity(value, unit) {
  if (value === null) return '-';
  if (typeof value !== 'number') return value;
  if (unit === 'share') return `${(100 * value).toFixed(1)} %`;
  const scale = SCALES[unit];
  if (!scale) return Number.isInteger(value) ? String(value) : value.toFixed(3);
  const smallest = scale[scale.length - 1];
  const found = scale.slice(0, -1).find(([size]) => Math.abs(value) >= size);
  if (found) return `${(value / found[0]).toFixed(3)} ${found[1]}`;
  return Number.isInteger(value) ? `${value} ${smallest}` : `${value.toFixed(1)} ${smallest}`;
}

// A number at an axis: as short as can be.
function brief(value, unit) {
  if (value === 0) return '0';
  const trim = (number) => String(Number(number.toPrecision(4)));
  if (unit === 'share') return `${trim(100 * value)} %`;
  const scale = SCALES[unit];
  if (!scale) return trim(value);
  const found = scale.slice(0, -1).find(([size]) => Math.abs(value) >= size);
  return found ? `${trim(value / found[0])} ${found[1]}` : `${trim(value)} ${scale[scale.length - 1]}`;
}

const PLURALS = { memory: 'memories', process: 'processes' };

function counted(count, word) {
  return `${count.toLocaleString('en')} ${count === 1 ? word : PLURALS[word] ?? `${word}s`}`;
}

// An element with attributes and children. Texts are put in as texts, never as HTML.
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// The cells of a row of a table by key, and the tables below it.
function record(table, row) {
  const found = {};
  table.columns.forEach(([key], at) => { found[key] = row[at]; });
  found.below = row[table.columns.length] ?? [];
  return found;
}

function records(table) {
  return table ? table.rows.map((row) => record(table, row)) : [];
}

// A GPU, a process, or what else a row is about.
function owner(row) {
  const words = [];
  if (row.rank !== null && row.rank !== undefined) words.push(`rank ${row.rank}`);
  if (row.device !== undefined && row.device !== null) words.push(`GPU ${row.device}`);
  if (row.process_name) words.push(row.process_name);
  if (row.process !== undefined && row.process !== null) words.push(`process ${row.process}`);
  return words.join(' · ');
}
