// Pictures over time and of shares. Shapes are stretched to the width that there is; texts stand beside them in HTML.

const COLOURS = 11;
const colour = (number) => `var(--c${number % COLOURS})`;

function legend(names, style = colour) {
  return make('ul', { class: 'legend' }, names.map((name, at) => make('li', {}, make('i', { style: { background: style(at) } }), name)));
}

// So many of a kind are drawn at first; a button draws the others.
const DRAWN_AT_FIRST = 12;

// What is drawn of each row, in a box: of many rows the first, until all are asked for.
function few(box, rows, drawn, noun) {
  let isWhole = rows.length <= DRAWN_AT_FIRST;
  const show = () => box.replaceChildren(...(isWhole ? rows : rows.slice(0, DRAWN_AT_FIRST)).flatMap(drawn));
  show();
  if (isWhole) return [box];
  const button = make('button', { type: 'button', 'aria-expanded': 'false' }, `Show all ${counted(rows.length, noun)}`);
  button.addEventListener('click', () => {
    isWhole = !isWhole;
    show();
    button.textContent = isWhole ? 'Show fewer' : `Show all ${counted(rows.length, noun)}`;
    button.setAttribute('aria-expanded', String(isWhole));
  });
  return [box, button];
}

// Shares of a whole, one bar for each row: [{ name, whole, parts: [{ name, value, colour }] }]. Many rows have their sum in front, without those that are
// sums of others themselves; `left` more are not on the page.
function stacks(rows, unit, noun, left) {
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const own = rows.filter(({ isSum }) => !isSum);
  const all = own.length <= DRAWN_AT_FIRST ? [] : [{
    name: left ? `the first ${own.length} of ${counted(own.length + left, noun)}` : `all ${counted(own.length, noun)}`,
    whole: sum(own.map(({ whole }) => whole)),
    parts: own[0].parts.map((part, at) => ({ ...part, value: sum(own.map(({ parts }) => parts[at].value)) })),
  }];
  const bar = ({ name, whole, parts }) => {
    const shown = parts.filter((part) => part.value > 0);
    const words = (part) => `${part.name}: ${quantity(part.value, unit)}, ${quantity(part.value / whole, 'share')}`;
    return [
      make('div', { class: 'name' }, name),
      make('div', { class: 'stack', role: 'img', 'aria-label': `${name}: ${shown.map(words).join('; ')}` },
        shown.map((part) => make('span', { title: words(part), style: { flex: `${part.value} 0 0`, background: part.colour } }))),
    ];
  };
  return [all.length ? make('div', { class: 'lanes' }, all.flatMap(bar)) : null, ...few(make('div', { class: 'lanes' }), rows, bar, noun)];
}

// The outline of values that hold each for a width of 1, above another outline: a path.
function steps(tops, floors) {
  let up = '';
  let down = '';
  tops.forEach((top, at) => {
    up += `V${top.toFixed(4)}H${at + 1}`;
    down = `V${floors[at].toFixed(4)}H${at}${down}`;
  });
  return `M0 ${floors[0].toFixed(4)}${up}${down}Z`;
}

