// Flame graphs: callers above what they call, as wide as their time. Clicked or chosen with Enter, a frame becomes as wide as the graph.

const ROW = 19;
const LETTER = 7.3;

// The tree of a table: nodes with their children, largest first.
function tree(table, frames) {
  const root = { name: 'all', children: [], parent: null, depth: 0, total: 0, own: 0 };
  const nodes = [];
  for (const [parent, frame, line, own, total] of table.rows) {
    const [name, module, source] = typeof frame === 'number' ? frames.rows[frame] : [frame, null, null];
    const above = parent === null ? root : nodes[parent];
    const node = { name, module, source, line, own, total, isGroup: typeof frame !== 'number', parent: above, depth: above.depth + 1, children: [] };
    above.children.push(node);
    nodes.push(node);
  }
  root.total = root.children.reduce((sum, node) => sum + node.total, 0);
  for (const node of [root, ...nodes]) node.children.sort((one, other) => other.total - one.total);
  return { root, nodes };
}

function hash(text) {
  let sum = 7;
  for (let at = 0; at < text.length; at += 1) sum = (sum * 31 + text.charCodeAt(at)) % 9973;
  return sum / 9973;
}

// Light in both themes: names stand on it in dark letters. Python is green, marks are grey, all else goes by its file.
function tint(node) {
  const part = hash(node.name);
  if (!node.parent || node.isGroup || node.name.startsWith('[') || node.name.startsWith('(')) return 'hsl(215 14% 80%)';
  if (node.source?.endsWith('.py') || node.source?.startsWith('<')) return `hsl(${95 + 55 * part} 48% ${72 + 8 * hash(`${node.name}.`)}%)`;
  return `hsl(${8 + 44 * hash(node.module ?? '')} 82% ${70 + 10 * part}%)`;
}

class FlameView {
  constructor({ root, nodes }, title) {
    this.root = root;
    this.nodes = nodes;
    this.zoomed = root;
    this.current = root;
    this.search = null;
    this.places = new Map();
    this.found = make('span', { class: 'soft', role: 'status' });
    this.input = make('input', {
      type: 'search', placeholder: 'Search (regular expression)', 'aria-label': `Search in ${title}`, oninput: (event) => this.look(event.target.value),
    });
    this.reset = make('button', { type: 'button', onclick: () => this.zoom(this.root) }, 'Whole graph');
    this.detail = make('div', { class: 'detail', role: 'status' });
    this.svg = draw('svg', { role: 'tree', 'aria-label': `Flame graph: ${title}` });
    this.frame = make('div', { class: 'flame' }, this.svg);
    this.element = make('div', { 'data-flame': title },
      make('div', { class: 'bar-of-tools' }, this.input, this.reset, this.found,
        make('span', { class: 'soft push' }, make('kbd', {}, '←↑↓→'), ' move ', make('kbd', {}, 'Enter'), ' zoom ', make('kbd', {}, 'Esc'), ' out ',
          make('kbd', {}, '/'), ' search')),
      this.frame, this.detail);
    this.svg.addEventListener('click', (event) => this.at(event, (node) => this.zoom(node)));
    this.svg.addEventListener('pointerover', (event) => this.at(event, (node) => this.tell(node)));
    this.svg.addEventListener('focusin', (event) => this.at(event, (node) => { this.current = node; this.tell(node); }));
    this.svg.addEventListener('keydown', (event) => this.key(event));
    this.width = 0;
    new ResizeObserver(() => {
      const width = this.frame.clientWidth - 4;
      if (width > 0 && Math.abs(width - this.width) > 1) {
        this.width = width;
        this.draw();
      }
    }).observe(this.frame);
    this.tell(root);
  }

  at(event, then) {
    const box = event.target.closest('g');
    if (box?.node) then(box.node);
  }

  // All that is on the way to what is zoomed is as wide as the graph; below it, frames are as wide as their time.
  draw() {
    this.places.clear();
    const drawn = [];
    const above = [];
    for (let node = this.zoomed.parent; node; node = node.parent) above.unshift(node);
    for (const node of above) drawn.push([node, 0, this.width]);
    const todo = [[this.zoomed, 0]];
    const scaling = this.width / Math.max(1, this.zoomed.total);
    while (todo.length) {
      const [node, left] = todo.pop();
      const width = node.total * scaling;
      if (width < 0.6 && node !== this.zoomed) continue;
      drawn.push([node, left, width]);
      let at = left;
      for (const child of node.children) {
        todo.push([child, at]);
        at += child.total * scaling;
      }
    }
    const depth = Math.max(...drawn.map(([node]) => node.depth)) + 1;
    this.svg.setAttribute('width', this.width);
    this.svg.setAttribute('viewBox', `0 0 ${this.width} ${depth * ROW}`);
    this.svg.style.height = `${depth * ROW}px`;
    this.svg.replaceChildren(...drawn.map(([node, left, width]) => this.box(node, left, width)));
    if (!this.places.has(this.current)) this.current = this.zoomed;
    this.places.get(this.current)?.setAttribute('tabindex', 0);
    this.reset.disabled = this.zoomed === this.root;
  }

