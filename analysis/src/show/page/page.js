// The page: its head, one section for each question that has an answer, and what the others lack.

const DATA = JSON.parse(document.getElementById('data').textContent);
const part = (parts, name) => parts.find((one) => one.name === name);
const plot = (name, key) => part(DATA.plots, name)?.tables.find((table) => table.key === key);
const answer = (name) => part(DATA.parts, name);
const ofGpu = (row) => row.group.includes('GPU') || row.name.startsWith('GPU ');

// In the order of the page: name of the part, heading, what the heading stands for, and the pictures in front of the tables.
const SECTIONS = [
  ['advice', 'What to look at first', '', () => [nothingFound(answer('advice'))]],
  ['overview', 'Over time', 'What went on when, from the first record to the last.',
    () => [busyOverTime(plot('courses', 'busy')), processorsOverTime(plot('courses', 'processors'))]],
  ['timeline', 'Time of GPUs', 'Computation, and what it did not hide: communication, copies, idleness. The four add up to the whole.',
    () => [timelineBars(tablesOf(answer('timeline')))]],
  ['gaps', 'Why GPUs were idle', 'Every idle nanosecond has one cause, and the line of code that kept the GPU waiting.',
    () => [gapBars(tablesOf(answer('gaps')))]],
  ['flame', 'Flame graphs', 'Call stacks, callers above what they call, as wide as their time.', () => [flames(part(DATA.plots, 'flame'))]],
  ['overlap', 'Iterations', 'What each step of each rank consisted of, and what was different in the slowest.',
    () => [iterationMap(answer('overlap')?.tables.find((table) => table.key === 'iteration_map'))]],
  ['collectives', 'Collectives', 'Which rank made the others wait, and what it did meanwhile.',
    () => [collectiveMap(answer('collectives')?.tables.find((table) => table.key === 'collective_map'))]],
  ['kernels', 'Kernels', '', () => [durations(plot('durations', 'kernel_durations'))]],
  ['efficiency', 'How well their time was used', 'What operators had to do, how fast that was, and what the GPU could have done. What has no figure says why.',
    () => [roofline(answer('efficiency'))]],
  ['launch', 'Who launched them', '', () => []],
  ['copies', 'Copies', '', () => []],
  ['calls', 'Calls of runtimes', '', () => []],
  ['functions', 'Functions and threads', '', () => []],
  ['locks', 'Locks', '', () => []],
  ['memory', 'Memory', '', () => [memoryOverTime(answer('memory')?.tables[0])]],
  ['sensors', 'Sensors of GPUs', '', () => [curves(plot('courses', 'curves'), ofGpu)]],
  ['counters', 'Counters', '', () => [curves(plot('courses', 'curves'), (row) => !ofGpu(row))]],
];

// Says so where no rule has found anything, and that others could not look.
function nothingFound(advice) {
  const rows = (key) => advice?.tables.find((table) => table.key === key)?.rows.length ?? 0;
  if (!advice || rows('findings')) return null;
  const lacking = rows('not_judged') ? ` ${counted(rows('not_judged'), 'rule')} lacked what they need: rsys-report advice says what that is.` : '';
  return make('p', {}, `No rule found anything.${lacking}`);
}

// What is worth a look: a list, with what was seen and what to try.
function findings(table) {
  const lines = table.columns.filter(([key, heading]) => heading && !['number', 'title', 'rule', 'saves_ns', 'saves_share'].includes(key));
  return make('ol', { class: 'findings' }, records(table).map((row) => {
    const saves = [['saves_ns', 'ns'], ['saves_share', 'share']].filter(([key]) => typeof row[key] === 'number').map(([key, unit]) => quantity(row[key], unit));
    const told = lines.filter(([key]) => row[key] !== null && row[key] !== '');
    return make('li', {}, make('b', {}, row.title ?? row.rule ?? ''), saves.length ? ` up to ${saves.join(', ')}` : '',
      told.map(([key, heading, unit]) => make('div', { class: 'soft' }, `${heading}: ${quantity(row[key], unit)}`)));
  }));
}