// A picture whose places are told: by the pointer, and by the arrow keys when it has the focus. `tell` says what is at a place from 0 to 1.
function told(svg, title, tell, step = 0.01) {
  const output = make('output', {}, '');
  const cursor = draw('line', { y1: 0, y2: '100%', stroke: 'var(--text)', 'vector-effect': 'non-scaling-stroke', visibility: 'hidden' });
  const frame = make('div', { style: { position: 'relative' } }, svg);
  const over = draw('svg', { style: { position: 'absolute', inset: 0, height: '100%', 'pointer-events': 'none' } }, cursor);
  frame.append(over);
  let at = 0;
  const look = (place) => {
    at = Math.min(1, Math.max(0, place));
    cursor.setAttribute('x1', `${100 * at}%`);
    cursor.setAttribute('x2', `${100 * at}%`);
    cursor.setAttribute('visibility', 'visible');
    output.textContent = tell(Math.min(at, 0.999999));
  };
  const leave = () => { cursor.setAttribute('visibility', 'hidden'); output.textContent = ''; };
  frame.tabIndex = 0;
  frame.setAttribute('role', 'slider');
  frame.setAttribute('aria-label', title);
  frame.setAttribute('aria-valuemin', 0);
  frame.setAttribute('aria-valuemax', 100);
  frame.setAttribute('aria-valuenow', 0);
  frame.addEventListener('pointermove', (event) => {
    const box = frame.getBoundingClientRect();
    look((event.clientX - box.left) / box.width);
  });
  frame.addEventListener('pointerleave', leave);
  frame.addEventListener('focus', () => look(at));
  frame.addEventListener('blur', leave);
  frame.addEventListener('keydown', (event) => {
    const moves = { ArrowLeft: at - step, ArrowRight: at + step, Home: 0, End: 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    look(moves[event.key]);
    frame.setAttribute('aria-valuenow', Math.round(100 * at));
    frame.setAttribute('aria-valuetext', output.textContent);
  });
  return { frame, output };
}

function stretched(width, height, pixels, ...children) {
  return draw('svg', {
    viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', style: { height: `${pixels}px`, background: 'var(--raised)' }, 'aria-hidden': 'true',
  }, ...children);
}

// Labels at equal distances.
function scale(length, unit) {
  const labels = [0, 0.25, 0.5, 0.75, 1].map((part) => make('span', {}, brief(length * part, unit)));
  return make('div', { class: 'scale' }, labels);
}

function figure(title, { frame, output }, ...behind) {
  return make('figure', {}, make('figcaption', {}, title, ' ', output), frame, behind);
}

const BUSY = [
  ['computation_ns', 'computation', colour(0)], ['exposed_comm_ns', 'exposed communication', colour(1)],
  ['exposed_memcpy_ns', 'exposed copies', colour(2)], ['idle_ns', 'idle', 'var(--idle)'],
];
const busyLegend = () => legend(BUSY.map(([, name]) => name), (at) => BUSY[at][2]);

const nameOfGpu = (row) => [owner(row), row.name].filter(Boolean).join(' · ');

// A map has so many rows and columns at most, and so many shades.
const MAP_ROWS = 120;
const MAP_COLUMNS = 240;
const SHADES = 8;

// GPUs down, time across: the darker, the idler, so that one that waits for the others, or all waiting together, is seen among a thousand.
function idleMap(rows) {
  if (rows.length <= DRAWN_AT_FIRST) return null;
  // Each machine has an axis of its own, from its first record on.
  const axis = Math.max(...rows.map((row) => row.axis_ns));
  const columns = Math.min(MAP_COLUMNS, Math.max(...rows.map((row) => row.below[0].rows.length)));
  const idleness = (row) => {
    const parts = row.below[0].rows;
    return Array.from({ length: columns }, (_, at) => {
      const from = Math.floor(at * axis / columns / row.bucket_ns);
      const stretch = parts.slice(from, Math.max(from + 1, Math.floor((at + 1) * axis / columns / row.bucket_ns)));
      if (!stretch.length) return null;
      const busy = stretch.reduce((sum, [computation, comm, copies]) => sum + computation + comm + copies, 0);
      return Math.min(1, Math.max(0, 1 - busy / (stretch.length * row.bucket_ns)));
    });
  };
  const together = Math.ceil(rows.length / MAP_ROWS);
  const lanes = [];
  for (let first = 0; first < rows.length; first += together) {
    const group = rows.slice(first, first + together);
    const all = group.map(idleness);
    lanes.push({
      name: group.length > 1 ? `${counted(group.length, 'GPU')} from ${nameOfGpu(group[0])}` : nameOfGpu(group[0]),
      idle: all[0].map((_, at) => {
        const known = all.map((one) => one[at]).filter((share) => share !== null);
        return known.length ? known.reduce((sum, share) => sum + share, 0) / known.length : null;
      }),
    });
  }
  // A path for each shade: a rectangle of its own for each place would be too many.
  const paths = Array(SHADES + 1).fill('');
  lanes.forEach(({ idle }, down) => idle.forEach((share, at) => {
    if (share !== null) paths[Math.round(SHADES * share)] += `M${at} ${down}h1v1h-1z`;
  }));
  const shades = paths.map((d, shade) => (shade && d ? draw('path', { d, fill: 'var(--soft)', 'fill-opacity': (shade / SHADES).toFixed(2) }) : null));
  const title = 'GPUs (down) by time (across): the darker, the idler';
  const tell = (place) => {
    const at = Math.floor(place * columns);
    const order = lanes.filter((lane) => lane.idle[at] !== null).sort((one, other) => other.idle[at] - one.idle[at]);
    if (!order.length) return '';
    const median = order[Math.floor(order.length / 2)].idle[at];
    return `at ${brief(place * axis, 'ns')}: ${order[0].name} idle ${quantity(order[0].idle[at], 'share')}, the median ${quantity(median, 'share')}`;
  };
  const pixels = Math.max(120, Math.min(480, 7 * lanes.length));
  return make('div', { 'data-plot': 'idle_map' },
    figure(title, told(stretched(columns, lanes.length, pixels, shades.filter(Boolean)), title, tell, 1 / columns), scale(axis, 'ns')));
}

// GPUs over time: what part of each stretch of time they were busy with what.
function busyOverTime(table) {
  const rows = records(table);
  if (!rows.length) return null;
  const isOneAxis = rows.every((row) => row.axis_ns === rows[0].axis_ns);
  const course = (row) => {
    const parts = row.below[0].rows;
    const shares = parts.map((part) => part.slice(0, 3).map((time) => time / row.bucket_ns));
    const floors = parts.map(() => 1);
    const paths = BUSY.slice(0, 3).map(([, , fill], what) => {
      const tops = floors.map((floor, at) => Math.max(0, floor - shares[at][what]));
      const path = draw('path', { d: steps(tops, floors), fill });
      tops.forEach((top, at) => { floors[at] = top; });
      return path;
    });
    const tell = (place) => {
      const at = Math.floor(place * parts.length);
      const [computation, comm, copies] = shares[at];
      const words = [computation, comm, copies].map((share, what) => `${BUSY[what][1]} ${quantity(share, 'share')}`);
      return `at ${brief(at * row.bucket_ns, 'ns')}: ${words.join(', ')}, idle ${quantity(Math.max(0, 1 - computation - comm - copies), 'share')}`;
    };
    const title = nameOfGpu(row);
    return figure(title, told(stretched(parts.length, 1, 44, paths), title, tell, 1 / parts.length), isOneAxis ? null : scale(row.axis_ns, 'ns'));
  };
  const [box, button] = few(make('div'), rows, course, 'GPU');
  return make('div', { 'data-plot': 'busy' }, make('h3', {}, 'GPUs'), idleMap(rows), busyLegend(), box,
    isOneAxis ? scale(rows[0].axis_ns, 'ns') : null, button);
}

// The points of a course as an outline: time in thousandths of the axis, values from 0 to 1.
function outline(points, axis) {
  return points.map(([time, value], at) => `${at ? 'L' : 'M'}${(1000 * time / axis).toFixed(2)} ${(1 - value).toFixed(4)}`).join('');
}

// Processors that processes had.
function processorsOverTime(table) {
  const rows = records(table);
  if (!rows.length) return null;
  const most = Math.max(1, ...rows.flatMap((row) => row.below[0].rows.map(([, time]) => time / row.bucket_ns)));
  const course = (row) => {
    const axis = Math.max(row.axis_ns, row.bucket_ns);
    let path = '';
    const values = row.below[0].rows;
    for (const [start, time] of values) {
      const [left, right] = [start, start + row.bucket_ns].map((at) => (1000 * Math.min(at, axis) / axis).toFixed(2));
      path += `M${left} 1V${(1 - time / row.bucket_ns / most).toFixed(4)}H${right}V1Z`;
    }
    const tell = (place) => {
      const at = place * axis;
      const found = values.find(([start]) => start <= at && at < start + row.bucket_ns);
      return `at ${brief(at, 'ns')}: ${((found?.[1] ?? 0) / row.bucket_ns).toFixed(2)} processors`;
    };
    const title = `${owner(row)} · ${quantity(row.cpu_ns, 'ns')} of CPU time`;
    return figure(title, told(stretched(1000, 1, 36, draw('path', { d: path, fill: colour(0) })), title, tell));
  };
  const height = `Full height: ${brief(most, '')} processor${most === 1 ? '' : 's'}`;
  const [box, button] = few(make('div'), rows, course, 'process');
  return make('div', { 'data-plot': 'processors' }, make('h3', {}, 'Processors that programs had'), make('p', { class: 'soft' }, height), box,
    scale(rows[0].axis_ns, 'ns'), button);
}

// Units of counters that are shown in one that fits.
const UNITS = { B: 'bytes', bytes: 'bytes', 'B/s': 'bandwidth', ns: 'ns' };

// What counters said: least to greatest as a band, the mean as a line.
function curves(table, wanted) {
  const rows = records(table).filter(wanted);
  if (!rows.length) return null;
  const curve = (row) => {
    const values = row.below[0].rows;
    const axis = Math.max(row.axis_ns, row.bucket_ns, 1);
    const least = Math.min(...values.map((value) => value[1]));
    const most = Math.max(...values.map((value) => value[3]));
    const [floor, height] = least >= 0 && least < 0.5 * most ? [0, most] : [least, most - least];
    const part = (value) => (height > 0 ? 0.05 + 0.9 * (value - floor) / height : value === 0 ? 0.05 : 0.5);
    const shape = (at) => values.map((value) => [Math.min(value[0], axis), part(value[at])]);
    // The last value holds to the end.
    const held = (points) => [...points, [axis, points[points.length - 1][1]]];
    const band = `${outline(held(shape(3)), axis)}${outline(held(shape(1)).reverse(), axis).replace('M', 'L')}Z`;
    const svg = stretched(1000, 1, 84, draw('path', { d: band, fill: colour(0), opacity: 0.3 }),
      draw('path', { d: outline(held(shape(2)), axis), fill: 'none', stroke: colour(0), 'stroke-width': 1.6, 'vector-effect': 'non-scaling-stroke' }));
    const words = (value) => (row.unit in UNITS ? brief(value, UNITS[row.unit]) : `${brief(value, '')} ${row.unit}`.trim());
    const tell = (place) => {
      const found = values.filter(([start]) => start <= place * axis).pop();
      return found ? `at ${brief(place * axis, 'ns')}: ${words(found[2])}` : '';
    };
    // Sensors and counters of a machine have it in their names.
    const title = [row.group, row.name, ofGpu(row) || row.name.startsWith('Host ') ? '' : owner(row)].filter(Boolean).join(' · ');
    const range = least === most ? words(most) : `${words(least)} to ${words(most)}`;
    return figure([make('b', {}, title), ` ${range} `], told(svg, `${title}: ${range}`, tell), scale(row.axis_ns, 'ns'));
  };
  return make('div', { 'data-plot': 'curves' }, few(make('div', { class: 'curves' }), rows, curve, 'curve'));
}

function memoryOverTime(table) {
  const rows = records(table).filter((row) => row.below.some((below) => below.key === 'over_time' && below.rows.length > 1));
  if (!rows.length) return null;
  const course = (row) => {
    const parts = records(row.below.find((below) => below.key === 'over_time'));
    const most = Math.max(1, ...parts.map((part) => part.max_bytes));
    const tops = parts.map((part) => 1 - part.max_bytes / most);
    const tell = (place) => {
      const part = parts[Math.floor(place * parts.length)];
      return `at ${brief(part.start_ns - parts[0].start_ns, 'ns')}: up to ${quantity(part.max_bytes, 'bytes')}`;
    };
    const svg = stretched(parts.length, 1, 84, draw('path', { d: steps(tops, tops.map(() => 1)), fill: colour(2) }));
    const title = `${owner(row)} · ${row.memory}`;
    return figure([make('b', {}, title), ` up to ${quantity(row.peak_bytes, 'bytes')} `], told(svg, title, tell, 1 / parts.length),
      scale(parts.length * parts[0].duration_ns, 'ns'));
  };
  return make('div', { 'data-plot': 'memory' }, few(make('div', { class: 'curves' }), rows, course, 'memory'));
}

// Fewer classes than this would be bars too wide to be read as such.
const CLASSES_MIN = 16;

// How the durations of a kernel spread, on a logarithmic scale; the kernel is chosen.
function durations(table) {
  const rows = records(table);
  if (!rows.length) return null;
  const place = make('div');
  const show = (row) => {
    const classes = row.below[0].rows;
    // Four classes lie between a power of two and the next.
    const number = (from) => {
      const power = Math.floor(Math.log2(Math.max(1, from)));
      return 4 * power + Math.floor(4 * (from / 2 ** power - 1));
    };
    const from = (at) => 2 ** Math.floor(at / 4) * (1 + (at % 4) / 4);
    const [least, greatest] = [number(classes[0][0]), number(classes[classes.length - 1][0])];
    const width = Math.max(CLASSES_MIN, greatest - least + 3);
    const first = Math.max(0, Math.floor((least + greatest + 1 - width) / 2));
    const most = Math.max(...classes.map(([, , count]) => count));
    const bars = classes.map(([at, , count]) => draw('rect', {
      x: number(at) - first + 0.04, y: 1 - 0.96 * count / most, width: 0.92, height: 0.96 * count / most, fill: colour(0),
    }));
    const tell = (place) => {
      const at = first + Math.floor(place * width);
      const found = classes.find(([least]) => number(least) === at);
      return found ? `${brief(found[0], 'ns')} to ${brief(found[1], 'ns')}: ${counted(found[2], 'kernel')}` : `${brief(from(at), 'ns')}: none`;
    };
    const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => make('span', {}, brief(from(first + Math.round(part * width)), 'ns')));
    const range = make('div', { class: 'scale' }, marks);
    const total = classes.reduce((sum, [, , count]) => sum + count, 0);
    place.replaceChildren(figure(`${counted(total, 'kernel')}, at most ${most.toLocaleString('en')} in a bar `,
      told(stretched(width, 1, 130, bars), 'Durations', tell, 1 / width), range));
  };
  const choice = make('select', { 'aria-label': 'Kernel', style: { 'max-width': '100%' }, onchange: (event) => show(rows[event.target.value]) },
    rows.map((row, at) => make('option', { value: at }, row.name.length > 120 ? `${row.name.slice(0, 119)}…` : row.name)));
  show(rows[0]);
  return make('div', { 'data-plot': 'durations' }, make('h3', {}, 'How durations spread, on a logarithmic scale'), choice, place);
}