  box(node, left, width) {
    const matches = this.search?.test(node.name);
    const fill = this.search ? (matches ? 'hsl(300 75% 80%)' : 'hsl(215 10% 84%)') : tint(node);
    const letters = Math.floor((width - 6) / LETTER);
    const name = node.name.length <= letters ? node.name : letters >= 3 ? `${node.name.slice(0, letters - 1)}…` : '';
    const group = draw('g', {
      tabindex: -1, role: 'treeitem', 'aria-level': node.depth + 1, 'aria-label': this.words(node), class: matches ? 'is-found' : null,
      opacity: node.depth < this.zoomed.depth ? 0.65 : null,
    }, draw('rect', { x: left.toFixed(2), y: node.depth * ROW, width: Math.max(0.6, width).toFixed(2), height: ROW - 1, rx: 2, fill }),
    name ? draw('text', { x: (left + 4).toFixed(2), y: node.depth * ROW + 13 }, name) : null);
    group.node = node;
    this.places.set(node, group);
    return group;
  }

  words(node) {
    return `${node.name}, ${quantity(node.total, 'ns')}, ${quantity(node.total / Math.max(1, this.root.total), 'share')}`;
  }

  tell(node) {
    const place = node.source ? `${node.source}${node.line ? `:${node.line}` : ''}` : null;
    const share = (time) => quantity(time / Math.max(1, this.root.total), 'share');
    const time = `${quantity(node.total, 'ns')} (${share(node.total)}), in itself ${quantity(node.own, 'ns')} (${share(node.own)})`;
    const module = node.module && node.module !== node.source ? node.module : null;
    this.detail.replaceChildren(make('div', {}, make('b', {}, node.name)), make('div', {}, time),
      make('div', { class: 'soft' }, [place, module].filter(Boolean).join(' · ')));
  }

  zoom(node) {
    const hadFocus = this.svg.contains(document.activeElement);
    this.zoomed = node;
    this.current = node;
    this.draw();
    this.tell(node);
    if (hadFocus) this.places.get(node).focus({ preventScroll: true });
  }

  go(node) {
    const place = node && this.places.get(node);
    if (!place) return;
    this.places.get(this.current)?.setAttribute('tabindex', -1);
    place.setAttribute('tabindex', 0);
    place.focus();
  }

  key(event) {
    const node = this.current;
    const beside = (step) => {
      const row = node.parent?.children ?? [];
      return row[row.indexOf(node) + step];
    };
    const moves = {
      ArrowUp: () => this.go(node.parent),
      ArrowDown: () => this.go(node.children[0]),
      ArrowLeft: () => this.go(beside(-1)),
      ArrowRight: () => this.go(beside(1)),
      Home: () => this.go(this.zoomed),
      Enter: () => this.zoom(node),
      ' ': () => this.zoom(node),
      Escape: () => this.zoom(this.zoomed.parent ?? this.root),
      '/': () => this.input.focus(),
    };
    if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in moves)) return;
    event.preventDefault();
    moves[event.key]();
  }

  look(text) {
    this.search = null;
    this.found.textContent = '';
    this.input.setAttribute('aria-invalid', 'false');
    if (text) {
      try {
        this.search = new RegExp(text, 'i');
      } catch {
        this.input.setAttribute('aria-invalid', 'true');
        this.found.textContent = 'not a regular expression';
      }
    }
    if (this.search) {
      const { count, time } = this.matching();
      this.found.textContent = `${counted(count, 'frame')}, ${quantity(time, 'ns')}, ${quantity(time / Math.max(1, this.root.total), 'share')}`;
    }
    this.draw();
  }

  // How many frames match, and the time of those that stand under no other that does.
  matching() {
    const matches = new Map([[this.root, false]]);
    let [count, time] = [0, 0];
    for (const node of this.nodes) {
      const own = this.search.test(node.name);
      if (own) count += 1;
      if (own && !matches.get(node.parent)) time += node.total;
      matches.set(node, own || matches.get(node.parent));
    }
    return { count, time };
  }
}

// One graph at a time, chosen among those that there are.
function flames(part) {
  const frames = part?.tables.find((table) => table.key === 'flame_frames');
  const found = (part?.tables ?? []).filter((table) => table !== frames && table.rows.length);
  if (!found.length) return null;
  const place = make('div', { role: 'tabpanel', id: 'flame-panel' });
  const tabs = found.map((table) => {
    let view = null;
    const show = (event) => {
      view ??= new FlameView(tree(table, frames), table.title);
      tabs.forEach((tab) => { tab.setAttribute('aria-selected', String(tab === button)); tab.tabIndex = tab === button ? 0 : -1; });
      place.replaceChildren(view.element);
      if (event) button.focus();
    };
    const button = make('button', { type: 'button', role: 'tab', 'aria-controls': 'flame-panel', 'aria-selected': 'false', onclick: show }, table.title);
    button.show = show;
    return button;
  });
  const bar = make('div', { class: 'bar-of-tools', role: 'tablist', 'aria-label': 'Time of' }, tabs);
  bar.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const at = tabs.indexOf(document.activeElement);
    if (step && at >= 0) tabs[(at + step + tabs.length) % tabs.length].show(event);
  });
  tabs[0].show();
  return make('div', { 'data-plot': 'flame' }, bar, place);
}