// Tables without headings are for programs alone. A title that is the section's stands there already.
function tables(found, above) {
  const isShown = (table) => table.rows.length && table.columns.some(([, heading]) => heading);
  return found.filter(isShown).flatMap((table) => {
    const heading = table.title && table.title !== above ? make('h3', {}, table.title) : null;
    return table.key === 'findings' ? [heading, findings(table)] : [heading, new TableView(table, table.key).element];
  });
}

function section(name, heading, about, pictures) {
  const found = answer(name);
  const content = [...pictures().filter(Boolean), ...tables(found ? tablesOf(found) : [], heading)].filter(Boolean);
  return content.length ? [about ? make('p', { class: 'soft' }, about) : null, ...content] : [];
}

// Light or dark as the system says, until the switch is used.
function theme() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const root = document.documentElement;
  const button = make('button', { type: 'button', class: 'push', id: 'theme' });
  const set = (isDark) => {
    root.dataset.theme = isDark ? 'dark' : 'light';
    button.textContent = isDark ? 'Light' : 'Dark';
    button.setAttribute('aria-label', `Show the page ${isDark ? 'light' : 'dark'}`);
  };
  let chosen = false;
  dark.addEventListener('change', () => { if (!chosen) set(dark.matches); });
  button.addEventListener('click', () => { chosen = true; set(root.dataset.theme !== 'dark'); });
  set(dark.matches);
  return button;
}

// What the run was: where and when, processes, GPUs, their times.
function about(run) {
  const words = [];
  if (run) {
    const host = run.hosts > 1 ? counted(run.hosts, 'host') : run.host;
    const ranks = run.ranks > 1 ? counted(run.ranks, 'rank') : '';
    const start = run.start_unix_ns === null ? '' : new Date(run.start_unix_ns / 1e6).toLocaleString('sv');
    const wall = run.wall_ns === null ? '' : quantity(run.wall_ns, 'ns');
    words.push(...[DATA.label, host, ranks, start, wall].filter(Boolean));
  }
  const processes = answer('functions')?.tables.find((table) => table.key === 'processes');
  if (processes?.count) {
    words.push(counted(processes.count, 'process'));
    words.push(`${quantity(records(processes).reduce((sum, row) => sum + row.cpu_ns, 0), 'ns')} of CPU time`);
  }
  const gpus = new Set(tablesOf(answer('timeline') ?? { tables: [] }).flatMap(records).map((row) => `${row.host} ${row.device}`));
  if (gpus.size) words.push(counted(gpus.size, 'GPU'));
  return words.join(' · ');
}

function start() {
  const [run] = records(plot('run', 'run'));
  const title = run?.command ?? DATA.label;
  if (run) document.title = `${title} · ${DATA.label}`;
  const shown = title.length > 200 ? `${title.slice(0, 199)}…` : title;
  document.getElementById('head').append(make('h1', { title }, shown), make('span', { class: 'soft' }, about(run)), theme());
  const main = document.getElementById('main');
  main.replaceChildren();
  if (DATA.notes.length) {
    main.append(make('details', { class: 'notes', id: 'notes' }, make('summary', {}, counted(DATA.notes.length, 'note')),
      make('ul', {}, DATA.notes.map((note) => make('li', {}, note)))));
  }
  const known = SECTIONS.map(([name]) => name);
  const others = DATA.parts.filter((one) => !known.includes(one.name)).map((one) => [one.name, one.name || 'Answer', '', () => []]);
  const links = make('ul');
  document.getElementById('nav').append(links);
  const todo = [...SECTIONS, ...others];
  // Section by section, so that the first is there before the last is drawn.
  const next = () => {
    const [name, heading, words, pictures] = todo.shift();
    const content = section(name, heading, words, pictures);
    if (content.length) {
      links.append(make('li', {}, make('a', { href: `#${name}` }, heading)));
      main.append(make('section', { id: name, 'aria-labelledby': `${name}-heading` }, make('h2', { id: `${name}-heading` }, heading),
        content.filter(Boolean)));
    }
    if (todo.length) {
      setTimeout(next);
      return;
    }
    for (const cost of records(DATA.cost)) document.getElementById('foot').append(make('p', { id: 'cost' }, `Profiling itself cost: ${cost.text}`));
    document.getElementById('foot').append(`Made by rsys-report ${DATA.version}. The same numbers, all rows: rsys-report --json.`);
    document.documentElement.dataset.ready = 'yes';
  };
  next();
}

start();