// Rates of operators over their intensity, under the roof of each model of GPU, both on logarithmic scales: a circle is a row, its area is its time.
function roofline(part) {
  const of = (key) => records(part?.tables.find((table) => table.key === key));
  const points = of('efficiency').filter((row) => row.tflop_per_s > 0 && row.flop_per_byte > 0);
  const roofs = new Map();
  for (const gpu of of('efficiency_devices')) if (gpu.peaks && gpu.memory_bytes_per_s) roofs.set(gpu.peaks, gpu);
  if (!points.length) return null;
  const [width, height, edge] = [900, 420, 46];
  const peaks = [...roofs.values()].flatMap((gpu) => [['bf16', gpu.bf16_matrix_tflop_per_s], ['vector fp32', gpu.fp32_vector_tflop_per_s]]
    .filter(([, rate]) => rate > 0).map(([name, rate]) => ({ name: `${gpu.peaks}, ${name}`, rate, memory: gpu.memory_bytes_per_s / 1e12 })));
  const ends = (values) => {
    const logs = values.map(Math.log10);
    return [Math.floor(Math.min(...logs)), Math.ceil(Math.max(...logs) + 0.01)];
  };
  const across = ends([...points.map((row) => row.flop_per_byte), ...peaks.map(({ rate, memory }) => rate / memory)]);
  const up = ends([...points.map((row) => row.tflop_per_s), ...peaks.map(({ rate }) => rate)]);
  const x = (value) => edge + (width - edge - 10) * (Math.log10(value) - across[0]) / (across[1] - across[0]);
  const y = (value) => height - edge + (edge + 10 - height) * (Math.log10(value) - up[0]) / (up[1] - up[0]);
  const powers = ([from, to]) => Array.from({ length: to - from + 1 }, (_, at) => 10 ** (from + at));
  const line = (from, to, ink) => draw('line', { x1: from[0], y1: from[1], x2: to[0], y2: to[1], stroke: ink, 'stroke-width': 1 });
  const text = (at, words, anchor) => draw('text', { x: at[0], y: at[1], 'text-anchor': anchor, fill: 'var(--soft)', 'font-size': 12 }, words);
  const grid = [
    ...powers(across).flatMap((power) => [line([x(power), y(10 ** up[0])], [x(power), y(10 ** up[1])], 'var(--grid)'), text([x(power), height - edge + 16], `${power}`, power === 10 ** across[1] ? 'end' : 'middle')]),
    ...powers(up).flatMap((power) => [line([x(10 ** across[0]), y(power)], [x(10 ** across[1]), y(power)], 'var(--grid)'), text([edge - 6, y(power) + 4], `${power}`, 'end')]),
    text([width - 10, height - 10], 'operations for each byte', 'end'), text([edge + 6, 24], 'TFLOP/s', 'start'),
  ];
  const drawn = peaks.flatMap(({ name, rate, memory }) => {
    const left = Math.max(10 ** across[0], 10 ** up[0] / memory);
    const roof = `M${x(left)} ${y(left * memory)}L${x(rate / memory)} ${y(rate)}L${x(10 ** across[1])} ${y(rate)}`;
    return [draw('path', { d: roof, fill: 'none', stroke: 'var(--text)', 'stroke-width': 1.5 }), text([x(10 ** across[1]), y(rate) - 4], name, 'end')];
  });
  const families = [...new Set(of('efficiency').map((row) => row.category))].sort();
  const longest = Math.max(...points.map((row) => row.busy_ns));
  const circles = points.map((row) => {
    const told = [row.operator ?? row.kernels ?? row.category, row.types, row.shapes, `${row.tflop_per_s.toPrecision(3)} TFLOP/s`, `${quantity(row.bytes_per_s, 'bandwidth')}`,
      row.roofline_share === null ? null : `${quantity(row.roofline_share, 'share')} of the roofline`, `${quantity(row.busy_ns, 'ns')}`];
    return draw('circle', {
      cx: x(row.flop_per_byte), cy: y(row.tflop_per_s), r: Math.max(3, 24 * Math.sqrt(row.busy_ns / longest)), fill: colour(families.indexOf(row.category)), 'fill-opacity': 0.65,
      stroke: 'var(--text)', 'stroke-width': 0.5,
    }, draw('title', {}, told.filter(Boolean).join('\n')));
  });
  const shown = families.filter((family) => points.some((row) => row.category === family));
  const words = `${counted(points.length, 'operator')} by operations for each byte and TFLOP/s; the table below has the numbers`;
  return make('div', { 'data-plot': 'roofline' }, make('h3', {}, 'Roofline: rates (up) over operations for each byte (across), areas by time'),
    legend(shown, (at) => colour(families.indexOf(shown[at]))),
    draw('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': words, style: { width: '100%', background: 'var(--raised)' } }, grid, drawn, circles));
}

// Rows of tables that are not on the page.
const leftOut = (tables) => tables.reduce((sum, table) => sum + table.count - table.rows.length, 0);

// Time of each GPU, and why it was idle.
function timelineBars(tables) {
  const rows = tables.flatMap(records).filter((row) => row.total_ns > 0);
  if (!rows.length) return null;
  const bars = rows.map((row) => ({
    name: row.processes ? `GPU ${row.device} · ${counted(row.processes, 'process')}` : owner(row),
    whole: row.total_ns,
    isSum: Boolean(row.processes),
    parts: BUSY.map(([key, name, fill]) => ({ name, value: row[key], colour: fill })),
  }));
  return make('div', { 'data-plot': 'timeline' }, busyLegend(), stacks(bars, 'ns', 'GPU', leftOut(tables)));
}

function gapBars(tables) {
  const rows = tables.flatMap(records).filter((row) => row.idle_ns > 0 && row.below.length);
  if (!rows.length) return null;
  const sums = new Map();
  const bars = rows.map((row) => {
    const causes = new Map();
    for (const { text, idle_ns: time } of records(row.below[0])) {
      causes.set(text, (causes.get(text) ?? 0) + time);
      sums.set(text, (sums.get(text) ?? 0) + time);
    }
    return { name: owner(row), whole: row.idle_ns, causes };
  });
  const names = [...sums.keys()].sort((one, other) => sums.get(other) - sums.get(one));
  for (const bar of bars) bar.parts = names.map((name, at) => ({ name, value: bar.causes.get(name) ?? 0, colour: colour(at) }));
  return make('div', { 'data-plot': 'gaps' }, legend(names), stacks(bars, 'ns', 'GPU', leftOut(tables)));
}

// Ranks down, numbers across: the darker, the more `more` says of a rank there; full where that is a fifth of what `whole` is of the rank.
function rankMap(rows, { kind, title, what, doing, whole, more }) {
  const places = rows[0].below[0].rows;
  const name = (row) => (row.ranks > 1 ? `${row.ranks} ranks from ${row.rank}` : `rank ${row.rank ?? '?'}`);
  const cells = rows.flatMap((row, down) => places.map((_, at) => {
    const part = Math.min(1, more(down, at) / (0.2 * whole(row) || 1));
    return part < 0.02 ? null : draw('rect', { x: at, y: down, width: 1, height: 1, fill: 'var(--c1)', 'fill-opacity': part.toFixed(2) });
  }));
  // Nobody stands out: no picture.
  if (!cells.some(Boolean)) return null;
  const tell = (place) => {
    const at = Math.floor(place * places.length);
    const most = rows.reduce((best, _, down) => (more(down, at) > more(best, at) ? down : best), 0);
    return `${what} ${places[at][0]}: ${name(rows[most])} ${doing(brief(more(most, at), 'ns'))}`;
  };
  const pixels = Math.max(44, Math.min(480, 12 * rows.length));
  return make('div', { 'data-plot': kind },
    figure(title, told(stretched(places.length, rows.length, pixels, cells.filter(Boolean)), title, tell, 1 / places.length)));
}

// What ranks had to do besides communication in iterations, more than the median of the ranks.
function iterationMap(table) {
  const rows = records(table);
  if (rows.length < 2) return null;
  const places = rows.map((row) => row.below[0].rows);
  const usual = places[0].map((_, at) => {
    const known = places.map((row) => row[at][1]).filter((own) => own !== null).sort((one, other) => one - other);
    return known[Math.floor((known.length - 1) / 2)] ?? 0;
  });
  return rankMap(rows, {
    kind: 'iterations',
    title: 'Ranks (down) by iterations (across): what they had to do beyond the median of the ranks',
    what: 'iteration',
    doing: (time) => `had ${time} more to do than the median`,
    whole: (row) => row.iteration_ns,
    more: (row, at) => Math.max(0, (places[row][at][1] ?? 0) - usual[at]),
  });
}

// By how much ranks were late by themselves in the collectives of the communicator that has most of them.
function collectiveMap(table) {
  const rows = records(table);
  if (rows.length < 2) return null;
  return rankMap(rows, {
    kind: 'collectives',
    title: `Ranks (down) by collectives of communicator ${rows[0].communicator} (across): by how much they were late by themselves`,
    what: 'collective',
    doing: (time) => `came ${time} after the median, by itself`,
    whole: (row) => row.segment_ns,
    more: (row, at) => rows[row].below[0].rows[at][1] ?? 0,
  });
}
